"""Looks at the servers and leases at once when they may have changed, instead of with the next renewal.

One look serves all that asked before it began, and there are at most so many in a second.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from holdfast.errors import HoldfastError
from holdfast.tasks import OwnedTasks

_logger = logging.getLogger(__name__)

_PAUSE_SECONDS = 0.05


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
        while self._is_wanted:
            self._is_wanted = False
            try:
                await self._look()
            except HoldfastError as error:  # the next renewal looks, too
                _logger.debug("cannot look at the fleet now: %s", error)
            for listener in tuple(self._listeners):
                listener()
            await asyncio.sleep(_PAUSE_SECONDS)
