"""Who writes where, and that nothing that was said commands the terminal."""

import io

import pytest

from holdfast.cli.approval_prompt import parse_answer
from holdfast.cli.event_printer import title_with_target
from holdfast.cli.screen import Screen, one_line, plain
from holdfast.schema.approvals import QuestionItem
from holdfast.schema.messages import ToolCall, ToolResult


def test_messages_in_a_pipe_are_divided_by_an_empty_line() -> None:
    out, err = io.StringIO(), io.StringIO()
    screen = Screen(out=out, err=err)
    screen.block()
    screen.text("one")
    screen.note("a tool ran")
    screen.block()
    screen.text("two\n")
    screen.block()
    screen.text("three")
    screen.finish()
    assert out.getvalue() == "one\n\ntwo\n\nthree\n"
    assert err.getvalue() == "a tool ran\n"


def test_in_one_place_a_note_begins_on_a_line_of_its_own() -> None:
    out = io.StringIO()
    screen = Screen(out=out, err=out)
    screen.text("one")
    screen.note("a tool ran")
    screen.block()
    screen.text("two")
    screen.finish()
    assert out.getvalue() == "one\na tool ran\n\ntwo\n"


def test_quiet_is_quiet_but_for_warnings() -> None:
    err = io.StringIO()
    screen = Screen(quiet=True, out=io.StringIO(), err=err)
    screen.note("not this")
    screen.warn("but this")
    assert err.getvalue() == "but this\n"


def test_controls_are_shown_and_not_sent() -> None:
    assert plain("a\x1b[2Jb\tc\r\nd\x9b") == "a\\x1b[2Jb\tc\nd\\x9b"
    assert one_line("two\nlines\x07") == "two lines\\x07"
    assert one_line("long " * 50, most=10) == "long long…"


@pytest.mark.parametrize(
    ("item", "line", "chosen"),
    [
        (QuestionItem("?", "yes_no"), "Y", ["yes"]),
        (QuestionItem("?", "yes_no"), "perhaps", None),
        (QuestionItem("?", "single", ("red", "blue")), "2", ["blue"]),
        (QuestionItem("?", "single", ("red", "blue")), "red", ["red"]),
        (QuestionItem("?", "single", ("red", "blue")), "3", None),
        (QuestionItem("?", "multiple", ("red", "blue")), "1, 2", ["red", "blue"]),
        (QuestionItem("?", "multiple", ("red", "blue")), "1,9", None),
        (QuestionItem("?", "multiple", ("red", "blue")), "", None),
        (QuestionItem("?", "text"), "as I say", ["as I say"]),
        (QuestionItem("?", "text"), "", None),
    ],
)
def test_what_was_typed_is_the_answer_it_means(item: QuestionItem, line: str, chosen: list[str] | None) -> None:
    assert parse_answer(item, line) == chosen


def test_what_turns_text_around_is_shown() -> None:
    assert plain("a\u202eb\u2066c\u2069") == "a\\u202eb\\u2066c\\u2069"
    assert one_line("\u202arm\u202c") == "\\u202arm\\u202c"


def test_text_that_ends_before_a_note_elsewhere_ends_its_line() -> None:
    out = io.StringIO()
    screen = Screen(out=out, err=io.StringIO())
    screen.text("one")
    screen.block()
    screen.end_text()
    assert out.getvalue() == "one\n"
    screen.text("two")
    assert out.getvalue() == "one\n\ntwo"


@pytest.mark.parametrize(
    ("given", "display", "shown"),
    [
        ("c.txt", {"files": [{"path": "/etc/hosts"}]}, "c.txt → /etc/hosts"),
        ("c.txt", {"path": "d/e.txt"}, "c.txt → d/e.txt"),
        ("./c.txt", {"path": "c.txt"}, "./c.txt"),
        ("/w/c.txt", {"path": "c.txt"}, "/w/c.txt"),
        ("c.txt", {"files": [{"path": "c.txt"}]}, "c.txt"),
        ("c.txt", {}, "c.txt"),
    ],
)
def test_a_file_tool_that_was_led_elsewhere_names_the_real_file(
    given: str, display: dict[str, object], shown: str
) -> None:
    call = ToolCall("call_1", "write", {"path": given})
    assert title_with_target(call, ToolResult("call_1", "write", "ok", display=display)) == shown
