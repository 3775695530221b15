"""What the patterns of rules match."""

import pytest

from holdfast.approvals.rule_patterns import CommandPattern, PathPattern
from holdfast.approvals.shell.shell_words import Arg


def _match(pattern: str, *words: str | Arg) -> str:
    return CommandPattern.parse(pattern).compare(tuple(Arg(word) if isinstance(word, str) else word for word in words))


def test_a_final_star_matches_zero_or_more_words() -> None:
    assert _match("git status *", "git", "status") == "yes"
    assert _match("git status *", "git", "status", "-s", "src") == "yes"
    assert _match("git status *", "git", "stash") == "no"
    assert _match("git status", "git", "status", "-s") == "no"
    assert _match("git *", "git") == "yes"
    assert _match("*", "anything", "at all") == "yes"


def test_a_star_inside_a_word_matches_only_that_word() -> None:
    assert _match("npm run test:*", "npm", "run", "test:unit") == "yes"
    assert _match("npm run test:*", "npm", "run", "test:unit", "x") == "no"
    assert _match("cp * b", "cp", "a", "b") == "yes"
    assert _match("cp * b", "cp", "a", "c", "b") == "no"
    assert _match("a?c", "abc") == "yes"


def test_quoted_and_escaped_stars_are_ordinary_characters() -> None:
    assert _match("grep 'a*' x", "grep", "a*", "x") == "yes"
    assert _match("grep 'a*' x", "grep", "aab", "x") == "no"
    assert _match("grep '*'", "grep", "anything") == "no"
    assert _match("grep \\*", "grep", "*") == "yes"
    assert _match("git commit -m 'two words'", "git", "commit", "-m", "two words") == "yes"


def test_an_unknown_word_may_match_but_never_certainly() -> None:
    unknown = Arg("$X", "dynamic")
    assert _match("git push *", "git", unknown) == "maybe"
    assert _match("git push *", unknown) == "maybe"
    assert _match("git push *", "git", "pull", unknown) == "no"
    assert _match("git push *", "git", "push", unknown) == "yes"
    assert _match("git push", "git", "push", unknown) == "maybe"
    assert _match("cp a b", "cp", unknown, "b") == "maybe"
    assert _match("cp a b", "cp", unknown, "c") == "no"
    assert _match("git push *", "git", Arg("pus*", "glob")) == "maybe"
    assert _match("git push *", "git", Arg("*.py", "glob")) == "no"
    assert _match("cp a b", "cp", Arg("?", "glob")) == "maybe"


@pytest.mark.parametrize(
    ("pattern", "path", "matches"),
    [
        (".env", "/w/.env", True),
        (".env", "/w/a/b/.env", True),
        (".env", "/w/.env.example", False),
        ("./.env", "/w/a/.env", False),
        ("./.env", "/w/.env", True),
        ("docs", "/w/docs/a.md", True),
        ("docs/*", "/w/docs/a/b.md", True),
        ("docs/*", "/w/a/docs/b.md", False),
        ("docs/", "/w/docs/b.md", True),
        ("*.md", "/w/a/b.md", True),
        ("*", "/w/a", True),
        ("*", "/x/a", False),
        ("src/*.py", "/x/src/a.py", False),
        ("/etc/*", "/etc/hosts", True),
        ("/etc", "/etc/a/b", True),
        ("/etc", "/etcetera", False),
        ("~/notes/*", "/h/notes/a", True),
        ("~/notes/*", "/w/notes/a", False),
        ("a\\*b", "/w/a*b", True),
        ("a\\*b", "/w/axb", False),
    ],
)
def test_a_path_pattern_matches(pattern: str, path: str, matches: bool) -> None:
    assert PathPattern.parse(pattern).matches(path, workspace="/w", home="/h") is matches


def test_a_path_pattern_can_ignore_case() -> None:
    assert PathPattern.parse(".env").matches("/w/.ENV", workspace="/w", home="/h", ignore_case=True)
