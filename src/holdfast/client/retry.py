"""When a client tries again, and for how long. Pure: the clock and the random numbers are passed in.

A transport reports each failure and follows the decision: revive the local server if told to, wait, try again. When
there is nothing left to try, the error is raised.
"""

from __future__ import annotations

from collections.abc import Callable

from holdfast.errors import HoldfastError, NoAnswer, ServerError, ServerStopping, TooMany, Unreachable
from holdfast.schema.base import Value

_FIRST_WAIT = 0.02
_LONGEST_WAIT = 1.0
_LONGEST_POLL = 30.0


class StreamBroken(Exception):
    """The stream cannot be continued on this connection: reconnect at the cursor."""


class Retry(Value, frozen=True):
    """Wait ``seconds``, then try again."""

    seconds: float = 0.0
    revive: bool = False
    """Revive the local server first."""


class RetryBudget:
    """How long consecutive failures are tolerated; ``None`` means without limit."""

    def __init__(self, seconds: float | None, *, clock: Callable[[], float]) -> None:
        self._seconds = seconds
        self._clock = clock
        self._failing_since: float | None = None
        self._wait = _FIRST_WAIT

    def succeeded(self) -> None:
        self._failing_since = None
        self._wait = _FIRST_WAIT

    def check(self, error: Exception) -> None:
        """Raise the error if the failures have lasted too long."""
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
        """The response was lost. ``reused``: on a connection that an earlier call opened, so it may just be stale."""
        if reused:
            return Retry()
        return Retry(self._budget.next_wait(error), revive=self._can_revive)

    def after_refusal(self, error: HoldfastError) -> Retry:
        """The server returned an error. A stopping server has done nothing, so its successor gets the call."""
        if not isinstance(error, ServerStopping) or not self._can_revive or self._leave_stopped:
            raise error
        return Retry(self._budget.next_wait(error), revive=True)


class ReconnectRules:
    """From which losses a stream recovers by itself."""

    def __init__(
        self,
        budget: RetryBudget,
        *,
        random: Callable[[], float],
        can_revive: bool = False,
        leave_stopped: bool = False,
        raise_when_full: bool = False,
    ) -> None:
        """``random`` spreads the waits, so that many clients do not reconnect at the same moment."""
        self.budget = budget
        self.random = random
        self.can_revive = can_revive
        self.leave_stopped = leave_stopped
        self.raise_when_full = raise_when_full

    def recovers(self, error: Exception) -> bool:
        """False for errors that the caller must handle."""
        if self.raise_when_full and isinstance(error, TooMany):
            return False
        return isinstance(error, StreamBroken | Unreachable | NoAnswer | ServerError | TooMany)

    def revives(self, error: Exception, *, ended_properly: bool) -> bool:
        """A server that ended its stream properly was stopped on purpose, and is not started again for a reader.

        With ``leave_stopped``, `Revive` itself finds out whether the server was stopped, so it is always called.
        """
        return self.can_revive and isinstance(error, Unreachable) and (self.leave_stopped or not ended_properly)


class LongPoll:
    """Splits a wait of any length into requests that the server responds to in time; ``None`` means without limit."""

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
