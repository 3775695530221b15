"""Selected text across blocks: a start and an end in rows and cells, and what is copied. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from rich.cells import cell_len

from holdfast.tui.transcript.cells import width_of
from holdfast.tui.transcript.layout import Anchor
from holdfast.tui.transcript.rows import Row


class TextPlace(NamedTuple):
    """A cell of the transcript."""

    anchor: Anchor
    column: int


class TextSelection(NamedTuple):
    """The cells between two places, in either order."""

    start: TextPlace
    end: TextPlace

    @property
    def ordered(self) -> tuple[TextPlace, TextPlace]:
        return (self.start, self.end) if self.start <= self.end else (self.end, self.start)

    def columns(self, row: int, *, first: int, last: int) -> tuple[int, int | None] | None:
        """The selected cells of a row, if any; the rows of the two ends are given. ``None`` as end: the whole row."""
        if not first <= row <= last:
            return None
        low, high = self.ordered
        return (low.column if row == first else 0, high.column + 1 if row == last else None)


def selected_text(selection: TextSelection, row_at: Callable[[int], Row], row_of: Callable[[Anchor], int]) -> str:
    """The selected text: without decoration, and with wrapped lines joined."""
    low, high = selection.ordered
    first, last = row_of(low.anchor), row_of(high.anchor)
    pieces: list[str] = []
    for number in range(first, last + 1):
        row = row_at(number)
        columns = selection.columns(number, first=first, last=last)
        assert columns is not None
        start, end = columns
        if pieces:
            pieces.append("\n" if row.joint is None else row.joint)
        pieces.append(cut_cells(row.text, start - row.indent, None if end is None else end - row.indent).rstrip())
    return "".join(pieces).strip("\n")


def cut_cells(text: str, start: int, end: int | None) -> str:
    """The characters between two cells. A wide character belongs to a range if its first cell does."""
    start = max(start, 0)
    if end is not None and end <= start:
        return ""
    if width_of(text) == len(text):
        return text[start:end]
    found, column = [], 0
    for char in text:
        if column >= start and (end is None or column < end):
            found.append(char)
        column += cell_len(char)
    return "".join(found)
