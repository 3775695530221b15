"""When a client tries again, and for how long. Pure: the clock is passed in.

A transport reports each failure and does what the decision says: bring the local server back if asked to, wait, try
again. When nothing is left to try, the error is raised.
"""

from __future__ import annotations

from collections.abc import Callable

from holdfast.errors import HoldfastError, ServerStopping, Unreachable
from holdfast.schema.base import Value

_FIRST_WAIT = 0.02
_LONGEST_WAIT = 1.0
_LONGEST_POLL = 30.0


class Retry(Value, frozen=True):
    """Wait ``seconds``, then try again."""

    seconds: float = 0.0
    revive: bool = False
    """Bring the local server back first."""


class RetryBudget:
    """How long failures in a row are tolerated; ``None`` means without limit."""

    def __init__(self, seconds: float | None, *, clock: Callable[[], float]) -> None:
        self._seconds = seconds
        self._clock = clock
        self._failing_since: float | None = None
        self._wait = _FIRST_WAIT

    def succeeded(self) -> None:
        self._failing_since = None
        self._wait = _FIRST_WAIT

    def check(self, error: Exception) -> None:
        """Raise the error if failures have gone on for too long."""
        if self._failing_since is None:
            self._failing_since = self._clock()
        if self._seconds is not None and self._clock() - self._failing_since >= self._seconds:
            raise error

    def next_wait(self, error: Exception) -> float:
        """Seconds until the next attempt; raises the error when the budget is spent."""
        self.check(error)
        wait, self._wait = self._wait, min(self._wait * 2, _LONGEST_WAIT)
        return wait


class CallRetry:
    """Decides what follows a failed attempt of one call."""

    def __init__(self, budget: RetryBudget, *, can_revive: bool, leave_stopped: bool) -> None:
        self._budget = budget
        self._can_revive = can_revive
        self._leave_stopped = leave_stopped

    def after_loss(self, error: Unreachable, *, reused: bool = False) -> Retry:
        """The answer was lost. ``reused``: on a connection that an earlier call had opened, so it may just be stale."""
        if reused:
            return Retry()
        return Retry(self._budget.next_wait(error), revive=self._can_revive)

    def after_refusal(self, error: HoldfastError) -> Retry:
        """The server answered with an error. A stopping server has done nothing; the next one takes the call."""
        if not isinstance(error, ServerStopping) or not self._can_revive or self._leave_stopped:
            raise error
        return Retry(self._budget.next_wait(error), revive=True)


class LongPoll:
    """Splits a wait of any length into requests that the server answers in time; ``None`` means without limit."""

    def __init__(self, seconds: float | None, *, clock: Callable[[], float]) -> None:
        self._until = None if seconds is None else clock() + seconds
        self._clock = clock

    def next_wait(self, longest: float = _LONGEST_POLL) -> float:
        """Seconds that the next request may wait."""
        if self._until is None:
            return longest
        return min(longest, max(self._until - self._clock(), 0.0))

    @property
    def is_over(self) -> bool:
        return self._until is not None and self._clock() >= self._until
