"""From the indentation that a model believes a file has to the one it has. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import msgspec


def indent_of(text: str) -> str:
    return text[: len(text) - len(text.lstrip())]


class Reindent(msgspec.Struct, frozen=True):
    """How each indent of the given text is written in the file; empty: the same."""

    indents: Mapping[str, str] = {}
    unit: tuple[str, str] | None = None
    """One level, there and here, where it is known."""

    @classmethod
    def between(cls, given: Sequence[str], found: Sequence[str]) -> Reindent | None:
        """None if the two do not differ in a consistent way: then they do not mean the same structure."""
        indents: dict[str, str] = {}
        for theirs, ours in zip(given, found, strict=True):
            if theirs.strip() and indents.setdefault(indent_of(theirs), indent_of(ours)) != indent_of(ours):
                return None
        return cls(indents, _unit(indents))

    def line(self, text: str) -> str | None:
        """A line of the given text as the file would have it; None where that cannot be known."""
        if not text.strip():
            return text if not self.indents else ""
        indent = indent_of(text)
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


def _unit(indents: Mapping[str, str]) -> tuple[str, str] | None:
    """One level of indentation: from two known depths, else from tabs that stand for spaces."""
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
