"""Finding whole lines in a text: exactly, or except for white space and typographic variants. Pure.

A match that differs in indentation carries a `Reindent`, so that new lines get the file's indentation. If nothing
matches, `describe_nearest` shows the most similar place.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Literal

import msgspec

from holdfast.tools.text.text_file import TextLine
from holdfast.tools.text.text_folding import fold_text

_MAX_COMPARED = 4_000
"""Lines to compare character by character; more would take too long."""
_MAX_EQUAL = 100
"""Places of the same weight to compare."""
_MAX_SHOWN = 40
_WIDTH = 200
_NUMBERED = re.compile(r" *\d+\t")
_OMISSION = re.compile(
    r"^\s*(?:#|//|--|/\*|<!--|;)?\s*(?:\.\.\.|…)(?:[^.…]*(?:existing|rest|unchanged|remain|same)[^.…]*(?:\.\.\.|…)?)?\s*(?:\*/|-->)?$"
)
"""A line that stands for others, as in ``# ... existing code ...``."""


class Reindent(msgspec.Struct, frozen=True):
    """Maps the indentation of the given text to that of the file. An empty mapping changes nothing."""

    indents: Mapping[str, str] = {}
    unit: tuple[str, str] | None = None
    """One level of indentation in the given text and in the file, if known."""

    @classmethod
    def between(cls, given: Sequence[str], found: Sequence[str]) -> Reindent | None:
        """Derive the mapping. None if one given indent has two counterparts: the structures differ."""
        indents: dict[str, str] = {}
        for theirs, ours in zip(given, found, strict=True):
            if theirs.strip() and indents.setdefault(_indent_of(theirs), _indent_of(ours)) != _indent_of(ours):
                return None
        return cls(indents, _unit(indents))

    def apply(self, text: str) -> str | None:
        """Re-indent a line of the given text; None if its indentation has no counterpart."""
        if not text.strip():
            return text if not self.indents else ""
        indent = _indent_of(text)
        placed = self._indent(indent)
        return None if placed is None else placed + text[len(indent) :]

    def _indent(self, indent: str) -> str | None:
        if not self.indents:
            return indent
        if indent in self.indents:
            return self.indents[indent]
        shallower = [known for known in self.indents if indent.startswith(known)]
        if shallower:
            base = max(shallower, key=len)
            return self.indents[base] + self._translate(indent[len(base) :])
        deeper = [known for known in self.indents if known.startswith(indent)]
        if not deeper:
            return None
        base = min(deeper, key=len)
        cut = self._translate(base[len(indent) :])
        whole = self.indents[base]
        return whole[: len(whole) - len(cut)] if whole.endswith(cut) else None

    def _translate(self, step: str) -> str:
        if self.unit is None:
            return step
        theirs, ours = self.unit
        levels, rest = divmod(len(step), len(theirs))
        return ours * levels if not rest and step == theirs * levels else step


class LineMatch(msgspec.Struct, frozen=True):
    """The wanted lines are the lines from ``start`` to before ``stop``."""

    start: int
    stop: int
    reindent: Reindent
    how: Literal["exact", "spaces", "variants"]

    @property
    def difference(self) -> str:
        """What the match ignores, in words; empty for an exact match."""
        match self.how:
            case "exact":
                return ""
            case "spaces":
                return "white space"
            case "variants":
                return "white space and typographic or Unicode variants"


class KeepLine(msgspec.Struct, frozen=True):
    """Keep the matched line at this offset."""

    offset: int


class PutLine(msgspec.Struct, frozen=True):
    """Insert a new line, indented like the given text."""

    text: str


def find_lines(lines: Sequence[TextLine], wanted: Sequence[str], *, start: int = 0) -> list[LineMatch]:
    """Find all exact matches.

    Without any, find matches with a consistent indent that ignore white space at line ends; without any of those, find
    matches that ignore typographic variants, too.
    """
    exact = _find([line.text for line in lines], wanted, start=start)
    if exact:
        return [LineMatch(at, at + len(wanted), Reindent(), "exact") for at in exact]
    if not any(text.strip() for text in wanted):
        return []
    stripped = [line.text.strip() for line in lines], [text.strip() for text in wanted]
    if matches := _find_indented(lines, wanted, _find(*stripped, start=start), "spaces"):
        return matches
    if all(text.isascii() for side in stripped for text in side):
        return []
    folded = [fold_text(text).strip() for text in stripped[0]], [fold_text(text).strip() for text in stripped[1]]
    return _find_indented(lines, wanted, _find(*folded, start=start), "variants")


