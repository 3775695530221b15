"""The place in a file that is most like a text that is not in it, and what differs there. Pure, and bounded."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from itertools import accumulate

_MAX_COMPARED = 4_000
"""Lines compared letter by letter; more would take too long."""
_MAX_SHOWN = 40
_WIDTH = 200
_NUMBERED = re.compile(r" *\d+\t")


def describe_nearest(lines: Sequence[str], wanted: Sequence[str]) -> str:
    """For a refusal: where the wanted lines nearly stand, line by line, or that nothing is like them."""
    if wanted and all(_NUMBERED.match(line) for line in wanted):
        return "The text has line numbers in front, as view shows them; leave them out."
    if not lines:
        return "The file is empty."
    start = _best_start(lines, wanted)
    if start is None:
        return "Nothing in the file is like it; view the file again."
    found = lines[start : start + len(wanted)]
    shown = list(_differences(wanted, found, first=start + 1))
    cut = [f"  … {len(shown) - _MAX_SHOWN} more lines"] if len(shown) > _MAX_SHOWN else []
    where = f"line {start + 1}" if len(found) == 1 else f"lines {start + 1} to {start + len(found)}"
    return "\n".join(
        [f"The nearest place is {where}; there (-: the text given, +: the file):", *shown[:_MAX_SHOWN], *cut]
    )


def _best_start(lines: Sequence[str], wanted: Sequence[str]) -> int | None:
    """By whole lines in common, long ones weighing more; else by the line most like the longest wanted one."""
    known = {line.strip() for line in wanted if line.strip()}
    weights = [len(text) if (text := line.strip()) in known else 0 for line in lines]
    sums = [0, *accumulate(weights)]
    count = len(wanted)
    starts = range(max(1, len(lines) - count + 1))
    best = max(starts, key=lambda at: sums[min(at + count, len(lines))] - sums[at])
    if sums[min(best + count, len(lines))] > sums[best]:
        return best
    return _most_alike(lines, wanted)


def _most_alike(lines: Sequence[str], wanted: Sequence[str]) -> int | None:
    offset, longest = max(enumerate(wanted), key=lambda pair: len(pair[1].strip()), default=(0, ""))
    target = longest.strip()[:_WIDTH]
    matcher = difflib.SequenceMatcher(autojunk=False)
    matcher.set_seq2(target)
    best, at = 0.6, None
    for number, line in enumerate(lines[:_MAX_COMPARED]):
        matcher.set_seq1(line.strip()[:_WIDTH])
        if matcher.real_quick_ratio() > best and matcher.quick_ratio() > best and (ratio := matcher.ratio()) > best:
            best, at = ratio, number
    return None if at is None else max(0, at - offset)


def _differences(wanted: Sequence[str], found: Sequence[str], *, first: int) -> Iterator[str]:
    matcher = difflib.SequenceMatcher(None, wanted, found, autojunk=False)
    for tag, one, two, three, four in matcher.get_opcodes():
        if tag == "equal":
            for number in range(three, four):
                yield f"  {first + number}: {_cut(found[number])}"
            continue
        spaces = [line.split() for line in wanted[one:two]] == [line.split() for line in found[three:four]]
        show = repr if spaces else _cut
        for line in wanted[one:two]:
            yield f"- {show(line)}"
        for number in range(three, four):
            yield f"+ {first + number}: {show(found[number])}"
        if spaces:
            yield "  (these differ only in white space)"


def _cut(line: str) -> str:
    return line if len(line) <= _WIDTH else f"{line[:_WIDTH]}… [+{len(line) - _WIDTH} characters]"
