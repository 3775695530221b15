"""Positions of the Language Server Protocol in texts, and edits by position. Pure.

A position is a line and a number of code units in it, usually of UTF-16. A line ends with ``\\n``, ``\\r\\n`` or
``\\r``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from holdfast.extend.lsp.message_framing import LanguageServerError
from holdfast.extend.lsp.protocol_types import Position, PositionEncoding, RangeEdit

_LINE_END = re.compile(r"\r\n|\n|\r")
_UNIT_BYTES = {"utf-8": 1, "utf-16": 2, "utf-32": 4}
_CODECS = {"utf-8": "utf-8", "utf-16": "utf-16-le", "utf-32": "utf-32-le"}


class PositionedText:
    """A text in which positions can be found."""

    def __init__(self, text: str, encoding: PositionEncoding = "utf-16") -> None:
        self.text = text
        self._encoding = encoding
        ends = [found.span() for found in _LINE_END.finditer(text)]
        self._starts = [0, *(end for _, end in ends)]
        self._ends = [*(start for start, _ in ends), len(text)]

    @property
    def line_count(self) -> int:
        return len(self._starts)

    def line(self, number: int) -> str:
        """Return a line, counted from 0, without its end; empty if there is none."""
        if not 0 <= number < len(self._starts):
            return ""
        return self.text[self._starts[number] : self._ends[number]]

    def offset(self, position: Position) -> int:
        """Return the index into the text. A position beyond the end of a line or of the text is its end."""
        if position.line >= len(self._starts):
            return len(self.text)
        line = self.line(position.line)
        return self._starts[position.line] + characters_before(line, position.character, self._encoding)

    def column(self, position: Position) -> int:
        """Return the column for people, counted from 1 in characters."""
        return characters_before(self.line(position.line), position.character, self._encoding) + 1

    def position(self, line: int, characters: int) -> Position:
        """Return the position after so many characters of a line."""
        return Position(line, units_before(self.line(line), characters, self._encoding))


def characters_before(line: str, units: int, encoding: PositionEncoding) -> int:
    """Return how many characters begin within so many code units. A unit inside a character counts as its start."""
    if line.isascii() or encoding == "utf-32":
        return min(units, len(line))
    size = _UNIT_BYTES[encoding]
    cut = line.encode(_CODECS[encoding], "surrogatepass")[: units * size]
    return len(cut.decode(_CODECS[encoding], "ignore"))


def units_before(line: str, characters: int, encoding: PositionEncoding) -> int:
    """Return how many code units the first characters of a line have."""
    before = line[:characters]
    return len(before.encode(_CODECS[encoding], "surrogatepass")) // _UNIT_BYTES[encoding]


def apply_edits(text: str, edits: Sequence[RangeEdit], encoding: PositionEncoding) -> str:
    """Return the text with all edits. Raises `LanguageServerError` if they overlap or run backwards."""
    positioned = PositionedText(text, encoding)
    spans = [(positioned.offset(one.range.start), positioned.offset(one.range.end), one.new_text) for one in edits]
    spans = [span for _, span in sorted(enumerate(spans), key=lambda item: (item[1][0], item[1][1], item[0]))]
    parts, at = [], 0
    for start, end, new in spans:
        if start < at or end < start:
            raise LanguageServerError("the language server sent edits that overlap, so nothing can be changed")
        parts += [text[at:start], new]
        at = end
    return "".join([*parts, text[at:]])


def find_symbol(text: PositionedText, line: int, symbol: str) -> Position | None:
    """Return where a name stands in a line, counted from 0: as a whole word if possible. None if it is not there."""
    content = text.line(line)
    name = symbol.rpartition(".")[2] if "." in symbol and symbol not in content else symbol
    if not name:
        return None
    found = re.search(rf"(?<!\w){re.escape(name)}(?!\w)", content) or re.search(re.escape(name), content)
    if found is None:
        return None
    last = name.rpartition(".")[2] if "." in name else name
    return text.position(line, found.end() - len(last))
