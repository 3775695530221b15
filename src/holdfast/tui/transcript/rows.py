"""Rows: what a block looks like on the screen, and what of it is copied.

A row knows which of its cells are decoration (bars, marks, line numbers), so that copied text has none of it, and
whether it continues the line above, so that a wrapped line is copied as one line.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, Protocol, TypeAlias

from rich.segment import Segment
from rich.style import Style
from rich.text import Text

from holdfast.tui.transcript.cells import break_line, width_of

StyledRun: TypeAlias = tuple[str, Style]


class Row(NamedTuple):
    segments: tuple[Segment, ...]
    text: str = ""
    """What is copied from the row."""
    indent: int = 0
    """Cells of decoration before the text."""
    joint: str | None = None
    """Between the row above and this one when copied: ``None`` is a new line, else a blank or nothing."""

    @property
    def plain(self) -> str:
        return "".join(segment.text for segment in self.segments)


class RowSource(Protocol):
    """The rows of a block."""

    @property
    def height(self) -> int: ...

    def row(self, number: int) -> Row: ...

    def leaf(self, number: int) -> tuple[RowSource, int]:
        """The source that makes a row, and the number of the row in it. Its rows never change."""
        ...


class StaticRows:
    """Rows that are made at once."""

    __slots__ = ("_rows",)

    def __init__(self, rows: Sequence[Row]) -> None:
        self._rows = rows

    @property
    def height(self) -> int:
        return len(self._rows)

    def row(self, number: int) -> Row:
        return self._rows[number]

    def leaf(self, number: int) -> tuple[RowSource, int]:
        return self, number


class JoinedRows:
    """Several sources, one below the other."""

    __slots__ = ("_ends", "_sources", "height")

    def __init__(self, sources: Iterable[RowSource]) -> None:
        self._sources = [source for source in sources if source.height]
        self._ends: list[int] = []
        self.height = 0
        for source in self._sources:
            self.height += source.height
            self._ends.append(self.height)

    def row(self, number: int) -> Row:
        source, inner = self.leaf(number)
        return source.row(inner)

    def leaf(self, number: int) -> tuple[RowSource, int]:
        index = bisect_right(self._ends, number)
        start = self._ends[index - 1] if index else 0
        return self._sources[index].leaf(number - start)


class LineRows:
    """Many lines of text, whose rows are made when they are drawn.

    Only the number of rows of each line is known before. Made for long outputs and long code blocks.
    """

    __slots__ = ("_indent", "_lines", "_long", "_make", "_starts", "_width", "height")

    def __init__(
        self, lines: Sequence[str], width: int, *, make: Callable[[int, str], Sequence[StyledRun]], indent: StyledRun
    ) -> None:
        """``make`` returns the styled text of a line by its number. The lines are clean, without tabs."""
        self._lines = lines
        self._make = make
        self._indent = indent
        self._width = max(width - width_of(indent[0]), 1)
        self._long: dict[int, list[tuple[int, int]]] = {}
        self._starts: list[int] | None = None
        room = self._width
        for number, line in enumerate(lines):
            if len(line) > room or (len(line) * 2 > room and not line.isascii()):
                pieces = break_line(line, room)
                if len(pieces) > 1:
                    self._long[number] = pieces
        self.height = len(lines) + sum(len(pieces) - 1 for pieces in self._long.values())
        if self._long:
            self._starts, row = [], 0
            for number in range(len(lines)):
                self._starts.append(row)
                row += len(self._long.get(number, "1"))

    def leaf(self, number: int) -> tuple[RowSource, int]:
        return self, number

    def row(self, number: int) -> Row:
        line, piece = number, 0
        if self._starts is not None:
            line = bisect_right(self._starts, number) - 1
            piece = number - self._starts[line]
        text = self._lines[line]
        pieces = self._long.get(line)
        start, end = pieces[piece] if pieces else (0, len(text))
        runs = cut_runs(self._make(line, text), start, end)
        joint = None if piece == 0 or not pieces else _joint(text, pieces[piece - 1][1], start)
        return make_row(runs, prefix=(self._indent,), joint=joint)


def _joint(text: str, end: int, start: int) -> str:
    return text[end:start]


def make_row(runs: Iterable[StyledRun], *, prefix: Iterable[StyledRun] = (), joint: str | None = None) -> Row:
    """A row of styled text behind decoration."""
    decoration = [Segment(text, style) for text, style in prefix if text]
    content = [Segment(text, style) for text, style in runs if text]
    return Row(
        (*decoration, *content),
        text="".join(segment.text for segment in content),
        indent=sum(width_of(segment.text) for segment in decoration),
        joint=joint,
    )


def rows_as_text(source: RowSource) -> Text:
    """The rows as one text, for widgets that are not the transcript."""
    text = Text(no_wrap=True)
    for number in range(source.height):
        if number:
            text.append("\n")
        for segment in source.row(number).segments:
            text.append(segment.text, segment.style)
    return text


def decoration(*runs: StyledRun) -> Row:
    """A row from which nothing is copied."""
    return Row(tuple(Segment(text, style) for text, style in runs if text), indent=sum(width_of(t) for t, _ in runs))


BLANK = Row(())
"""An empty line."""


def cut_runs(runs: Iterable[StyledRun], start: int, end: int) -> list[StyledRun]:
    """The runs between two characters."""
    found, position = [], 0
    for text, style in runs:
        following = position + len(text)
        if following > start and position < end:
            found.append((text[max(start - position, 0) : end - position], style))
        position = following
        if position >= end:
            break
    return found


def wrap_runs(
    runs: Sequence[StyledRun], width: int, *, first: Sequence[StyledRun] = (), following: Sequence[StyledRun] = ()
) -> list[Row]:
    """Wrap one line of styled text. ``first`` and ``following`` are decoration at the left."""
    text = "".join(part for part, _ in runs)
    indent = sum(width_of(part) for part, _ in first)
    rows: list[Row] = []
    last_end = 0
    for start, end in break_line(text, max(width - indent, 1)):
        joint = None if not rows else _joint(text, last_end, start)
        rows.append(make_row(cut_runs(runs, start, end), prefix=following if rows else first, joint=joint))
        last_end = end
    return rows
