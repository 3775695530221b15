"""Terminal output becomes plain text: the same for every split into pieces, except where a line was passed on."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.tools.text.terminal_text import TerminalText, plain_text


@pytest.mark.parametrize(
    ("output", "plain"),
    [
        ("plain\ttext\n", "plain\ttext\n"),
        ("\x1b[1;31mred\x1b[0m text\x1b[K\n", "red text\n"),
        ("\x1b]0;a title\x07text\n", "text\n"),
        ("\x1b]8;;https://example.org\x1b\\link\x1b]8;;\x1b\\\n", "link\n"),
        ("\x1b(B\x1b=\x1b7text\x1b8\n", "text\n"),
        ("\x9b31mred\x9b0m\n", "red\n"),
        (" 10%\r 50%\r100%\n", "100%\n"),
        (" 10%\r 50%\r100%\r\n", "100%\n"),
        ("downloading 1\rdownloading 2\r\x1b[Kdone\nnext\n", "done\nnext\n"),
        ("progress\r", "progress"),
        ("a\r\nb\r\n", "a\nb\n"),
        ("a\r\r\nb\n", "a\nb\n"),
        ("N\bNA\bAME\n", "NAME\n"),
        ("spinner |\b/\b-\bx\n", "spinner x\n"),
        ("a\x00b\x07c\x0bd\x7f\n", "abcd\n"),
        ("end\x1b[31", "end"),
        ("é ü 漢\u2028\n", "é ü 漢\u2028\n"),
    ],
)
def test_what_was_written_for_a_terminal_becomes_plain_text(output: str, plain: str) -> None:
    assert plain_text(output) == plain


_PIECES = st.text(alphabet="ab\n\t\r\b\x00\x1b[]0;1mK\x07\\é", max_size=30)


@given(_PIECES, st.lists(st.integers(0, 30), max_size=4))
def test_no_control_character_is_left_however_the_output_is_split(output: str, cuts: list[int]) -> None:
    cleaner = TerminalText()
    edges = sorted({0, len(output), *(cut for cut in cuts if cut < len(output))})
    done = [cleaner.feed(output[start:stop]) for start, stop in pairwise(edges)]
    text = "".join([*done, cleaner.feed("", final=True)])
    assert not {*text} & {"\x00", "\x07", "\b", "\x1b", "\r"}
    assert cleaner.open_line == ""


@given(st.text(alphabet="ab\n\té\u2028", max_size=50), st.integers(0, 50))
def test_plain_text_passes_through_at_once(output: str, cut: int) -> None:
    cleaner = TerminalText()
    assert cleaner.feed(output[:cut]) + cleaner.feed(output[cut:]) == output


@given(
    st.lists(st.sampled_from(["\x1b[1m", "\x1b]0;t\x07", "\r\n", "\n", "ab", "é", "\x1b(B"]), max_size=8),
    st.integers(0, 40),
)
def test_sequences_and_line_ends_may_be_split_anywhere(parts: list[str], cut: int) -> None:
    output = "".join(parts)
    cleaner = TerminalText()
    done = cleaner.feed(output[:cut]) + cleaner.feed(output[cut:]) + cleaner.feed("", final=True)
    assert done == plain_text(output)


def test_a_progress_bar_in_pieces_costs_one_line_more_and_shows_its_last_state_meanwhile() -> None:
    cleaner = TerminalText()
    assert cleaner.feed("10%") == "10%"
    assert cleaner.feed("\r20%") == "\n"
    assert cleaner.open_line == "20%"
    assert cleaner.feed("\r30%") == ""
    assert cleaner.open_line == "30%"
    assert cleaner.feed("\rdone\nnext") == "done\nnext"
    assert cleaner.open_line == ""


def test_an_endless_sequence_or_line_is_not_held_for_ever() -> None:
    cleaner = TerminalText()
    passed = sum(len(cleaner.feed("\x1b]" + "x" * 20_000)) for _ in range(3))
    assert passed > 0
    line = TerminalText()
    assert sum(len(line.feed("\r" + "x" * 20_000)) for _ in range(3)) > 20_000


def test_many_backspaces_take_linear_time() -> None:
    assert plain_text("a" * 200_000 + "\b" * 200_000 + "end\n") == "end\n"
