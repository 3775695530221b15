"""The engine's tasks: each has a name and an owner, and is awaited when the engine stops."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

_logger = logging.getLogger(__name__)


class Tasks:
    def __init__(self) -> None:
        self._running: set[asyncio.Task[Any]] = set()

    def spawn(self, work: Coroutine[Any, Any, T], *, name: str, may_fail: bool = False) -> asyncio.Task[T]:
        """``may_fail``: whoever spawned it looks at how it ended."""
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._running.add(task)
        task.add_done_callback(self._expected if may_fail else self._done)
        return task

    def __len__(self) -> int:
        return len(self._running)

    async def finish(self, *, seconds: float) -> tuple[str, ...]:
        """Waits for all, then cancels what is left and waits once more. The names of what would not even then stop."""
        for cancel in (False, True):
            if cancel:
                for task in self._running:
                    task.cancel()
            if self._running:
                await asyncio.wait(tuple(self._running), timeout=seconds if not cancel else min(seconds, 0.5))
        return tuple(sorted(task.get_name() for task in self._running))

    def _expected(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _logger.debug("task %s ended with %r", task.get_name(), error)

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _logger.error("task %s failed", task.get_name(), exc_info=error)
