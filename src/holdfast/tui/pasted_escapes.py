"""Escape characters inside of pasted text. Pure.

Textual reads an escape character in a paste as the beginning of a key, and runs what that key does. So they are
replaced before Textual sees them, and put back where the text is used.
"""

from __future__ import annotations

from typing import Final

ESCAPE: Final = "\x1b"
MARK: Final = "\uf01b"
"""Stands for an escape character: a character of the private area, harmless on any terminal."""
_BEGIN: Final = "\x1b[200~"
_END: Final = "\x1b[201~"


class PastedEscapes:
    """Replaces escape characters in what a terminal sends, between the marks of a paste. Text comes in any pieces."""

    def __init__(self) -> None:
        self._in_paste = False
        self._before = ""
        """The last characters: the beginning of a paste may arrive in two pieces."""
        self._held = ""
        """The characters of a paste that may be the beginning of its end."""

    def replace(self, text: str) -> str:
        done = []
        while text:
            if self._in_paste:
                piece, text = self._inside(self._held + text)
            else:
                piece, text = self._outside(text)
            done.append(piece)
        return "".join(done)

    def _outside(self, text: str) -> tuple[str, str]:
        known = self._before + text
        found = known.find(_BEGIN)
        if found < 0:
            self._before = known[-len(_BEGIN) + 1 :]
            return text, ""
        self._in_paste, self._before = True, ""
        end = found + len(_BEGIN) - (len(known) - len(text))
        return text[:end], text[end:]

    def _inside(self, text: str) -> tuple[str, str]:
        self._held = ""
        found = text.find(_END)
        if found >= 0:
            self._in_paste = False
            end = found + len(_END)
            return text[:found].replace(ESCAPE, MARK) + _END, text[end:]
        last = text.rfind(ESCAPE, -len(_END) + 1)
        if last >= 0 and _END.startswith(text[last:]):
            text, self._held = text[:last], text[last:]
        return text.replace(ESCAPE, MARK), ""


def with_escapes(pasted: str) -> str:
    """The text as it was pasted."""
    return pasted.replace(MARK, ESCAPE)
