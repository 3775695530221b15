"""How long a model may be silent: until its first token, and between tokens."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from holdfast.errors import ModelStall
from holdfast.schema.base import Value


class Deadlines(Value, frozen=True):
    """Seconds; 0 is for ever."""

    first_token: float = 120.0
    between_tokens: float = 90.0


class StallTimeout:
    """One answer's deadlines. Only the time spent waiting for the model counts, not what its reader does in between.

    Before the first token nothing but a token counts as progress, so that a server that only keeps the connection warm
    is found out; after it, every event but a ping does.
    """

    __slots__ = ("_clock", "_deadlines", "_waited", "_waiting_since", "phase")

    def __init__(self, deadlines: Deadlines, *, clock: Callable[[], float]) -> None:
        self._deadlines = deadlines
        self._clock = clock
        self._waited = 0.0
        self._waiting_since: float | None = None
        self.phase: Literal["first_token", "between_tokens"] = "first_token"

    def wait(self) -> float | None:
        """A wait begins: when it has to end, by the clock; None: never."""
        self._waiting_since = self._clock()
        allowed = self._allowed
        return self._waiting_since + allowed - self._waited if allowed else None

    def rest(self) -> None:
        """The wait is over; what came is looked at now."""
        if self._waiting_since is not None:
            self._waited += self._clock() - self._waiting_since
            self._waiting_since = None

    def progress(self, *, token: bool) -> None:
        """An event came; ``token`` if it brought something of the answer itself."""
        if token:
            self.phase = "between_tokens"
        if self.phase == "between_tokens":
            self._waited = 0.0

    def stall(self) -> ModelStall:
        """The error that says which deadline passed, and after how long."""
        self.rest()
        words = {
            "first_token": "the model gave no first token within",
            "between_tokens": "the model fell silent in the middle of its answer for",
        }
        detail = {"deadline": self.phase, "seconds": self._allowed, "waited": round(self._waited, 3)}
        return ModelStall(f"{words[self.phase]} {self._allowed:g} s (limits.{self.phase})", detail=detail)

    @property
    def _allowed(self) -> float:
        match self.phase:
            case "first_token":
                return self._deadlines.first_token
            case "between_tokens":
                return self._deadlines.between_tokens
