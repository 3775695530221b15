"""What a model may have meant by the texts of an edit that does not match: other readings of the same texts. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

_NUMBERED = re.compile(r"^ {0,8}(\d{1,7})(?:\t|→|: ?| ?\| ?)(.*)$", re.DOTALL)
_ESCAPE = re.compile(r"""\\(n|t|r|"|'|`|\\|/)""")
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r"}
_ENTITIES = {"&lt;": "<", "&gt;": ">", "&quot;": '"', "&#39;": "'", "&#x27;": "'", "&apos;": "'", "&amp;": "&"}
_ENTITY = re.compile("|".join(_ENTITIES))


class EditReading(NamedTuple):
    """One reading of the old and the new text of an edit."""

    old: str
    new: str
    note: str = ""
    """Tells the model how its text was read."""


def readings(old: str, new: str) -> Iterator[EditReading]:
    """Yield the readings, the one as given first."""
    yield EditReading(old, new)
    numbered = [line for line in old.split("\n") if line.strip()]
    if numbered and _are_numbered(numbered):
        note = "the line numbers at the start of the lines were removed; leave them out"
        yield EditReading(_without_numbers(old), _without_numbers(new), note)
    if kinds := set(_ESCAPE.findall(old)):
        note = "the text was escaped once too often; one level was removed from old_text and new_text"
        yield EditReading(_unescaped(old, kinds), _unescaped(new, kinds), note)
    if _ENTITY.search(old):
        note = "HTML entities such as &lt; were replaced in old_text and new_text; pass the characters themselves"
        yield EditReading(_without_entities(old), _without_entities(new), note)


def _are_numbered(lines: list[str]) -> bool:
    """Whether the lines start with numbers that grow, as in a listing. A table of numbers may not."""
    found = [_NUMBERED.match(line) for line in lines]
    numbers = [int(match[1]) for match in found if match]
    return len(numbers) == len(lines) and all(one < two for one, two in pairwise(numbers))


def _without_numbers(text: str) -> str:
    return "\n".join(match[2] if (match := _NUMBERED.match(line)) else line for line in text.split("\n"))


def _unescaped(text: str, kinds: set[str]) -> str:
    """Undo one level of escaping, of the kinds that the old text has: a ``\\n`` in the new text may be meant."""

    def plain(found: re.Match[str]) -> str:
        kind = found[1]
        return _ESCAPED.get(kind, kind) if kind in kinds or "\\" in kinds else found[0]

    return _ESCAPE.sub(plain, text)


def _without_entities(text: str) -> str:
    return _ENTITY.sub(lambda found: _ENTITIES[found[0]], text)
