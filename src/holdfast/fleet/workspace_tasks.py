"""Work for many workspaces, one task for each: if one fails or hangs, the others go on."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from holdfast.errors import HoldfastError
from holdfast.tasks import OwnedTasks

_logger = logging.getLogger(__name__)

SETTLE_SECONDS = 5.0
_FAILED_SECONDS = 10.0
"""How long a workspace waits whose work failed by a bug. Other failures are tried again at once."""


class WorkspaceTasks:
    def __init__(self, what: str) -> None:
        """``what`` the work is, for the log: 'workspace wsp_1 cannot be ``what`` now'."""
        self._what = what
        self._tasks = OwnedTasks()
        self._running: dict[str, asyncio.Task[bool]] = {}
        self._not_before: dict[str, float] = {}
        self._started: list[asyncio.Task[bool]] = []

    def start(self, workspace_id: str, work: Callable[[], Coroutine[Any, Any, bool]]) -> None:
        """Begin the work, unless it is still running for this workspace, or has just failed by a bug."""
        now = asyncio.get_running_loop().time()
        if workspace_id in self._running or now < self._not_before.get(workspace_id, now):
            return
        self._not_before.pop(workspace_id, None)
        task = self._tasks.spawn(self._guarded(workspace_id, work), name=f"{self._what}:{workspace_id}")
        self._running[workspace_id] = task
        self._started.append(task)

    async def settle(self) -> int:
        """Wait for what was started since the last call, but not for ever. Returns how often the result was true."""
        started, self._started = self._started, []
        if not started:
            return 0
        done, hanging = await asyncio.wait(started, timeout=SETTLE_SECONDS)
        for task in hanging:
            _logger.warning("%s takes long; it goes on alone", task.get_name())
        return sum(not task.cancelled() and task.result() for task in done)

    async def aclose(self) -> None:
        await self._tasks.finish(seconds=0.5)

    async def _guarded(self, workspace_id: str, work: Callable[[], Coroutine[Any, Any, bool]]) -> bool:
        try:
            return await work()
        except HoldfastError as error:
            _logger.warning("workspace %s cannot be %s now: %s", workspace_id, self._what, error)
        except Exception:  # the other workspaces must go on
            _logger.exception("workspace %s cannot be %s", workspace_id, self._what)
            self._not_before[workspace_id] = asyncio.get_running_loop().time() + _FAILED_SECONDS
        finally:
            self._running.pop(workspace_id, None)
        return False
