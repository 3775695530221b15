"""The listeners of commits. Shared by all stores."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from holdfast.store.protocol import CommitListener
from holdfast.store.records import CommittedEvent


class CommitListeners:
    """Belongs to one event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._listeners: tuple[CommitListener, ...] = ()

    def add(self, listener: CommitListener) -> Callable[[], None]:
        """Return a function that removes it."""
        self._listeners = (*self._listeners, listener)
        return partial(self._remove, listener)

    def _remove(self, listener: CommitListener) -> None:
        self._listeners = tuple(known for known in self._listeners if known is not listener)

    def tell(self, events: tuple[CommittedEvent, ...]) -> None:
        """Call each listener. The commit stands: the event loop reports a listener's error."""
        for listener in self._listeners:
            try:
                listener(events)
            except Exception as error:  # noqa: BLE001 - see above
                self._loop.call_exception_handler({"message": "a listener of the store failed", "exception": error})
