"""Positions count code units, and edits by position give the text that an editor would have."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.extend.lsp.message_framing import LanguageServerError
from holdfast.extend.lsp.protocol_types import Position, PositionEncoding, RangeEdit, TextRange
from holdfast.extend.lsp.text_positions import (
    PositionedText,
    apply_edits,
    characters_before,
    find_symbol,
    units_before,
)

_TEXTS = st.text(alphabet="aä€😀\n\r", max_size=20)


def _edit(start: tuple[int, int], end: tuple[int, int], new: str) -> RangeEdit:
    return RangeEdit(TextRange(Position(*start), Position(*end)), new)


@pytest.mark.parametrize(("encoding", "units"), [("utf-8", 9), ("utf-16", 5), ("utf-32", 4)])
def test_units_of_each_encoding(encoding: PositionEncoding, units: int) -> None:
    line = "a😀é€x"
    assert units_before(line, 4, encoding) == units + (1 if encoding == "utf-8" else 0)
    assert characters_before(line, units_before(line, 4, encoding), encoding) == 4
    assert characters_before(line, 10_000, encoding) == 5


@given(_TEXTS, st.integers(0, 20), st.integers(0, 20))
def test_an_offset_and_its_position_are_the_same_place(text: str, line: int, characters: int) -> None:
    positioned = PositionedText(text)
    position = positioned.position(line, characters)
    wanted = min(characters, len(positioned.line(line)))
    if line < positioned.line_count:
        assert positioned.offset(position) == sum(map(len, text[:0])) + positioned.offset(Position(line, 0)) + wanted
        assert positioned.column(position) == wanted + 1
    else:
        assert positioned.offset(position) == len(text)


def test_lines_end_with_any_of_the_three_ends() -> None:
    text = PositionedText("a\r\nb\rc\nd")
    assert [text.line(number) for number in range(-1, 5)] == ["", "a", "b", "c", "d", ""]


def test_edits_are_applied_by_position_and_not_one_after_the_other() -> None:
    edits = [_edit((1, 0), (1, 2), "four"), _edit((0, 0), (0, 3), "three"), _edit((1, 2), (1, 2), "!")]
    assert apply_edits("one\ntwo\n", edits, "utf-16") == "three\nfour!o\n"


def test_edits_after_wide_characters_hit_the_right_place() -> None:
    assert apply_edits('x = "😀" + old\n', [_edit((0, 11), (0, 14), "new")], "utf-16") == 'x = "😀" + new\n'


@pytest.mark.parametrize(
    "edits",
    [
        [_edit((0, 0), (0, 2), "x"), _edit((0, 1), (0, 3), "y")],
        [_edit((0, 2), (0, 1), "x")],
    ],
)
def test_edits_that_overlap_or_run_backwards_are_refused(edits: list[RangeEdit]) -> None:
    with pytest.raises(LanguageServerError):
        apply_edits("abc\n", edits, "utf-16")


@pytest.mark.parametrize(
    ("line", "symbol", "character"),
    [
        ("total = subtotal + total", "subtotal", 8),
        ("subtotal = total", "total", 11),
        ("a.b.name()", "a.b.name", 4),
        ("self.name()", "Thing.name", 5),
        ("😀 = name", "name", 5),
        ("nothing here", "name", None),
    ],
)
def test_a_name_is_found_as_a_whole_word(line: str, symbol: str, character: int | None) -> None:
    found = find_symbol(PositionedText(line), 0, symbol)
    assert (found and found.character) == character
