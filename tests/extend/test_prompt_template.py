"""The text of a command with its arguments, files and shell commands."""

from __future__ import annotations

import pytest

from holdfast.extend.prompt_template import fill_template
from holdfast.schema.commands import CommandOutput, FileMention, PromptPiece, ResourceMention


def fill(template: str, typed: str = "", *, names_arguments: bool = False) -> list[PromptPiece]:
    pieces = fill_template(template, typed, names_arguments=names_arguments)
    return [piece for piece in pieces if piece != ""]


def text_of(template: str, typed: str = "", **fields: bool) -> str:
    return "".join(str(piece) for piece in fill(template, typed, **fields))


@pytest.mark.parametrize(
    ("template", "typed", "wanted"),
    [
        ("Fix $ARGUMENTS now", "issue 7", "Fix issue 7 now"),
        ("Compare $1 with $2", "'a b' c d", "Compare a b with c"),
        ("Only $2.", "a", "Only ."),
        ("$10 and $1", "a", " and a"),
        ("No place", "more words", "No place\n\nmore words"),
        ("No place", "", "No place"),
        ("It's $1", "don't", "It's don't"),
        ("costs $5x and $HOME", "", "costs $5x and $HOME"),
    ],
)
def test_arguments_are_filled_in(template: str, typed: str, wanted: str) -> None:
    assert text_of(template, typed) == wanted


def test_named_arguments_take_words_in_order_or_by_name() -> None:
    template = "Issue $ISSUE by $AUTHOR: $ISSUE ($ARGUMENTS)"
    assert text_of(template, "7 ann", names_arguments=True) == "Issue 7 by ann: 7 (7 ann)"
    assert text_of("$A $B", "B=2 1", names_arguments=True) == "1 2"


def test_commands_and_files_are_pieces_of_their_own() -> None:
    assert fill("State: !`git status --short $1`. See @src/$1, @docs/a.md.\nmail me@x.org, `@a`, \\@b", "slug.py") == [
        "State: ",
        CommandOutput("git status --short slug.py"),
        ". See ",
        FileMention("src/slug.py"),
        ", ",
        FileMention("docs/a.md"),
        ".\nmail me@x.org, `@a`, \\@b",
    ]


@pytest.mark.parametrize("typed", ["!`rm -rf x` @secret", "$1 $ARGUMENTS", "'; rm -rf x #'"])
def test_arguments_are_never_taken_for_commands_files_or_places(typed: str) -> None:
    assert fill("Do $ARGUMENTS", typed) == ["Do ", typed]


def test_arguments_in_a_shell_command_are_quoted() -> None:
    assert fill("!`git show $1`", "'x; rm -rf y'") == [CommandOutput("git show 'x; rm -rf y'")]
    assert fill("!`grep $ARGUMENTS f`", "a '$(b)'") == [CommandOutput("grep a '$(b)' f")]
    assert fill("!`ls $1`") == [CommandOutput("ls")]


def test_a_resource_of_a_server_is_a_mention_and_a_file_with_a_colon_is_not() -> None:
    assert fill("See @docs:note://a/$1, then @a.py: done", "7") == [
        "See ",
        ResourceMention("docs", "note://a/7"),
        ", then ",
        FileMention("a.py"),
        ": done",
    ]
