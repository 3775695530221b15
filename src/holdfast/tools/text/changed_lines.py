"""The lines of a text that a change has touched, numbered, so that a model sees what it did. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from holdfast.tools.text.text_diff import changed_blocks
from holdfast.tools.text.text_file import TextLine, split_lines

_CONTEXT = 2
_MAX_BLOCK = 24
"""Lines of one changed block that are shown: the first and the last ones."""
_MAX_LINES = 60
_MAX_LINE_CHARS = 400


def changed_lines(old: str, new: str) -> str:
    """Return the changed lines of the new text with those around them; empty if nothing changed."""
    lines = split_lines(new)
    shown: list[str] = []
    for start, stop in _spans(old, lines, new):
        if len(shown) >= _MAX_LINES:
            shown.append("   …\tmore changes are not shown")
            break
        if shown:
            shown.append("   …")
        shown += _numbered(lines, start, stop)
    return "\n".join(shown)


def _spans(old: str, lines: Sequence[TextLine], new: str) -> Iterator[tuple[int, int]]:
    """Yield the spans to show; spans that touch are one."""
    found: list[tuple[int, int]] = []
    for _, _, first, last in changed_blocks(split_lines(old), split_lines(new)):
        start, stop = max(0, first - _CONTEXT), min(len(lines), last + _CONTEXT)
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], stop)
        elif start < stop:
            found.append((start, stop))
    yield from found


def _numbered(lines: Sequence[TextLine], start: int, stop: int) -> list[str]:
    rows = [f"{number + 1:>6}\t{_cut(lines[number].text)}" for number in range(start, stop)]
    if len(rows) <= _MAX_BLOCK:
        return rows
    half = _MAX_BLOCK // 2
    return [*rows[:half], f"   …\t{len(rows) - 2 * half} more lines", *rows[-half:]]


def _cut(text: str) -> str:
    return (
        f"{text[:_MAX_LINE_CHARS]}… [+{len(text) - _MAX_LINE_CHARS:,} characters]"
        if len(text) > _MAX_LINE_CHARS
        else text
    )