def _find_indented(
    lines: Sequence[TextLine], wanted: Sequence[str], places: Sequence[int], how: Literal["spaces", "variants"]
) -> list[LineMatch]:
    """Return the matches at these places whose indentation is consistent."""
    matches = []
    for at in places:
        reindent = Reindent.between(wanted, [line.text for line in lines[at : at + len(wanted)]])
        if reindent is not None:
            matches.append(LineMatch(at, at + len(wanted), reindent, how))
    return matches


def rewrite_lines(
    lines: Sequence[TextLine], match: LineMatch, script: Iterable[KeepLine | PutLine], *, end: str
) -> list[TextLine] | None:
    """Return the matched lines after the script; None if a new line cannot be re-indented.

    The last line keeps its line ending, also if it has none.
    """
    done: list[TextLine] = []
    for step in script:
        match step:
            case KeepLine(offset=offset):
                done.append(lines[match.start + offset])
            case PutLine(text=text):
                placed = match.reindent.apply(text)
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


def _indent_of(text: str) -> str:
    return text[: len(text) - len(text.lstrip())]


def _unit(indents: Mapping[str, str]) -> tuple[str, str] | None:
    """Derive one level of indentation from two known depths, else from tabs that replace spaces."""
    known = sorted(indents, key=len)
    for shallow, deep in pairwise(known):
        theirs, ours = deep.removeprefix(shallow), indents[deep].removeprefix(indents[shallow])
        if theirs and ours and deep.startswith(shallow) and indents[deep].startswith(indents[shallow]):
            return theirs, ours
    for theirs, ours in indents.items():
        if theirs and ours and set(theirs) != set(ours):
            return _ratio(theirs, ours)
    return None


def _ratio(theirs: str, ours: str) -> tuple[str, str] | None:
    long, short = max(theirs, ours, key=len), min(theirs, ours, key=len)
    if set(short) != {"\t"} or set(long) != {" "} or len(long) % len(short):
        return None
    level = long[: len(long) // len(short)]
    return (level, "\t") if theirs is long else ("\t", level)


def describe_nearest(lines: Sequence[str], wanted: Sequence[str]) -> str:
    """Describe the most similar place line by line, for an error message."""
    if wanted and all(_NUMBERED.match(line) for line in wanted):
        return "The text starts with line numbers, as view prints them; omit them."
    if not lines:
        return "The file is empty."
    if omission := next((line.strip() for line in wanted if _OMISSION.match(line) and line not in lines), None):
        return f"{omission!r} stands for lines that were left out, but the text must be whole; copy all lines."
    start = _best_start(lines, wanted)
    if start is None:
        return "Nothing in the file is similar; view the file again."
    found = lines[start : start + len(wanted)]
    shown = list(_differences(wanted, found, first=start + 1))
    cut = [f"  … {len(shown) - _MAX_SHOWN} more lines"] if len(shown) > _MAX_SHOWN else []
    where = f"line {start + 1}" if len(found) == 1 else f"lines {start + 1} to {start + len(found)}"
    return "\n".join(
        [f"The most similar text is at {where} (-: the given text, +: the file):", *shown[:_MAX_SHOWN], *cut]
    )


def _best_start(lines: Sequence[str], wanted: Sequence[str]) -> int | None:
    """Choose by the total length of equal lines, else by the line most similar to the longest wanted line."""
    known = {line.strip() for line in wanted if line.strip()}
    weights = [len(text) if (text := line.strip()) in known else 0 for line in lines]
    sums = [0, *accumulate(weights)]
    count = len(wanted)
    starts = range(max(1, len(lines) - count + 1))
    totals = [sums[min(at + count, len(lines))] - sums[at] for at in starts]
    best = max(totals)
    if not best:
        return _most_alike(lines, wanted)
    equal = [at for at, total in enumerate(totals) if total == best][:_MAX_EQUAL]
    return max(equal, key=lambda at: _count_equal(lines[at : at + count], wanted))


def _count_equal(lines: Sequence[str], wanted: Sequence[str]) -> int:
    return sum(one.strip() == two.strip() for one, two in zip(lines, wanted, strict=False))


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
            yield "  (these lines differ only in white space)"


def _cut(line: str) -> str:
    return line if len(line) <= _WIDTH else f"{line[:_WIDTH]}… [+{len(line) - _WIDTH} characters]"
