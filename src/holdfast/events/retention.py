"""Old events are let go of, by age only, while readers stay attached (`E8`)."""

from __future__ import annotations

import asyncio
import logging
import time

from holdfast.errors import StoreUnwritable
from holdfast.ids import Clock, Sleep, rfc3339
from holdfast.store import Store

_logger = logging.getLogger(__name__)

KEEP_SECONDS = 7 * 24 * 3600.0
EVERY_SECONDS = 3600.0
ANSWERS_SECONDS = 24 * 3600.0


async def prune_periodically(
    store: Store,
    *,
    keep_seconds: float = KEEP_SECONDS,
    every_seconds: float = EVERY_SECONDS,
    clock: Clock = time.time,
    sleep: Sleep = asyncio.sleep,
) -> None:
    """Prunes now and then, for ever; its owner cancels it. A ledger that cannot be written is tried again later."""
    while True:
        try:
            removed = await store.prune_events(before=rfc3339(clock() - keep_seconds))
            await store.prune_responses(before=rfc3339(clock() - ANSWERS_SECONDS))
        except StoreUnwritable as error:
            _logger.warning("old events could not be removed: %s", error)
        else:
            if removed:
                _logger.info("removed %d events older than %.1f days", removed, keep_seconds / 86400)
        await sleep(every_seconds)
