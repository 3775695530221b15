"""Replacing text in a file. Pure.

The exact text is tried first; CRLF and LF count as equal. If it is not found, the same text with other typographic
quotes, dashes, spaces or Unicode forms matches; then whole lines that differ only in leading and trailing white space,
and the new lines are re-indented to fit the file. If that fails, too, other readings of the given texts are tried
(`given_variants`). Otherwise an error shows the most similar place. Nothing outside the match changes, and text that
the new text repeats keeps its bytes.
"""

from __future__ import annotations

import difflib
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import islice

import msgspec

from holdfast.errors import ToolError
from holdfast.tools.text.given_variants import readings
from holdfast.tools.text.line_match import KeepLine, PutLine, describe_nearest, find_lines, rewrite_lines
from holdfast.tools.text.text_file import TextLine, join_lines, split_lines, usual_line_end
from holdfast.tools.text.text_folding import FoldedText, fold_text
from holdfast.tools.text.variant_merge import merge_variants

_MAX_MATCHES = 100_000
_MAX_MATCHES_SHOWN = 8
_MAX_FOLDED = 2_000_000
"""Characters of a text in which typographic variants are searched; more would take too long."""


class ReplacedText(msgspec.Struct, frozen=True):
    text: str
    at: tuple[int, ...]
    """Line numbers of the replacements, in the old text."""
    note: str = ""
    """Tells the model how the match differed; empty for an exact match."""


def replace_text(text: str, *, old: str, new: str, replace_all: bool = False) -> ReplacedText:
    """Replace `old` by `new`. Raises `ToolError` if `old` is missing or ambiguous."""
    old, new = _unix_endings(old), _unix_endings(new)
    if not old:
        raise ToolError("old_text is empty; give the text to replace")
    if old == new:
        raise ToolError("old_text and new_text are equal; there is nothing to replace")
    unix = _UnixText(text)
    for reading in readings(old, new):
        if reading.old == reading.new or (old.strip() and not reading.old.strip()):
            continue
        done = _replace_reading(unix, old=reading.old, new=reading.new, replace_all=replace_all)
        if done is not None:
            notes = [note for note in (reading.note, done.note) if note]
            return msgspec.structs.replace(done, note="; ".join(notes))
    likely = [*readings(old, new)][:2][-1]
    nearest = describe_nearest([line.text for line in split_lines(text)], _as_lines(likely.old))
    raise ToolError(f"old_text was not found. {nearest}", code="no_match")


def _replace_reading(unix: _UnixText, *, old: str, new: str, replace_all: bool) -> ReplacedText | None:
    """Replace one reading of the texts; None if it is not found."""
    if places := unix.find(old):
        return _replace_exact(unix, places, old=old, new=new, replace_all=replace_all)
    if not (unix.text.isascii() and old.isascii()) and (spans := _find_variants(unix, old)):
        return _replace_variants(unix, spans, old=old, new=new, replace_all=replace_all)
    return _replace_lines(unix.raw, old=old, new=new, replace_all=replace_all)


class _UnixText:
    """A text with LF line endings, and the mapping from its positions to those of the original."""

    def __init__(self, raw: str) -> None:
        self.raw = raw
        self.text = _unix_endings(raw)
        self._pairs = list(_positions(raw, "\r\n"))
        """Positions of CRLF in the original."""
        self._ends = [at - index for index, at in enumerate(self._pairs)]
        """Positions of the same line ends in the Unix text."""

    def original(self, position: int) -> int:
        """Map a position to the original text, never into the middle of a CRLF."""
        return position + bisect_left(self._ends, position)

    def find(self, wanted: str) -> list[int]:
        """Return the positions of all matches, also overlapping ones, because they are ambiguous too."""
        places = list(islice(_positions(self.text, wanted), _MAX_MATCHES))
        if len(places) == _MAX_MATCHES:
            raise ToolError(f"old_text occurs {_MAX_MATCHES:,} times or more; use bash for a replacement of this size")
        return places

    def line_numbers(self, positions: Sequence[int]) -> tuple[int, ...]:
        numbers = []
        number, passed = 1, 0
        for position in positions:
            number += self.text.count("\n", passed, position)
            passed = position
            numbers.append(number)
        return tuple(numbers)


def _replace_exact(unix: _UnixText, places: list[int], *, old: str, new: str, replace_all: bool) -> ReplacedText:
    if replace_all:
        places = _without_overlap(places, len(old))
    elif len(places) > 1:
        raise _ambiguous(unix.line_numbers(places))
    usual = usual_line_end(split_lines(unix.raw)) if "\n" in new else ""
    parts = []
    done = 0
    for at in places:
        start, stop = unix.original(at), unix.original(at + len(old))
        parts += [unix.raw[done:start], _with_line_ends(unix.raw[start:stop], usual, old=old, new=new)]
        done = stop
    return ReplacedText("".join([*parts, unix.raw[done:]]), unix.line_numbers(places))


