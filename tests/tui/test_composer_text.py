"""What a prompt's text means while it is written."""

import pytest

from holdfast.tui.composer_text import (
    Completion,
    MentionedFile,
    PromptHistory,
    Typed,
    complete,
    completion_at,
    is_long_paste,
    mentioned_files,
    read_typed,
    typeable,
)


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        ("/mo", Completion("command", "mo", 0)),
        ("see @src/a", Completion("file", "src/a", 4)),
        ("see @src/a.py:3-9", Completion("file", "src/a.py", 4, ":3-9")),
        ("one\n@b", Completion("file", "b", 4)),
        ("mail me@home", None),
        ("a /mo", None),
        ("", None),
    ],
)
def test_the_word_before_the_cursor_is_found(before: str, expected: Completion | None) -> None:
    assert completion_at(before) == expected


def test_a_resource_of_a_server_has_no_line_range() -> None:
    found = completion_at("see @docs:http://h:80")
    assert found == Completion("file", "docs:http://h:80", 4)


def test_a_completed_file_keeps_its_line_range() -> None:
    before = "see @sl:3-9"
    found = completion_at(before)
    assert found is not None
    assert complete(before, found, "src/slug.py") == "see @src/slug.py:3-9 "


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("  fix it ", Typed("prompt", "fix it")),
        ("/rename my name", Typed("command", "rename", "my name")),
        ("/usr/bin is slow", Typed("prompt", "/usr/bin is slow")),
        ("! ls -l", Typed("shell", "ls -l")),
        ("!", Typed("prompt", "!")),
    ],
)
def test_a_sent_text_is_a_prompt_a_command_or_a_shell_line(text: str, expected: Typed) -> None:
    assert read_typed(text) == expected


def test_mentioned_files_have_their_lines() -> None:
    assert mentioned_files("see @a.py:3-9, @b and @a.py:3-9") == (MentionedFile("a.py", 3, 9), MentionedFile("b"))


def test_the_history_keeps_the_draft() -> None:
    history = PromptHistory(("one", "two"))
    assert history.older("draft") == "two"
    assert history.older("two") == "one"
    assert history.older("one") is None
    assert history.newer() == "two"
    assert history.newer() == "draft"
    assert history.newer() is None


def test_a_long_paste_is_told_from_a_short_one() -> None:
    assert is_long_paste("line\n" * 20)
    assert not is_long_paste("a few words")


def test_pasted_text_has_no_control_characters_but_lines_and_tabs() -> None:
    assert typeable("a\r\nb\rc\td\x1b[2J\x07\x9b\x00 👩‍👧 שלום") == "a\nb\nc\td[2J 👩‍👧 שלום"
