"""What is written of a text that grows, begins anew or is cut back, tried over many ways it can come."""

from hypothesis import given
from hypothesis import strategies as st

from holdfast.cli.event_printer import PrintedPiece, PrintedText

TEXTS = st.text(alphabet="ab ", max_size=8)


class Page:
    """What somebody reads: each `anew` begins a new line."""

    def __init__(self) -> None:
        self.lines = [""]

    def take(self, piece: PrintedPiece) -> None:
        if piece.replaces:
            self.lines.append("")
        self.lines[-1] += piece.text


def test_text_that_grows_is_written_once() -> None:
    said = PrintedText()
    assert said.grow_to("he", attempt=1) == PrintedPiece("he")
    assert said.continues(offset=2, attempt=1)
    assert said.add("llo") == PrintedPiece("llo")
    assert said.end_at("hello") == PrintedPiece("")


def test_an_attempt_that_says_the_same_again_is_not_seen() -> None:
    said = PrintedText()
    said.grow_to("hello wor", attempt=1)
    assert not said.continues(offset=0, attempt=2)
    assert said.grow_to("hel", attempt=2) == PrintedPiece("")
    assert said.grow_to("hello world", attempt=2) == PrintedPiece("ld")
    assert said.end_at("hello world") == PrintedPiece("")


def test_an_attempt_that_differs_is_written_anew() -> None:
    said = PrintedText()
    said.grow_to("hello", attempt=1)
    assert said.grow_to("hex", attempt=2) == PrintedPiece("hex", replaces=True)
    assert said.end_at("hexagon") == PrintedPiece("agon")


def test_a_shorter_attempt_is_written_anew_when_it_has_ended() -> None:
    said = PrintedText()
    said.grow_to("hello", attempt=1)
    said.grow_to("hel", attempt=2)
    assert said.end_at("hel") == PrintedPiece("hel", replaces=True)


def test_what_a_crash_cut_off_is_left_as_it_was_seen() -> None:
    said = PrintedText()
    said.grow_to("hello", attempt=1)
    assert said.end_at("hel") == PrintedPiece("")


@given(attempts=st.lists(st.lists(TEXTS, min_size=1, max_size=4), min_size=1, max_size=4))
def test_the_last_line_is_what_was_stored_whatever_came_before(attempts: list[list[str]]) -> None:
    said, page = PrintedText(), Page()
    whole = ""
    for number, pieces in enumerate(attempts, 1):
        whole = ""
        for piece in pieces:
            offset, whole = len(whole), whole + piece
            if said.continues(offset=offset, attempt=number):
                page.take(said.add(piece))
            else:
                page.take(said.grow_to(whole, attempt=number))
    page.take(said.end_at(whole))
    assert page.lines[-1] == whole
    assert said.text == whole
