"""What the server knows of its own life: whether it stops, what it is working on, since when nobody wants anything."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from holdfast.errors import ServerStopping


class ServerState:
    def __init__(self, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._began = monotonic()
        self._last_used = self._began
        self._working = 0
        self._stop = asyncio.Event()
        self._hurry = asyncio.Event()
        self._quiet = asyncio.Event()

    @property
    def uptime(self) -> float:
        return self._monotonic() - self._began

    @property
    def idle_seconds(self) -> float:
        """Since the last request ended; 0 while one is being worked on."""
        return 0.0 if self._working else self._monotonic() - self._last_used

    @property
    def working(self) -> int:
        """Requests that are being worked on; streams do not count."""
        return self._working

    @contextmanager
    def request(self, *, counts: bool = True) -> Iterator[None]:
        """While one is being worked on. One that does not count keeps nobody awake."""
        self._working += counts
        try:
            yield
        finally:
            self._working -= counts
            if counts:
                self._last_used = self._monotonic()

    @property
    def stopping(self) -> bool:
        return self._stop.is_set()

    def refuse_when_stopping(self) -> None:
        """For what would begin something new."""
        if self.stopping:
            raise ServerStopping("the server is stopping; try again when it is back")

    def stop(self) -> None:
        """Asked once: stop in an orderly way. Asked again: faster."""
        if self._stop.is_set():
            self._hurry.set()
        self._stop.set()

    async def until_stop(self) -> None:
        await self._stop.wait()

    def runs_have_stopped(self) -> None:
        self._quiet.set()

    async def until_runs_have_stopped(self) -> None:
        """Whoever still waits for a run's end then waits in vain."""
        await self._quiet.wait()

    async def until_hurry(self) -> None:
        await self._hurry.wait()
