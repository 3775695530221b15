"""The state of one server: whether it is stopping, how many requests it works on, and how long it has been idle."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager

from holdfast.errors import ServerStopping


class ServerState:
    def __init__(self) -> None:
        self._started_at = time.monotonic()
        self._last_used = self._started_at
        self._active_requests = 0
        self._stop = asyncio.Event()
        self._second_stop = asyncio.Event()
        self._runs_stopped = asyncio.Event()
        self.is_kept = False
        """Whether a person or a service manager runs this server: no client replaces it by one of its own."""

    @property
    def uptime(self) -> float:
        return time.monotonic() - self._started_at

    @property
    def idle_seconds(self) -> float:
        """Seconds since the last request ended; 0 while one is active."""
        return 0.0 if self._active_requests else time.monotonic() - self._last_used

    @property
    def active_requests(self) -> int:
        """Requests that are being handled. Event streams do not count."""
        return self._active_requests

    @contextmanager
    def track_request(self, *, counts: bool = True) -> Iterator[None]:
        """Count a request as active while it is handled. One that does not count leaves the idle time as it is."""
        self._active_requests += counts
        try:
            yield
        finally:
            self._active_requests -= counts
            if counts:
                self._last_used = time.monotonic()

    @property
    def stopping(self) -> bool:
        return self._stop.is_set()

    def raise_if_stopping(self) -> None:
        """Call this before anything new begins."""
        if self.stopping:
            raise ServerStopping("the server is stopping; try again when it is back")

    def request_stop(self) -> None:
        """Begin a graceful stop. A second request makes it immediate."""
        if self._stop.is_set():
            self._second_stop.set()
        self._stop.set()

    async def wait_for_stop(self) -> None:
        await self._stop.wait()

    async def wait_for_second_stop(self) -> None:
        await self._second_stop.wait()

    def mark_runs_stopped(self) -> None:
        """From now on no run ends any more."""
        self._runs_stopped.set()

    async def wait_for_runs_stopped(self) -> None:
        await self._runs_stopped.wait()
