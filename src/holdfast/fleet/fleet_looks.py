"""Looks at the servers and leases at once when they may have changed, instead of with the next renewal.

One look serves all that asked before it began. There is a pause after each, which is longer if looks take long.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from holdfast.errors import HoldfastError
from holdfast.tasks import OwnedTasks

_logger = logging.getLogger(__name__)

_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.05, 1.0
_PAUSE_SHARE = 4.0
"""How much longer the pause is than the look before it: a large table, or a slow database, is read less often."""


class FleetLooks:
    def __init__(self, look: Callable[[], Awaitable[None]]) -> None:
        self._look = look
        self._tasks = OwnedTasks()
        self._looking: asyncio.Task[None] | None = None
        self._is_wanted = False
        self._listeners: set[Callable[[], None]] = set()

    def listen(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call the listener after each look. Returns a function that removes it."""
        self._listeners.add(listener)
        return lambda: self._listeners.discard(listener)

    @property
    def has_listeners(self) -> bool:
        return bool(self._listeners)

    def ask(self) -> None:
        """Look soon. A look that has begun already does not count."""
        self._is_wanted = True
        if self._looking is None or self._looking.done():
            self._looking = self._tasks.spawn(self._look_while_wanted(), name="look at the fleet")

    async def aclose(self) -> None:
        await self._tasks.finish(seconds=0.0)

    async def _look_while_wanted(self) -> None:
        loop = asyncio.get_running_loop()
        while self._is_wanted:
            self._is_wanted = False
            begun = loop.time()
            try:
                await self._look()
            except HoldfastError as error:  # the next renewal looks, too
                _logger.debug("cannot look at the fleet now: %s", error)
            for listener in tuple(self._listeners):
                listener()
            took = loop.time() - begun
            await asyncio.sleep(min(max(_SHORTEST_PAUSE, took * _PAUSE_SHARE), _LONGEST_PAUSE))
