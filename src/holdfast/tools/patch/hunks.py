"""Hunks of a patch, and applying them to a text. Lines outside the hunks keep their bytes. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from holdfast.errors import ToolError
from holdfast.tools.text.line_match import (
    KeepLine,
    LineMatch,
    PutLine,
    Reindent,
    describe_nearest,
    find_lines,
    rewrite_lines,
)
from holdfast.tools.text.text_file import TextLine, join_lines, split_lines, usual_line_end

Mark = Literal[" ", "-", "+"]


class HunkLine(msgspec.Struct, frozen=True):
    mark: Mark
    text: str


class Hunk(msgspec.Struct, frozen=True):
    lines: tuple[HunkLine, ...]
    anchors: tuple[str, ...] = ()
    """Lines above the hunk, in order."""
    near: int | None = None
    """The line at which the hunk starts, counted from 1, if the patch says so. An insertion goes after this line."""
    at_end: bool = False
    final_newline: bool | None = None
    """Whether the new file ends with a newline; None keeps the file's state."""

    @property
    def old(self) -> list[str]:
        return [line.text for line in self.lines if line.mark != "+"]


class PatchedText(msgspec.Struct, frozen=True):
    text: str
    notes: tuple[str, ...] = ()


def apply_hunks(text: str, hunks: Sequence[Hunk]) -> PatchedText:
    """Apply hunks in order, each below the previous one. Raises `ToolError` for a hunk that does not match."""
    lines = split_lines(text)
    end = usual_line_end(lines)
    cursor = shift = 0
    notes: list[str] = []
    for number, hunk in enumerate(hunks, start=1):
        try:
            match = _place(lines, hunk, cursor=cursor, shift=shift)
            new = _rewritten(lines, match, hunk, end=end)
        except ToolError as error:
            raise ToolError(f"hunk {number} of {len(hunks)}: {error.message}", code=error.error_code) from error
        if hunk.old and match.start < cursor:
            notes.append(f"hunk {number} is above the hunk before it; give hunks in the order of the file")
        if match.difference:
            where = f"lines {match.start + 1}–{match.stop}"
            notes.append(f"hunk {number} matched {where} except for {match.difference}, re-indented")
        lines[match.start : match.stop] = new
        added = len(new) - (match.stop - match.start)
        cursor = match.start + len(new) if match.start >= cursor else cursor + added
        shift += added
    return PatchedText(join_lines(lines), tuple(notes))


def _place(lines: Sequence[TextLine], hunk: Hunk, *, cursor: int, shift: int) -> LineMatch:
    start = _find_anchors(lines, hunk, cursor)
    old = hunk.old
    if not old:
        return _insertion(lines, hunk, start, shift=shift)
    matches = find_lines(lines, old, start=start) or ([] if hunk.anchors else find_lines(lines, old))
    if hunk.at_end:
        matches = [match for match in matches if match.stop == len(lines)]
    if not matches:
        raise ToolError(
            f"the lines were not found. {describe_nearest([line.text for line in lines], old)}", code="no_match"
        )
    if len(matches) == 1 or hunk.anchors:
        return matches[0]
    if hunk.near is not None:
        wanted = hunk.near - 1 + shift
        return min(matches, key=lambda match: abs(match.start - wanted))
    places = ", ".join(str(match.start + 1) for match in matches[:8])
    raise ToolError(
        f"the lines occur {len(matches)} times (at lines {places}); add context lines, or an '@@ line above'",
        code="ambiguous",
    )


def _insertion(lines: Sequence[TextLine], hunk: Hunk, start: int, *, shift: int) -> LineMatch:
    """Place a hunk that only adds lines: below its anchor, at its line number, or at the end of the file."""
    if hunk.anchors:
        at = start
    elif hunk.near is not None:
        at = max(start, min(hunk.near + shift, len(lines)))
    else:
        at = len(lines)
    behind_bare_line = at == len(lines) > 0 and not lines[-1].end
    return LineMatch(at - behind_bare_line, at, Reindent(), "exact")


def _find_anchors(lines: Sequence[TextLine], hunk: Hunk, cursor: int) -> int:
    for anchor in hunk.anchors:
        texts = [line.text.strip() for line in lines]
        found = next((at for at in range(cursor, len(texts)) if texts[at] == anchor), None)
        if found is None:
            found = next((at for at in range(cursor, len(texts)) if anchor in texts[at]), None)
        if found is None:
            below = f" below line {cursor}" if cursor else ""
            raise ToolError(f"the line '@@ {anchor}' was not found{below}", code="no_match")
        cursor = found + 1
    return cursor


def _rewritten(lines: Sequence[TextLine], match: LineMatch, hunk: Hunk, *, end: str) -> list[TextLine]:
    new = rewrite_lines(lines, match, _script(hunk, matched=match.stop - match.start), end=end)
    if new is None:
        raise ToolError("the new lines cannot be indented to fit the file; view the file again", code="no_match")
    if new and match.stop == len(lines) and hunk.final_newline is not None:
        new[-1] = TextLine(new[-1].text, end if hunk.final_newline else "")
    return new


def _script(hunk: Hunk, *, matched: int) -> list[KeepLine | PutLine]:
    script: list[KeepLine | PutLine] = []
    offset = 0
    for line in hunk.lines:
        if line.mark == "+":
            script.append(PutLine(line.text))
            continue
        if line.mark == " ":
            script.append(KeepLine(offset))
        offset += 1
    return [*(KeepLine(at) for at in range(offset, matched)), *script]
