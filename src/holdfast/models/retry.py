"""Whether and when a failed model request is asked again (R13). Pure: chance comes in as an argument.

What a class of failure is worth stands in one table. A wait doubles from attempt to attempt and is shortened by up to
half, by chance, so that many sessions do not come back together. `Retry-After` replaces it: never less than asked for,
at most a little more. A provider that asks for more than the cap is taken at its word and not asked again: coming
earlier is known to fail.
"""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.errors import ModelError
from holdfast.schema.base import Value


class Backoff(Value, frozen=True):
    """How one class of failure is treated."""

    retries: int
    """Attempts after the first."""
    first: float
    """Seconds before the first retry; doubled for each further one."""
    most: float
    """The longest wait."""


class RetryPolicy(Value, frozen=True):
    backoff: Mapping[str, Backoff]
    """By the error class's code. A class that is not here is never retried."""
    retry_after_cap: float = 600.0


DEFAULT_POLICY = RetryPolicy(
    backoff={
        "rate_limit": Backoff(retries=8, first=2.0, most=60.0),
        "overloaded": Backoff(retries=8, first=1.0, most=60.0),
        "network": Backoff(retries=6, first=0.5, most=20.0),
        "stall": Backoff(retries=2, first=1.0, most=5.0),
        "garbage": Backoff(retries=2, first=1.0, most=5.0),
    }
)

_AFTER_JITTER = 0.1


def retry_wait(error: ModelError, *, attempt: int, jitter: float, policy: RetryPolicy = DEFAULT_POLICY) -> float | None:
    """Seconds to wait after the ``attempt``-th attempt (1 is the first) failed; None: do not ask again.

    ``jitter`` is a random number from 0 up to 1.
    """
    backoff = policy.backoff.get(error.code)
    if not error.retryable or backoff is None or attempt > backoff.retries:
        return None
    if error.retry_after is not None:
        if error.retry_after > policy.retry_after_cap:
            return None
        return error.retry_after * (1 + _AFTER_JITTER * jitter)
    wait = min(backoff.first * 2.0 ** min(attempt - 1, 62), backoff.most)
    return wait * (1 - jitter / 2)
