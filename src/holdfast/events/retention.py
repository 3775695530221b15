"""Removal of old events, stored responses and entries of the audit (`E8`). Subscribers stay attached."""

from __future__ import annotations

import asyncio
import logging
import time

from holdfast.errors import CommitRefused
from holdfast.ids import Clock, Sleep, rfc3339
from holdfast.store import Store

_logger = logging.getLogger(__name__)

_INTERVAL_SECONDS = 3600.0
_RESPONSE_SECONDS = 24 * 3600.0
"""How long a response is kept for a repeated ``Idempotency-Key``."""


async def prune_periodically(
    store: Store,
    *,
    keep_seconds: float,
    keep_audit_seconds: float,
    clock: Clock = time.time,
    sleep: Sleep = asyncio.sleep,
) -> None:
    """Remove events older than `keep_seconds` every hour, until cancelled. If the store is unwritable, retry later."""
    while True:
        try:
            removed = await prune_now(store, keep_seconds=keep_seconds, clock=clock)
            await prune_audit(store, keep_seconds=keep_audit_seconds, clock=clock)
        except CommitRefused as error:
            _logger.warning("old events could not be removed: %s", error)
        else:
            if removed:
                _logger.info("removed %d events older than %.1f days", removed, keep_seconds / 86400)
        await sleep(_INTERVAL_SECONDS)


async def prune_now(store: Store, *, keep_seconds: float, clock: Clock) -> int:
    """Remove old events and responses. Returns how many events."""
    removed = await store.prune_events(before=rfc3339(clock() - keep_seconds))
    await store.prune_responses(before=rfc3339(clock() - _RESPONSE_SECONDS))
    return removed


async def prune_audit(store: Store, *, keep_seconds: float, clock: Clock) -> int:
    """Remove old entries of the audit. Returns how many."""
    return await store.prune_audit(before=rfc3339(clock() - keep_seconds))
