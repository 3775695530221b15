"""Lines with their endings, and whole lines found by more or less exact comparison. Pure.

Only ``\\n`` and ``\\r\\n`` end a line: form feeds and Unicode separators are content, as in every editor and in git.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

from holdfast.tools.text.indentation import Reindent


class TextLine(msgspec.Struct, frozen=True):
    text: str
    end: str
    """``\\n``, ``\\r\\n``, or nothing for a last line without one."""


class LineMatch(msgspec.Struct, frozen=True):
    """Lines ``start`` up to ``stop`` are the ones that were looked for."""

    start: int
    stop: int
    reindent: Reindent
    how: Literal["exact", "spaces"]


class KeepLine(msgspec.Struct, frozen=True):
    """The matched line at this offset stays as it is in the file."""

    offset: int


class PutLine(msgspec.Struct, frozen=True):
    """A new line, indented as the one who asks sees the file."""

    text: str


def split_lines(text: str) -> list[TextLine]:
    """Joined again, the same text."""
    parts = text.split("\n")
    lines = [
        TextLine(part[:-1], "\r\n") if part.endswith("\r") else TextLine(part, "\n")
        for part in parts[:-1]  # what follows the last newline is a line only if it is not empty
    ]
    return [*lines, TextLine(parts[-1], "")] if parts[-1] else lines


def join_lines(lines: Iterable[TextLine]) -> str:
    return "".join(line.text + line.end for line in lines)


def usual_line_end(lines: Iterable[TextLine], *, default: str = "\n") -> str:
    """The line ending that most lines have."""
    counts = {"\r\n": 0, "\n": 0}
    for line in lines:
        if line.end:
            counts[line.end] += 1
    if not any(counts.values()):
        return default
    return "\r\n" if counts["\r\n"] > counts["\n"] else "\n"


def find_lines(lines: Sequence[TextLine], wanted: Sequence[str], *, start: int = 0) -> list[LineMatch]:
    """Where the wanted lines stand: exactly, or else with other white space at their ends and a consistent indent."""
    exact = _find([line.text for line in lines], wanted, start=start)
    if exact:
        return [LineMatch(at, at + len(wanted), Reindent(), "exact") for at in exact]
    if not any(text.strip() for text in wanted):
        return []
    places = _find([line.text.strip() for line in lines], [text.strip() for text in wanted], start=start)
    matches = []
    for at in places:
        reindent = Reindent.between(wanted, [line.text for line in lines[at : at + len(wanted)]])
        if reindent is not None:
            matches.append(LineMatch(at, at + len(wanted), reindent, "spaces"))
    return matches


def rewrite_lines(
    lines: Sequence[TextLine], match: LineMatch, script: Iterable[KeepLine | PutLine], *, end: str
) -> list[TextLine] | None:
    """The matched lines after the script. The last line keeps the file's ending, also when that is none.

    None where a new line cannot be indented as the file is.
    """
    done: list[TextLine] = []
    for step in script:
        match step:
            case KeepLine(offset=offset):
                done.append(lines[match.start + offset])
            case PutLine(text=text):
                placed = match.reindent.line(text)
                if placed is None:
                    return None
                done.append(TextLine(placed, end))
    if not done:
        return done
    last_end = lines[match.stop - 1].end if match.stop > match.start else end
    return [*(TextLine(line.text, line.end or end) for line in done[:-1]), TextLine(done[-1].text, last_end)]


def _find(texts: Sequence[str], wanted: Sequence[str], *, start: int) -> list[int]:
    count = len(wanted)
    if not count:
        return []
    first, rest = wanted[0], list(wanted)
    return [
        at for at in range(start, len(texts) - count + 1) if texts[at] == first and list(texts[at : at + count]) == rest
    ]
