"""When a client tries again, and for how long."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from holdfast.client.stream_state import OutOfStep
from holdfast.errors import HoldfastError, NoAnswer, ServerError, TooMany, Unreachable

Lost: TypeAlias = Callable[[Exception, float], None]
"""Told when a stream lost its connection: why, and the seconds until it tries again."""

Revive: TypeAlias = Callable[[], object]
"""Brings a local server back that is not there any more; returns when it answers."""

_FIRST_WAIT = 0.02
_LONGEST_WAIT = 1.0


def is_worth_another_try(error: BaseException) -> bool:
    """Whether a stream may come back by itself: everything but what the caller must change."""
    return isinstance(error, OutOfStep | Unreachable | NoAnswer | ServerError | TooMany)


class RetryBudget:
    """How long failures in a row are borne; ``None``: for ever."""

    def __init__(self, seconds: float | None, *, clock: Callable[[], float]) -> None:
        self._seconds = seconds
        self._clock = clock
        self._failing_since: float | None = None
        self._wait = _FIRST_WAIT

    def succeeded(self) -> None:
        self._failing_since = None
        self._wait = _FIRST_WAIT

    def check(self, error: HoldfastError | OutOfStep) -> None:
        """Raises the error if failures have gone on for too long."""
        if self._failing_since is None:
            self._failing_since = self._clock()
        if self._seconds is not None and self._clock() - self._failing_since >= self._seconds:
            raise error

    def next_wait(self, error: HoldfastError) -> float:
        """Seconds until the next attempt; raises the error when there is none."""
        self.check(error)
        wait, self._wait = self._wait, min(self._wait * 2, _LONGEST_WAIT)
        return wait
