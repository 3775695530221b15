"""What was already written of a text that is still growing, may begin anew, or is cut back. Pure.

A line that was written cannot be taken back, so this decides what is written next: the rest of what is known, nothing
while a new attempt says the same again, or the whole text anew once it differs.
"""

from __future__ import annotations

from typing import NamedTuple


class Write(NamedTuple):
    text: str
    anew: bool = False
    """It replaces what was written before, and does not continue it."""


class PrintedText:
    """One part of a message."""

    __slots__ = ("_attempt", "_is_behind", "_length", "_pieces")

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._length = 0
        self._attempt = 0
        self._is_behind = False
        """Another attempt has begun, and has not said more than what was written."""

    @property
    def text(self) -> str:
        if len(self._pieces) > 1:
            self._pieces = ["".join(self._pieces)]
        return self._pieces[0] if self._pieces else ""

    def continues(self, *, offset: int, attempt: int) -> bool:
        """Whether text at this place can be written as it comes."""
        return offset == self._length and attempt in (self._attempt, 0) and not self._is_behind

    def add(self, text: str) -> Write:
        self._pieces.append(text)
        self._length += len(text)
        return Write(text)

    def grow_to(self, whole: str, *, attempt: int) -> Write:
        """The part so far, of this attempt."""
        if attempt > self._attempt:
            self._is_behind = self._length > 0
            self._attempt = attempt
        written = self.text
        if whole.startswith(written):
            self._is_behind = False
            return self.add(whole[len(written) :])
        if written.startswith(whole):
            return Write("")
        return self._anew(whole)

    def end_at(self, whole: str) -> Write:
        """The part is complete, and this is what is stored."""
        written = self.text
        if whole.startswith(written):
            self._is_behind = False
            return self.add(whole[len(written) :])
        if written.startswith(whole) and not self._is_behind:
            return Write("")  # a crash: what was stored is shorter than what was seen
        return self._anew(whole)

    def _anew(self, whole: str) -> Write:
        self._pieces, self._length, self._is_behind = [whole], len(whole), False
        return Write(whole, anew=True)
