"""How long a provider asks us to wait: in headers (seconds, date, milliseconds), in an error's details, in words."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

_IN_WORDS = re.compile(
    r"(?:try again|retry) (?:in|after) (?:(\d{1,9})m)?(\d{1,9}(?:\.\d{1,9})?)\s*(ms|s\b|sec)", re.IGNORECASE | re.ASCII
)
_DURATION = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)s", re.ASCII)


def from_headers(headers: Mapping[str, str], *, now: float) -> float | None:
    """Seconds from ``retry-after-ms`` or ``retry-after`` (seconds or HTTP date); header names in lower case.

    A date is measured against the server's own ``date``, so that a wrong clock here does not matter.
    """
    if (millis := _number(headers.get("retry-after-ms"))) is not None:
        return millis / 1000
    value = headers.get("retry-after")
    if (seconds := _number(value)) is not None:
        return seconds
    until = _date(value)
    if until is None:
        return None
    reference = _date(headers.get("date"))
    return max(0.0, until - (now if reference is None else reference))


def from_details(error: Mapping[str, Any]) -> float | None:
    """Google's ``RetryInfo`` in an error's details."""
    details = error.get("details")
    for detail in details if isinstance(details, list) else ():
        delay = detail.get("retryDelay") if isinstance(detail, dict) else None
        if isinstance(delay, str) and (found := _DURATION.fullmatch(delay)):
            return float(found[1])
    return None


def from_words(message: str) -> float | None:
    """``Please try again in 1.5s``, where a stream has no headers to say it with."""
    if not (found := _IN_WORDS.search(message)):
        return None
    minutes, amount, unit = found.groups()
    seconds = float(amount) / 1000 if unit.lower() == "ms" else float(amount)
    return seconds + 60 * int(minutes or 0)


def _number(text: str | None) -> float | None:
    try:
        number = float(text) if text else math.nan
    except ValueError:
        return None
    return number if math.isfinite(number) and number >= 0 else None


def _date(text: str | None) -> float | None:
    if not text:
        return None
    from datetime import UTC  # here, since nearly no answer has a date in it
    from email.utils import parsedate_to_datetime

    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
