"""Text in a form in which typographic variants are equal, with the positions of the original. Pure.

Quotes, dashes and spaces of all kinds count as the plain ones, invisible characters do not count, and letters with
accents count as equal whether they are one character or several. Models write the plain form of what they read.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Iterator

_RUN = re.compile(r"(?:[\x21-\x7e](?=[\u0300-\u036f\u20d0-\u20ff]))?[^\x00-\x7f]+")
"""Where folding may change something: characters outside ASCII, and a letter before a combining accent."""

_PLAIN = {
    **dict.fromkeys("‘’‚‛′´", "'"),
    **dict.fromkeys("“”„‟″", '"'),
    **dict.fromkeys("‐‑‒–—―−", "-"),
    **dict.fromkeys("\u00a0\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000", " "),
    **dict.fromkeys("\u00ad\u200b\u200c\u200d\u2060\ufeff\ufe0e\ufe0f", ""),
    "…": "...",
}
_FOLDED = str.maketrans(_PLAIN)


def fold_text(text: str) -> str:
    """Return the text in its plain form."""
    return text if text.isascii() else unicodedata.normalize("NFC", text).translate(_FOLDED)


class FoldedText:
    """A text, its plain form, and the mapping between their positions."""

    def __init__(self, original: str) -> None:
        self.original = original
        pieces: list[str] = []
        self._starts: list[int] = []
        """Positions in the original at which pieces begin."""
        self._folded: list[int] = []
        """Positions of the same pieces in the plain form."""
        self._is_plain: list[bool] = []
        size = 0
        for start, stop, plain in (*_pieces(original), (len(original), len(original), None)):
            self._starts.append(start)
            self._folded.append(size)
            self._is_plain.append(plain is None)
            pieces.append(original[start:stop] if plain is None else plain)
            size += len(pieces[-1])
        self.text = "".join(pieces)

    def to_original(self, position: int, *, is_end: bool = False) -> int | None:
        """Map a position of the plain form; None if it is inside what is one character in the original.

        Characters that do not count are outside a range on both sides.
        """
        index = bisect_left(self._folded, position) if is_end else bisect_right(self._folded, position) - 1
        if is_end and (index == len(self._folded) or self._folded[index] != position):
            index -= 1
        rest = position - self._folded[index]
        return self._starts[index] + rest if not rest or self._is_plain[index] else None

    def to_folded(self, position: int) -> int | None:
        """Map a position of the original; None if it is inside of what became one piece."""
        index = bisect_right(self._starts, position) - 1
        rest = position - self._starts[index]
        return self._folded[index] + rest if not rest or self._is_plain[index] else None


def _pieces(text: str) -> Iterator[tuple[int, int, str | None]]:
    """Yield start, stop and plain form of each piece; None if the piece is plain already."""
    done = 0
    for run in _RUN.finditer(text):
        if run.start() > done:
            yield done, run.start(), None
        start = run.start()
        while start < run.end():
            stop = start + 1
            while stop < run.end() and _joins(text[stop]):
                stop += 1
            yield start, stop, fold_text(text[start:stop])
            start = stop
        done = run.end()
    if done < len(text):
        yield done, len(text), None


def _joins(character: str) -> bool:
    """Whether a character belongs to the one before it: a combining mark, or a vowel or final of Korean."""
    return unicodedata.combining(character) != 0 or "\u1160" <= character <= "\u11ff"
