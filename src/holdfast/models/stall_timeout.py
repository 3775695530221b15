"""The time-out for a silent model: one limit until the first token, another between tokens."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from holdfast.errors import ModelStall
from holdfast.schema.base import Value


class StallLimits(Value, frozen=True):
    """Seconds; 0 is no limit."""

    first_token: float
    between_tokens: float


class StallTimeout:
    """Measures the silence in one answer. Only time spent waiting for the model counts, not the work of its reader.

    Before the first token only a token resets the time, so a server that just keeps the connection open times out.
    Afterwards every event except a ping resets it.
    """

    __slots__ = ("_clock", "_limits", "_waited", "_waiting_since", "phase")

    def __init__(self, limits: StallLimits, *, clock: Callable[[], float]) -> None:
        self._limits = limits
        self._clock = clock
        self._waited = 0.0
        self._waiting_since: float | None = None
        self.phase: Literal["first_token", "between_tokens"] = "first_token"

    def begin_wait(self) -> float | None:
        """Begin to wait. Returns when the wait must end, by the clock, or None without a limit."""
        self._waiting_since = self._clock()
        return self._waiting_since + self._limit - self._waited if self._limit else None

    def end_wait(self) -> None:
        if self._waiting_since is not None:
            self._waited += self._clock() - self._waiting_since
            self._waiting_since = None

    def event_received(self, *, token: bool) -> None:
        """Note an event. ``token``: it contains a part of the answer."""
        if token:
            self.phase = "between_tokens"
        if self.phase == "between_tokens":
            self._waited = 0.0

    def error(self) -> ModelStall:
        """The error for an exceeded limit. It names the limit and the time waited."""
        self.end_wait()
        messages = {
            "first_token": "the model sent no first token within",
            "between_tokens": "the model stopped in the middle of its answer and sent nothing for",
        }
        detail = {"deadline": self.phase, "seconds": self._limit, "waited": round(self._waited, 3)}
        return ModelStall(f"{messages[self.phase]} {self._limit:g} s (limits.{self.phase})", detail=detail)

    @property
    def _limit(self) -> float:
        match self.phase:
            case "first_token":
                return self._limits.first_token
            case "between_tokens":
                return self._limits.between_tokens
