"""Barriers that a test opens one by one, and a store that waits at them."""

import asyncio
import inspect
from typing import Any

from holdfast.errors import StoreUnwritable
from holdfast.store import Batch, Committed, SqliteStore

_ROUNDS = 30
"""Iterations of the event loop after which everything waits at a barrier."""


class Stepper:
    def __init__(self) -> None:
        self.waiting: dict[asyncio.Future[None], str] = {}
        self.free = False

    async def barrier(self, name: str) -> None:
        if self.free:
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.waiting[future] = name
        try:
            await future
        finally:
            self.waiting.pop(future, None)

    def names(self) -> list[str]:
        return list(self.waiting.values())

    def open(self, index: int) -> None:
        future = list(self.waiting)[index]
        del self.waiting[future]
        future.set_result(None)

    def set_free(self) -> None:
        """Open all barriers, now and later."""
        self.free = True
        while self.waiting:
            self.open(0)


class SteppedStore:
    """A `Store` with a barrier before each call, and after each commit before its caller continues."""

    def __init__(self, store: SqliteStore, stepper: Stepper) -> None:
        self.store = store
        self.refuses = 0
        """How many of the next commits are refused."""
        self._stepper = stepper
        self._calls = 0
        self._idle = asyncio.Event()
        self._idle.set()

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.store, name)
        return self._stepped(found) if inspect.iscoroutinefunction(found) else found

    async def commit(self, batch: Batch, *, until_known: bool = True) -> Committed:
        await self._stepper.barrier("commit")
        if self.refuses:
            self.refuses -= 1
            raise StoreUnwritable("the database cannot be written: disk full")
        committed: Committed = await self._busy(self.store.commit(batch, until_known=until_known))
        await self._stepper.barrier("committed")
        return committed

    def _stepped(self, call: Any) -> Any:
        async def stepped(*args: Any, **kwargs: Any) -> Any:
            await self._stepper.barrier(call.__name__)
            return await self._busy(call(*args, **kwargs))

        return stepped

    async def _busy(self, call: Any) -> Any:
        self._calls += 1
        self._idle.clear()
        try:
            return await call
        finally:
            self._calls -= 1
            if not self._calls:
                self._idle.set()

    async def settled(self) -> None:
        """Wait until everything waits at a barrier."""
        quiet = 0
        while quiet < _ROUNDS:
            await asyncio.sleep(0)
            quiet = quiet + 1 if self._idle.is_set() else 0
            await self._idle.wait()
