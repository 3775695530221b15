"""Unified diffs for approvals, transcripts and events. Pure, limited in time and size."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence

import msgspec

from holdfast.tools.text.text_file import TextLine, split_lines

MAX_DIFF_CHARS = 60_000
_CONTEXT = 3
_MAX_COMPARED = 3_000
"""Lines of each side to compare. A larger change is shown as one block."""


class TextDiff(msgspec.Struct, frozen=True):
    text: str
    added: int = 0
    removed: int = 0

    @property
    def counts(self) -> str:
        return f"+{self.added} −{self.removed}"


def unified_diff(name: str, old: str | None, new: str | None) -> TextDiff:
    """Return the diff between two texts. None means that the file does not exist."""
    before, after = split_lines(old or ""), split_lines(new or "")
    head = [
        f"--- {'/dev/null' if old is None else f'a/{name}'}\n",
        f"+++ {'/dev/null' if new is None else f'b/{name}'}\n",
    ]
    blocks = changed_blocks(before, after)
    body = [line for group in _groups(blocks) for line in _hunk(before, after, group)]
    removed = sum(two - one for one, two, _, _ in blocks)
    added = sum(four - three for _, _, three, four in blocks)
    return TextDiff(_truncated([*head, *body]) if body or (old is None) != (new is None) else "", added, removed)


def binary_diff(name: str, old: bytes | None, new: bytes | None) -> TextDiff:
    """Describe a change of content that is not text."""
    before = "absent" if old is None else f"{len(old):,} bytes"
    after = "absent" if new is None else f"{len(new):,} bytes"
    return TextDiff(f"Binary file {name}: {before} → {after}\n")


_Block = tuple[int, int, int, int]
"""Start and stop in the old lines, then start and stop in the new lines that replace them."""


def changed_blocks(before: Sequence[TextLine], after: Sequence[TextLine]) -> list[_Block]:
    """Return what differs. Only the lines between the common start and the common end are compared."""
    start = 0
    limit = min(len(before), len(after))
    while start < limit and before[start] == after[start]:
        start += 1
    tail = 0
    while tail < limit - start and before[-1 - tail] == after[-1 - tail]:
        tail += 1
    one, two = before[start : len(before) - tail], after[start : len(after) - tail]
    if not one and not two:
        return []
    if len(one) > _MAX_COMPARED or len(two) > _MAX_COMPARED:
        return [(start, start + len(one), start, start + len(two))]
    codes = difflib.SequenceMatcher(None, _keys(one), _keys(two), autojunk=False).get_opcodes()
    return [(start + a, start + b, start + c, start + d) for tag, a, b, c, d in codes if tag != "equal"]


def _keys(lines: Sequence[TextLine]) -> list[str]:
    return [line.text + line.end for line in lines]


def _groups(blocks: Sequence[_Block]) -> Iterator[list[_Block]]:
    """Group blocks whose context lines touch; each group becomes a hunk."""
    group: list[_Block] = []
    for block in blocks:
        if group and block[0] - group[-1][1] > 2 * _CONTEXT:
            yield group
            group = []
        group.append(block)
    if group:
        yield group


def _hunk(before: Sequence[TextLine], after: Sequence[TextLine], group: Sequence[_Block]) -> Iterator[str]:
    lead = min(_CONTEXT, group[0][0])
    first, last = group[0][0] - lead, min(len(before), group[-1][1] + _CONTEXT)
    first_new = group[0][2] - lead
    last_new = group[-1][3] + (last - group[-1][1])
    yield f"@@ -{_range(first, last)} +{_range(first_new, last_new)} @@\n"
    position = first
    for one, two, three, four in group:
        yield from (_line(" ", line) for line in before[position:one])
        yield from (_line("-", line) for line in before[one:two])
        yield from (_line("+", line) for line in after[three:four])
        position = two
    yield from (_line(" ", line) for line in before[position:last])


def _line(mark: str, line: TextLine) -> str:
    if not line.end:
        return f"{mark}{line.text}\n\\ No newline at end of file\n"
    return f"{mark}{line.text}{line.end}"


def _range(start: int, stop: int) -> str:
    count = stop - start
    if count == 1:
        return str(start + 1)
    return f"{start + 1 if count else start},{count}"


def _truncated(lines: Sequence[str]) -> str:
    shown: list[str] = []
    size = 0
    for number, line in enumerate(lines):
        size += len(line)
        if size > MAX_DIFF_CHARS:
            return "".join([*shown, f"… {len(lines) - number} more lines of this diff are not shown\n"])
        shown.append(line)
    return "".join(shown)
