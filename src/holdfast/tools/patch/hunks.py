"""Hunks on a file's text. Pure. What stays keeps its bytes; nothing outside a hunk changes."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from holdfast.errors import ToolError
from holdfast.tools.patch.patch_operations import Hunk
from holdfast.tools.text import text_lines as rows
from holdfast.tools.text.indentation import Reindent
from holdfast.tools.text.nearest_match import describe_nearest


class PatchedText(msgspec.Struct, frozen=True):
    text: str
    notes: tuple[str, ...] = ()


def apply_hunks(text: str, hunks: Sequence[Hunk]) -> PatchedText:
    """In order, each below the one before. `ToolError` says which one has no place, and why."""
    lines = rows.split_lines(text)
    end = rows.usual_line_end(lines)
    cursor = shift = 0
    notes: list[str] = []
    for number, hunk in enumerate(hunks, start=1):
        try:
            match = _place(lines, hunk, cursor=cursor, shift=shift)
            new = _rewritten(lines, match, hunk, end=end)
        except ToolError as error:
            raise ToolError(f"hunk {number} of {len(hunks)}: {error.message}", code=error.error_code) from error
        if match.how == "spaces":
            notes.append(f"hunk {number} matched lines {match.start + 1}–{match.stop} but for white space, re-indented")
        lines[match.start : match.stop] = new
        cursor = match.start + len(new)
        shift += len(new) - (match.stop - match.start)
    return PatchedText(rows.join_lines(lines), tuple(notes))


def _place(lines: Sequence[rows.TextLine], hunk: Hunk, *, cursor: int, shift: int) -> rows.LineMatch:
    start = _below_anchors(lines, hunk, cursor)
    old = hunk.old
    if not old:
        return _insertion(lines, hunk, start, shift=shift)
    matches = rows.find_lines(lines, old, start=start)
    if hunk.at_end:
        matches = [match for match in matches if match.stop == len(lines)]
    if not matches:
        raise ToolError(
            f"its lines were not found. {describe_nearest([line.text for line in lines[start:]], old)}", code="no_match"
        )
    if len(matches) == 1 or hunk.anchors:
        return matches[0]
    if hunk.near is not None:
        wanted = hunk.near - 1 + shift
        return min(matches, key=lambda match: abs(match.start - wanted))
    places = ", ".join(str(match.start + 1) for match in matches[:8])
    raise ToolError(
        f"its lines stand {len(matches)} times in the file (lines {places}); add lines around it, or an @@ line above",
        code="ambiguous",
    )


def _insertion(lines: Sequence[rows.TextLine], hunk: Hunk, start: int, *, shift: int) -> rows.LineMatch:
    """A hunk that only adds: below its anchor, at the line it names, or at the end."""
    if hunk.anchors:
        at = start
    elif hunk.near is not None:
        at = max(start, min(hunk.near + shift, len(lines)))
    else:
        at = len(lines)
    behind_bare_line = at == len(lines) > 0 and not lines[-1].end
    return rows.LineMatch(at - behind_bare_line, at, Reindent(), "exact")


def _below_anchors(lines: Sequence[rows.TextLine], hunk: Hunk, cursor: int) -> int:
    for anchor in hunk.anchors:
        texts = [line.text.strip() for line in lines]
        found = next((at for at in range(cursor, len(texts)) if texts[at] == anchor), None)
        if found is None:
            found = next((at for at in range(cursor, len(texts)) if anchor in texts[at]), None)
        if found is None:
            raise ToolError(f"the line '@@ {anchor}' was not found below line {cursor}", code="no_match")
        cursor = found + 1
    return cursor


def _rewritten(lines: Sequence[rows.TextLine], match: rows.LineMatch, hunk: Hunk, *, end: str) -> list[rows.TextLine]:
    new = rows.rewrite_lines(lines, match, _script(hunk, matched=match.stop - match.start), end=end)
    if new is None:
        raise ToolError("its new lines cannot be indented as the file is; view the file again", code="no_match")
    if new and match.stop == len(lines) and hunk.final_newline is not None:
        new[-1] = rows.TextLine(new[-1].text, end if hunk.final_newline else "")
    return new


def _script(hunk: Hunk, *, matched: int) -> list[rows.KeepLine | rows.PutLine]:
    script: list[rows.KeepLine | rows.PutLine] = []
    offset = 0
    for line in hunk.lines:
        if line.mark == "+":
            script.append(rows.PutLine(line.text))
            continue
        if line.mark == " ":
            script.append(rows.KeepLine(offset))
        offset += 1
    return [*(rows.KeepLine(at) for at in range(offset, matched)), *script]
