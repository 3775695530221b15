"""Whether and when a failed model request is retried (R13), and the wait that a provider asks for. Pure.

Waits double from attempt to attempt and are shortened by up to half at random, so that sessions do not retry together.
A wait that the provider asks for (`Retry-After`) replaces ours and is lengthened by up to a tenth. If it is longer than
the maximum, the request is not retried, because an earlier retry would fail.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from holdfast.errors import ModelError
from holdfast.schema.base import Value


class Backoff(Value, frozen=True):
    """How requests that failed with one class of error are retried."""

    retries: int
    """Attempts after the first."""
    first: float
    """Seconds before the first retry; doubled for each further one."""
    most: float
    """The longest wait in seconds."""


BACKOFFS: Mapping[str, Backoff] = {
    "rate_limit": Backoff(retries=8, first=2.0, most=60.0),
    "overloaded": Backoff(retries=8, first=1.0, most=60.0),
    "network": Backoff(retries=6, first=0.5, most=20.0),
    "stall": Backoff(retries=2, first=1.0, most=5.0),
    "garbage": Backoff(retries=2, first=1.0, most=5.0),
}
"""By the code of the error class. Other classes are not retried."""
MAX_RETRY_AFTER = 600.0
"""Seconds. A longer wait that the provider asks for ends the attempts."""

_RETRY_AFTER_JITTER = 0.1
_WAIT_IN_MESSAGE = re.compile(
    r"(?:try again|retry) (?:in|after) (?:(\d{1,9})m)?(\d{1,9}(?:\.\d{1,9})?)\s*(ms|s\b|sec)", re.IGNORECASE | re.ASCII
)
_DURATION = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)s", re.ASCII)


def retry_wait(error: ModelError, *, attempt: int, jitter: float) -> float | None:
    """Return the seconds to wait after the ``attempt``-th attempt (from 1) failed, or None to give up.

    ``jitter`` is a random number between 0 and 1.
    """
    backoff = BACKOFFS.get(error.code)
    if not error.retryable or backoff is None or attempt > backoff.retries:
        return None
    if error.retry_after is not None:
        if error.retry_after > MAX_RETRY_AFTER:
            return None
        return error.retry_after * (1 + _RETRY_AFTER_JITTER * jitter)
    wait = min(backoff.first * 2.0 ** min(attempt - 1, 62), backoff.most)
    return wait * (1 - jitter / 2)


def retry_after_from_headers(headers: Mapping[str, str], *, now: float) -> float | None:
    """Seconds from ``retry-after-ms`` or ``retry-after`` (seconds or an HTTP date). Header names are in lower case.

    A date is compared with the server's ``date`` header if there is one, so a wrong local clock does not matter.
    """
    if (millis := _parse_number(headers.get("retry-after-ms"))) is not None:
        return millis / 1000
    value = headers.get("retry-after")
    if (seconds := _parse_number(value)) is not None:
        return seconds
    until = _parse_date(value)
    if until is None:
        return None
    server_now = _parse_date(headers.get("date"))
    return max(0.0, until - (now if server_now is None else server_now))


def retry_after_from_details(error: Mapping[str, Any]) -> float | None:
    """Seconds from Google's ``RetryInfo`` in the details of an error."""
    details = error.get("details")
    for detail in details if isinstance(details, list) else ():
        delay = detail.get("retryDelay") if isinstance(detail, dict) else None
        if isinstance(delay, str) and (found := _DURATION.fullmatch(delay)):
            return float(found[1])
    return None


def retry_after_from_message(message: str) -> float | None:
    """Seconds from a message such as ``Please try again in 1.5s``. An error inside a stream has no headers."""
    if not (found := _WAIT_IN_MESSAGE.search(message)):
        return None
    minutes, amount, unit = found.groups()
    seconds = float(amount) / 1000 if unit.lower() == "ms" else float(amount)
    return seconds + 60 * int(minutes or 0)


def _parse_number(text: str | None) -> float | None:
    try:
        number = float(text) if text else math.nan
    except ValueError:
        return None
    return number if math.isfinite(number) and number >= 0 else None


def _parse_date(text: str | None) -> float | None:
    if not text:
        return None
    from datetime import UTC  # imported here because dates are rare
    from email.utils import parsedate_to_datetime

    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
