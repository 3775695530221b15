"""Batches that wait for the thread that commits them, and how their callers get the outcome. For every store."""

from __future__ import annotations

import asyncio
import queue
from collections.abc import Callable, Iterator
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

from holdfast.errors import StoreUnreachable
from holdfast.store.writes import Batch, Committed

T = TypeVar("T")

BatchOutcome: TypeAlias = Committed | BaseException

MAX_GROUP = 128
"""Maximum batches of one commit."""


class PendingBatch:
    __slots__ = ("batch", "future")

    def __init__(self, batch: Batch, future: asyncio.Future[Committed]) -> None:
        self.batch = batch
        self.future = future


class OutcomeLookUp(NamedTuple):
    """A commit whose outcome is not known and is being looked up (`OutcomeUnknown`)."""

    outcome: asyncio.Future[Committed]
    """Done when the outcome is known."""
    refusal: Callable[[], StoreUnreachable]
    """Why other changes are refused meanwhile."""


class WorkQueue(Generic[T]):
    """The queue of a thread that commits batches, and does other work ``T`` between commits."""

    def __init__(self) -> None:
        self._items: queue.SimpleQueue[PendingBatch | T | None] = queue.SimpleQueue()

    def put(self, work: PendingBatch | T) -> None:
        self._items.put(work)

    def end(self) -> None:
        """What is put after this is not done."""
        self._items.put(None)

    def count_waiting(self) -> int:
        return self._items.qsize()

    def take_batches(self) -> list[PendingBatch]:
        """Remove the batches. What else waits stays, in its order."""
        batches: list[PendingBatch] = []
        for _ in range(self.count_waiting()):  # at least these are there: one thread takes from the queue
            item = self._items.get()
            if isinstance(item, PendingBatch):
                batches.append(item)
            else:
                self._items.put(item)
        return batches

    def groups(self) -> Iterator[list[PendingBatch] | T]:
        """Yield the work in order: batches that wait together as one group, everything else alone. Waits for more.

        While it waits, it has no reference to what it yielded, which may be large.
        """
        group: list[PendingBatch] = []
        item: PendingBatch | T | None
        while True:
            try:
                item = self._items.get_nowait() if group else self._items.get()
            except queue.Empty:
                item = None
                yield group
                group = []
                continue
            if isinstance(item, PendingBatch):
                group.append(item)
                if len(group) < MAX_GROUP:
                    continue
            if group:
                yield group
                group = []
            if item is None:
                return
            if not isinstance(item, PendingBatch):
                yield item
            item = None


def settle(future: asyncio.Future[Any], result: object, error: BaseException | None) -> None:
    """Set the result or the error on the event loop, unless the caller was cancelled."""
    if future.done():
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)
