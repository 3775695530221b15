"""Prompts are accepted before turns begin.

The work at the beginning of a turn takes longer than an acceptance, and both need the event loop and the thread that
commits. So in a burst of prompts each one would be answered after the turns of those before it had begun.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager


class StartOrder:
    def __init__(self, *, most_seconds: float) -> None:
        self._most_seconds = most_seconds
        self._accepting = 0
        """Acceptances under way."""
        self._may_begin: asyncio.Event | None = None
        """What turns wait for. None if no turn waits."""
        self._timer: asyncio.TimerHandle | None = None

    @contextmanager
    def accepting(self) -> Iterator[None]:
        """Let turns wait while a run is being accepted."""
        self._accepting += 1
        try:
            yield
        finally:
            self._accepting -= 1
            if not self._accepting:
                self._let_begin()

    async def turn_may_begin(self) -> None:
        """Wait until no run is being accepted, or until the turns that wait have waited long enough."""
        if not self._accepting:
            return
        if self._may_begin is None:
            self._may_begin = asyncio.Event()
            self._timer = asyncio.get_running_loop().call_later(self._most_seconds, self._let_begin)
        await self._may_begin.wait()

    def _let_begin(self) -> None:
        if self._may_begin is not None and self._timer is not None:
            self._may_begin.set()
            self._timer.cancel()
            self._may_begin = self._timer = None
