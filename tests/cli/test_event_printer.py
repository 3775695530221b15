"""Printed text that grows, is repeated or is cut back, and the titles of tool calls."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.cli.event_printer import PrintedPiece, PrintedText, title_with_target
from holdfast.schema.messages import ToolCall, ToolResult

TEXTS = st.text(alphabet="ab ", max_size=8)


class Output:
    """The printed lines; text that replaces starts a new line."""

    def __init__(self) -> None:
        self.lines = [""]

    def take(self, piece: PrintedPiece) -> None:
        if piece.replaces:
            self.lines.append("")
        self.lines[-1] += piece.text


def test_growing_text_is_printed_once() -> None:
    printed = PrintedText()
    assert printed.grow_to("he", attempt=1) == PrintedPiece("he")
    assert printed.continues(offset=2, attempt=1)
    assert printed.add("llo") == PrintedPiece("llo")
    assert printed.end_at("hello") == PrintedPiece("")


def test_a_repeated_attempt_prints_only_new_text() -> None:
    printed = PrintedText()
    printed.grow_to("hello wor", attempt=1)
    assert not printed.continues(offset=0, attempt=2)
    assert printed.grow_to("hel", attempt=2) == PrintedPiece("")
    assert printed.grow_to("hello world", attempt=2) == PrintedPiece("ld")
    assert printed.end_at("hello world") == PrintedPiece("")


def test_an_attempt_that_differs_is_printed_again() -> None:
    printed = PrintedText()
    printed.grow_to("hello", attempt=1)
    assert printed.grow_to("hex", attempt=2) == PrintedPiece("hex", replaces=True)
    assert printed.end_at("hexagon") == PrintedPiece("agon")


def test_a_shorter_attempt_is_printed_again_when_it_ends() -> None:
    printed = PrintedText()
    printed.grow_to("hello", attempt=1)
    printed.grow_to("hel", attempt=2)
    assert printed.end_at("hel") == PrintedPiece("hel", replaces=True)


def test_text_that_a_crash_cut_off_is_not_printed_again() -> None:
    printed = PrintedText()
    printed.grow_to("hello", attempt=1)
    assert printed.end_at("hel") == PrintedPiece("")


@given(attempts=st.lists(st.lists(TEXTS, min_size=1, max_size=4), min_size=1, max_size=4))
def test_the_last_printed_text_equals_the_stored_text(attempts: list[list[str]]) -> None:
    printed, output = PrintedText(), Output()
    whole = ""
    for number, pieces in enumerate(attempts, 1):
        whole = ""
        for piece in pieces:
            offset, whole = len(whole), whole + piece
            if printed.continues(offset=offset, attempt=number):
                output.take(printed.add(piece))
            else:
                output.take(printed.grow_to(whole, attempt=number))
    output.take(printed.end_at(whole))
    assert output.lines[-1] == whole
    assert printed.text == whole


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
def test_the_title_of_a_file_tool_names_the_real_file(given: str, display: dict[str, object], shown: str) -> None:
    call = ToolCall("call_1", "write", {"path": given})
    assert title_with_target(call, ToolResult("call_1", "write", "ok", display=display)) == shown
