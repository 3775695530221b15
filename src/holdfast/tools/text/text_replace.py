"""Replacing a text in a file's text. Pure.

First the exact text, where the kind of line ending does not count. If it is absent, whole lines that differ only in the
white space at their ends, re-indented as the file is. Else a refusal that shows the nearest place. Nothing outside the
matched region changes, and lines inside it that the new text repeats stay as they are.
"""

from __future__ import annotations

import difflib
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import islice

import msgspec

from holdfast.errors import ToolError
from holdfast.tools.text import text_lines as rows
from holdfast.tools.text.nearest_match import describe_nearest

_MAX_MATCHES = 100_000
_MAX_MATCHES_SHOWN = 8


class ReplacedText(msgspec.Struct, frozen=True):
    text: str
    at: tuple[int, ...]
    """The line numbers at which something was replaced, in the old text."""
    note: str = ""
    """What the one who asked should know; empty when the text was found exactly."""


def replace_text(text: str, *, old: str, new: str, replace_all: bool = False) -> ReplacedText:
    """`ToolError` says why it cannot be done, and leaves nothing done."""
    old, new = _unix_endings(old), _unix_endings(new)
    if not old:
        raise ToolError("old_text is empty; give the text to replace")
    if old == new:
        raise ToolError("old_text and new_text are the same; there is nothing to replace")
    page = _UnixText(text)
    places = page.find(old)
    if places:
        return _replace_exact(page, places, old=old, new=new, replace_all=replace_all)
    return _replace_lines(text, old=old, new=new, replace_all=replace_all)


class _UnixText:
    """A text with its line endings as Unix would have them, and the way back to the original positions."""

    def __init__(self, raw: str) -> None:
        self.raw = raw
        self.text = _unix_endings(raw)
        self._pairs = list(_positions(raw, "\r\n"))
        """Where CRLF stands in the original."""
        self._ends = [at - index for index, at in enumerate(self._pairs)]
        """Where each of them stands in the Unix text."""

    def original(self, position: int) -> int:
        """Never inside a CRLF."""
        return position + bisect_left(self._ends, position)

    def find(self, wanted: str) -> list[int]:
        """All places, overlapping ones too: they are as ambiguous as others."""
        places = list(islice(_positions(self.text, wanted), _MAX_MATCHES))
        if len(places) == _MAX_MATCHES:
            raise ToolError(f"old_text is there {_MAX_MATCHES:,} times or more; use bash for a replacement that wide")
        return places

    def line_numbers(self, positions: Sequence[int]) -> tuple[int, ...]:
        numbers = []
        number, passed = 1, 0
        for position in positions:
            number += self.text.count("\n", passed, position)
            passed = position
            numbers.append(number)
        return tuple(numbers)


def _replace_exact(page: _UnixText, places: list[int], *, old: str, new: str, replace_all: bool) -> ReplacedText:
    if replace_all:
        places = _without_overlap(places, len(old))
    elif len(places) > 1:
        raise _ambiguous(page.line_numbers(places))
    usual = rows.usual_line_end(rows.split_lines(page.raw)) if "\n" in new else ""
    parts = []
    done = 0
    for at in places:
        start, stop = page.original(at), page.original(at + len(old))
        parts += [page.raw[done:start], _in_style(page.raw[start:stop], usual, old=old, new=new)]
        done = stop
    return ReplacedText("".join([*parts, page.raw[done:]]), page.line_numbers(places))


def _in_style(region: str, usual: str, *, old: str, new: str) -> str:
    """The new text with line endings like the region's; in a mixed region, what does not change keeps its own."""
    inside = rows.split_lines(region)
    end = rows.usual_line_end(inside, default=usual)
    if len({line.end for line in inside if line.end}) < 2:
        return new.replace("\n", end)
    before = _common_prefix(old, new)
    after = _common_prefix(old[before:][::-1], new[before:][::-1])
    page = _UnixText(region)
    first, last = page.original(before), page.original(len(old) - after)
    return region[:first] + new[before : len(new) - after].replace("\n", end) + region[last:]


def _replace_lines(text: str, *, old: str, new: str, replace_all: bool) -> ReplacedText:
    lines = rows.split_lines(text)
    wanted = _as_lines(old)
    given = _as_lines(new) if old.endswith("\n") else new.split("\n")
    matches = rows.find_lines(lines, wanted)
    if replace_all:
        starts = set(_without_overlap([match.start for match in matches], len(wanted)))
        matches = [match for match in matches if match.start in starts]
    elif len(matches) > 1:
        raise _ambiguous([match.start + 1 for match in matches])
    end = rows.usual_line_end(lines)
    script = list(_script(wanted, given))
    done: list[rows.TextLine] = []
    position = 0
    for match in matches:
        rewritten = rows.rewrite_lines(lines, match, script, end=end)
        if rewritten is None:
            matches = []
            break
        done += [*lines[position : match.start], *rewritten]
        position = match.stop
    if not matches:
        raise ToolError(
            f"old_text was not found. {describe_nearest([line.text for line in lines], wanted)}", code="no_match"
        )
    at = tuple(match.start + 1 for match in matches)
    spans = ", ".join(f"{match.start + 1}–{match.stop}" for match in matches[:_MAX_MATCHES_SHOWN])
    note = (
        f"the exact text was not there; lines {spans} differ from it only in white space, and were replaced re-indented"
    )
    return ReplacedText(rows.join_lines([*done, *lines[position:]]), at, note)


def _script(old: Sequence[str], new: Sequence[str]) -> Iterator[rows.KeepLine | rows.PutLine]:
    """Lines that the new text repeats stay as the file has them; the others are written."""
    for tag, one, two, three, four in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag == "equal":
            yield from (rows.KeepLine(offset) for offset in range(one, two))
        else:
            yield from (rows.PutLine(line) for line in new[three:four])


def _as_lines(text: str) -> list[str]:
    return [line.text for line in rows.split_lines(text)]


def _unix_endings(text: str) -> str:
    return text.replace("\r\n", "\n")


def _positions(text: str, wanted: str) -> Iterator[int]:
    at = text.find(wanted)
    while at >= 0:
        yield at
        at = text.find(wanted, at + 1)


def _without_overlap(places: Sequence[int], length: int) -> list[int]:
    """From the left, those that do not overlap the one before."""
    chosen: list[int] = []
    for at in places:
        if not chosen or at >= chosen[-1] + length:
            chosen.append(at)
    return chosen


def _common_prefix(one: str, other: str) -> int:
    for index, (left, right) in enumerate(zip(one, other, strict=False)):
        if left != right:
            return index
    return min(len(one), len(other))


def _ambiguous(numbers: Sequence[int]) -> ToolError:
    shown = ", ".join(map(str, numbers[:_MAX_MATCHES_SHOWN])) + (", …" if len(numbers) > _MAX_MATCHES_SHOWN else "")
    return ToolError(
        f"old_text is there {len(numbers)} times (lines {shown}); add lines around it until it is unique, "
        "or set replace_all",
        code="ambiguous",
    )
