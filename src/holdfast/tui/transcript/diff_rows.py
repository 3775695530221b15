"""Unified diffs as rows: one column or two by width, with the changed words emphasised."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from typing import Final, Literal

from rich.segment import Segment
from rich.style import Style

from holdfast.tui.transcript.cells import break_line, clean, expand_tabs, width_of
from holdfast.tui.transcript.palette import Palette
from holdfast.tui.transcript.rows import Row, RowSource, StaticRows, StyledRun, cut_runs, decoration, make_row

SIDE_BY_SIDE_WIDTH = 110
"""Cells from which on a diff is shown in two columns."""

_HUNK: Final = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@(.*)")
_WORDS: Final = re.compile(r"\w+|\s+|[^\w\s]")
_LONGEST_COMPARED = 500

Side = Literal["same", "removed", "added"]


@dataclass(frozen=True, slots=True)
class DiffLine:
    """A line of a diff, with its number in the file it belongs to."""

    side: Side
    text: str
    old: int | None = None
    new: int | None = None
    words: tuple[tuple[int, int], ...] = ()
    """The changed characters, if the line was paired with one of the other side."""


@dataclass(slots=True)
class DiffHunk:
    title: str
    lines: list[DiffLine] = field(default_factory=list)


def read_diff(text: str) -> Iterator[str | DiffHunk]:
    """The file names and hunks of a unified diff. Other lines are ignored."""
    hunk: DiffHunk | None = None
    old = new = 0
    for raw in text.split("\n"):
        if found := _HUNK.match(raw):
            if hunk is not None:
                yield _paired(hunk)
            old, new = int(found[1]), int(found[2])
            hunk = DiffHunk(found[3].strip())
            continue
        if raw.startswith("--- ") and (hunk is None or not raw[4:5].isspace()) and _is_header(raw, hunk):
            if hunk is not None:
                yield _paired(hunk)
            hunk = None
            continue
        if raw.startswith("+++ ") and hunk is None:
            yield raw[4:].split("\t")[0].removeprefix("b/")
            continue
        if hunk is None or not raw:
            continue
        line = expand_tabs(clean(raw[1:].rstrip("\r")))
        match raw[0]:
            case "-":
                hunk.lines.append(DiffLine("removed", line, old=old))
                old += 1
            case "+":
                hunk.lines.append(DiffLine("added", line, new=new))
                new += 1
            case " ":
                hunk.lines.append(DiffLine("same", line, old=old, new=new))
                old, new = old + 1, new + 1
            case _:
                pass
    if hunk is not None:
        yield _paired(hunk)


def _is_header(raw: str, hunk: DiffHunk | None) -> bool:
    return hunk is None or raw.startswith(("--- a/", "--- /dev/null"))


def _groups(lines: Sequence[DiffLine]) -> Iterator[tuple[list[DiffLine], list[DiffLine], list[DiffLine]]]:
    """Runs of unchanged lines, and of removed lines followed by added ones."""
    position = 0
    while position < len(lines):
        groups: list[list[DiffLine]] = []
        for side in ("same", "removed", "added"):
            start = position
            while position < len(lines) and lines[position].side == side:
                position += 1
            groups.append(list(lines[start:position]))
        yield groups[0], groups[1], groups[2]


def _paired(hunk: DiffHunk) -> DiffHunk:
    """Mark the words that changed in lines that replace each other."""
    lines: list[DiffLine] = []
    for same, removed, added in _groups(hunk.lines):
        if len(removed) == len(added):
            pairs = [_with_words(old, new) for old, new in zip(removed, added, strict=True)]
            removed, added = [old for old, _ in pairs], [new for _, new in pairs]
        lines += [*same, *removed, *added]
    return DiffHunk(hunk.title, lines)


def _with_words(old: DiffLine, new: DiffLine) -> tuple[DiffLine, DiffLine]:
    if max(len(old.text), len(new.text)) > _LONGEST_COMPARED:
        return old, new
    before, after = _WORDS.findall(old.text), _WORDS.findall(new.text)
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    if matcher.ratio() < 0.4:
        return old, new
    changed_old: list[tuple[int, int]] = []
    changed_new: list[tuple[int, int]] = []
    for tag, i1, i2, j1, j2 in matcher.get_opcodes():
        if tag != "equal":
            changed_old.append((len("".join(before[:i1])), len("".join(before[:i2]))))
            changed_new.append((len("".join(after[:j1])), len("".join(after[:j2]))))
    return (
        DiffLine("removed", old.text, old=old.old, words=tuple(changed_old)),
        DiffLine("added", new.text, new=new.new, words=tuple(changed_new)),
    )


def diff_rows(text: str, width: int, palette: Palette, *, indent: StyledRun) -> RowSource:
    """A diff, in two columns if there is room."""
    found = list(read_diff(text))
    names = [part for part in found if isinstance(part, str)]
    hunks = [part for part in found if isinstance(part, DiffHunk)]
    numbers = [number for hunk in hunks for line in hunk.lines for number in (line.old, line.new) if number]
    digits = len(str(max(numbers, default=1)))
    painter = _Painter(width - width_of(indent[0]), palette, digits=digits, indent=indent)
    rows: list[Row] = []
    first = True
    for part in found:
        if isinstance(part, str):
            if len(names) > 1:
                rows.append(make_row([(clean(part), palette.strong)], prefix=(indent,)))
            first = True
            continue
        if not first:
            rows.append(decoration(indent, ("⋯", palette.dim), (f" {clean(part.title)}", palette.dim)))
        first = False
        rows += painter.hunk(part)
    return StaticRows(rows)


class _Painter:
    def __init__(self, width: int, palette: Palette, *, digits: int, indent: StyledRun) -> None:
        self._width = width
        self._palette = palette
        self._digits = digits
        self._indent = indent
        self._two_columns = width >= SIDE_BY_SIDE_WIDTH

    def hunk(self, hunk: DiffHunk) -> Iterator[Row]:
        if not self._two_columns:
            for line in hunk.lines:
                yield from self._one_column(line)
            return
        for same, removed, added in _groups(hunk.lines):
            for line in same:
                yield from self._two(line, line)
            for number in range(max(len(removed), len(added))):
                yield from self._two(
                    removed[number] if number < len(removed) else None, added[number] if number < len(added) else None
                )

    def _one_column(self, line: DiffLine) -> Iterator[Row]:
        mark = {"same": " ", "removed": "-", "added": "+"}[line.side]
        style = self._style(line)
        number = f"{line.new or line.old:>{self._digits}} "
        room = self._width - self._digits - 4
        joint_end = 0
        for index, (start, end) in enumerate(break_line(line.text, room)):
            prefix = (
                self._indent,
                (number if index == 0 else " " * len(number), self._palette.dim),
                (f"{mark} ", style),
            )
            joint = None if index == 0 else line.text[joint_end:start]
            runs = self._runs(line, start, end)
            fill = room - width_of(line.text[start:end])
            row = make_row(runs, prefix=prefix, joint=joint)
            yield row._replace(segments=(*row.segments, Segment(" " * fill, style))) if line.side != "same" else row
            joint_end = end

    def _two(self, left: DiffLine | None, right: DiffLine | None) -> Iterator[Row]:
        room = (self._width - 2 * (self._digits + 1) - 3) // 2
        pieces_left = break_line(left.text, room) if left else []
        pieces_right = break_line(right.text, room) if right else []
        for index in range(max(len(pieces_left), len(pieces_right), 1)):
            segments = [Segment(self._indent[0], self._indent[1])]
            for line, pieces, number in (
                (left, pieces_left, left.old if left else None),
                (right, pieces_right, right.new if right else None),
            ):
                shown = f"{number}" if number is not None and index == 0 else ""
                segments.append(Segment(f"{shown:>{self._digits}} ", self._palette.dim))
                text = ""
                if line is not None and index < len(pieces):
                    text = line.text[slice(*pieces[index])]
                    segments += [Segment(*run) for run in self._runs(line, *pieces[index])]
                style = self._style(line) if line is not None else self._palette.text
                segments.append(Segment(" " * (room - width_of(text)), style))
                segments.append(Segment(" ", self._palette.text))
            copied = right.text if right and index == 0 else ""
            yield Row(tuple(segments[:-1]), text=copied, indent=self._width if not copied else 0)

    def _style(self, line: DiffLine) -> Style:
        palette = self._palette
        return {"same": palette.text, "removed": palette.removed, "added": palette.added}[line.side]

    def _runs(self, line: DiffLine, start: int, end: int) -> list[StyledRun]:
        style = self._style(line)
        if not line.words:
            return [(line.text[start:end], style)]
        emphasis = self._palette.removed_word if line.side == "removed" else self._palette.added_word
        runs: list[StyledRun] = []
        position = 0
        for first, last in line.words:
            runs += [(line.text[position:first], style), (line.text[first:last], emphasis)]
            position = last
        runs.append((line.text[position:], style))
        return cut_runs([run for run in runs if run[0]], start, end)
