"""Output that was written for a terminal, as plain text. Pure.

Colours and other control sequences are removed. A line that is overwritten again and again (a progress bar) becomes its
last state. Backspaces delete, and NULs and other control characters are dropped. Text arrives in pieces of any size.
"""

from __future__ import annotations

import re

_SPECIAL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""Characters that are not plain text; tab and newline are."""
_SEQUENCE = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # colours, cursor movements
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c\n]*(?:\x07|\x1b\\|\x9c)"  # titles, links
    r"|\x1b[ -/]*[0-Z\\^-~]"
)
_OPEN_SEQUENCE = re.compile(
    r"(?:(?:\x1b\[|\x9b)[0-?]*[ -/]*|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c\n]*\x1b?|\x1b[ -/]*)\Z"
)
"""A sequence whose end has not arrived."""
_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")

_MAX_HELD = 8_192
"""Characters that are held back at most. A longer sequence or line is passed on."""


class TerminalText:
    """Turns the output of one command into plain text, piece by piece."""

    def __init__(self) -> None:
        self._held = ""
        """An incomplete sequence or a carriage return at the end of the last piece."""
        self._overwritten = False
        """Whether the line so far was started again by a carriage return. It is then held until it ends."""
        self._line = ""
        """The last state of such a line."""
        self._column = 0
        """Characters of the open line that were passed on."""

    @property
    def open_line(self) -> str:
        """The last state of a line that is being overwritten, which was not passed on yet."""
        return self._line

    def feed(self, text: str, *, final: bool = False) -> str:
        """Return the plain text that can be passed on."""
        if not self._held and not self._overwritten and not _SPECIAL.search(text):
            self._note_column(text)
            return text
        text = self._held + text
        self._held = ""
        text = _OPEN_SEQUENCE.sub("", text) if final else self._hold_back(text)
        text = _SEQUENCE.sub("", text)
        if "\b" in text:
            text = _without_deleted(text)
        text = _CONTROLS.sub("", text).replace("\r\n", "\n")
        return self._without_overwritten(text, final=final)

    def _hold_back(self, text: str) -> str:
        """Keep an incomplete sequence, or a carriage return that may belong to a line end, for the next piece."""
        found = _OPEN_SEQUENCE.search(text)
        at = found.start() if found else len(text)
        at -= text[:at].endswith("\r")
        if len(text) - at > _MAX_HELD:
            return text
        self._held = text[at:]
        return text[:at]

    def _without_overwritten(self, text: str, *, final: bool) -> str:
        if "\r" not in text and not self._overwritten:
            self._note_column(text)
            return text
        done: list[str] = []
        *lines, last = text.split("\n")
        for line in lines:
            self._add_to_line(line, done)
            done += [self._line, "\n"]
            self._start_line()
        self._add_to_line(last, done)
        if self._line and (final or not self._overwritten or len(self._line) > _MAX_HELD):
            done.append(self._line)
            self._column += len(self._line)
            self._line = ""
            self._overwritten = False
        return "".join(done)

    def _add_to_line(self, text: str, done: list[str]) -> None:
        """Add text to the open line. Each carriage return starts the line again."""
        first, *again = text.split("\r")
        self._line += first
        states = [state for state in again if state.strip()]
        if not again:
            return
        if self._column and not self._overwritten and states:  # what was passed on cannot be taken back
            done += [self._line, "\n"]
            self._column, self._line = 0, ""
        self._overwritten = True
        if states:
            self._line = states[-1]

    def _start_line(self) -> None:
        self._line = ""
        self._column = 0
        self._overwritten = False

    def _note_column(self, text: str) -> None:
        end = text.rfind("\n")
        self._column = self._column + len(text) if end < 0 else len(text) - end - 1


def _without_deleted(text: str) -> str:
    """Let each backspace delete the character before it, but no line end."""
    kept: list[str] = []
    for character in text:
        if character != "\b":
            kept.append(character)
        elif kept and kept[-1] not in "\r\n":
            kept.pop()
    return "".join(kept)


def plain_text(text: str) -> str:
    """Return a whole output as plain text."""
    return TerminalText().feed(text, final=True)
