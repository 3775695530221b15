"""Batches that wait for the thread that commits them, and how their callers get the outcome. For every store."""

from __future__ import annotations

import asyncio
from typing import Any, TypeAlias

from holdfast.store.writes import Batch, Committed

BatchOutcome: TypeAlias = Committed | BaseException


class PendingBatch:
    __slots__ = ("batch", "future")

    def __init__(self, batch: Batch, future: asyncio.Future[Committed]) -> None:
        self.batch = batch
        self.future = future


def settle(future: asyncio.Future[Any], result: object, error: BaseException | None) -> None:
    """Set the result or the error on the event loop, unless the caller was cancelled."""
    if future.done():
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)