def _with_line_ends(region: str, usual: str, *, old: str, new: str) -> str:
    """Give the new text the region's line endings. In a region with mixed endings, unchanged text keeps its own."""
    inside = split_lines(region)
    end = usual_line_end(inside, default=usual)
    if len({line.end for line in inside if line.end}) < 2:
        return new.replace("\n", end)
    before = _common_prefix(old, new)
    after = _common_prefix(old[before:][::-1], new[before:][::-1])
    unix = _UnixText(region)
    first, last = unix.original(before), unix.original(len(old) - after)
    return region[:first] + new[before : len(new) - after].replace("\n", end) + region[last:]


def _find_variants(unix: _UnixText, old: str) -> list[tuple[int, int]]:
    """Return the spans of the Unix text that equal the old text except for typographic variants."""
    if len(unix.text) > _MAX_FOLDED:
        return []
    folded, wanted = FoldedText(unix.text), fold_text(old)
    spans = []
    for at in islice(_positions(folded.text, wanted), _MAX_MATCHES) if wanted.strip() else ():
        start, stop = folded.to_original(at), folded.to_original(at + len(wanted), is_end=True)
        if start is not None and stop is not None:
            spans.append((start, stop))
    return spans


def _replace_variants(
    unix: _UnixText, spans: list[tuple[int, int]], *, old: str, new: str, replace_all: bool
) -> ReplacedText:
    if not replace_all and len(spans) > 1:
        raise _ambiguous(unix.line_numbers([start for start, _ in spans]))
    end = usual_line_end(split_lines(unix.raw))
    parts, chosen = [], []
    done = 0
    for start, stop in spans:
        if start < done:
            continue
        merged = merge_variants(unix.text[start:stop], old=old, new=new)
        parts += [unix.raw[unix.original(done) : unix.original(start)], merged.replace("\n", end)]
        chosen.append(start)
        done = stop
    numbers = unix.line_numbers(chosen)
    where = ", ".join(map(str, numbers[:_MAX_MATCHES_SHOWN]))
    note = f"old_text was not found exactly; line {where} matches except for typographic or Unicode variants"
    return ReplacedText("".join([*parts, unix.raw[unix.original(done) :]]), numbers, note)


def _replace_lines(text: str, *, old: str, new: str, replace_all: bool) -> ReplacedText | None:
    lines = split_lines(text)
    wanted = _as_lines(old)
    given = _as_lines(new) if old.endswith("\n") else new.split("\n")
    matches = find_lines(lines, wanted)
    if replace_all:
        starts = set(_without_overlap([match.start for match in matches], len(wanted)))
        matches = [match for match in matches if match.start in starts]
    elif len(matches) > 1:
        raise _ambiguous([match.start + 1 for match in matches])
    end = usual_line_end(lines)
    script = list(_script(wanted, given))
    done: list[TextLine] = []
    position = 0
    for match in matches:
        rewritten = rewrite_lines(lines, match, script, end=end)
        if rewritten is None:
            matches = []
            break
        done += [*lines[position : match.start], *rewritten]
        position = match.stop
    if not matches:
        return None
    at = tuple(match.start + 1 for match in matches)
    spans = ", ".join(f"{match.start + 1}–{match.stop}" for match in matches[:_MAX_MATCHES_SHOWN])
    difference = matches[0].difference
    note = f"old_text was not found exactly; lines {spans} match except for {difference} and were replaced, re-indented"
    return ReplacedText(join_lines([*done, *lines[position:]]), at, note)


def _script(old: Sequence[str], new: Sequence[str]) -> Iterator[KeepLine | PutLine]:
    """Keep the lines that the new text repeats; put the others."""
    for tag, one, two, three, four in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag == "equal":
            yield from (KeepLine(offset) for offset in range(one, two))
        else:
            yield from (PutLine(line) for line in new[three:four])


def _as_lines(text: str) -> list[str]:
    return [line.text for line in split_lines(text)]


def _unix_endings(text: str) -> str:
    return text.replace("\r\n", "\n")


def _positions(text: str, wanted: str) -> Iterator[int]:
    at = text.find(wanted)
    while at >= 0:
        yield at
        at = text.find(wanted, at + 1)


def _without_overlap(places: Sequence[int], length: int) -> list[int]:
    """Choose matches from the left that do not overlap."""
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
        f"old_text occurs {len(numbers)} times (lines {shown}); add surrounding lines to make it unique, "
        "or set replace_all",
        code="ambiguous",
    )
