"""A call to an MCP server while it runs, and what answers the requests that the server makes meanwhile.

A server asks the person (elicitation) or a model (sampling) during a call. The answer is made in a task of the call, so
it ends with the call. The time-out of the call stands still while an answer is made, because a person may take long.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

RequestHandler = Callable[[dict[str, Any]], Coroutine[Any, Any, dict[str, Any]]]
"""Answers a request of a server. Both are the JSON of the protocol. Raises `ToolError` to refuse it."""

_END_SECONDS = 1.0


class CallHandlers(NamedTuple):
    """What answers the requests of a server during one call."""

    elicit: RequestHandler
    sample: RequestHandler | None = None


class RunningCall:
    def __init__(self, handlers: CallHandlers, *, seconds: float) -> None:
        self.handlers = handlers
        self._seconds = seconds
        self._left = seconds
        """Seconds that the call may still take, while the time stands still."""
        self._deadline: asyncio.Timeout | None = None
        self._answers: set[asyncio.Task[dict[str, Any]]] = set()
        self._is_over = False

    @asynccontextmanager
    async def limit(self) -> AsyncIterator[None]:
        """Raise `TimeoutError` when the call took too long. At the end, end the answers that are being made."""
        try:
            async with asyncio.timeout(self._seconds) as self._deadline:
                yield
        finally:
            self._deadline = None
            self._is_over = True
            for task in self._answers:
                task.cancel()
            if self._answers:
                await asyncio.wait(set(self._answers), timeout=_END_SECONDS)

    async def answer(self, handler: RequestHandler, request: dict[str, Any]) -> dict[str, Any] | None:
        """Return the answer to a request; None if the call ended meanwhile."""
        task = asyncio.create_task(handler(request), name="mcp:answer")
        self._answers.add(task)
        self._move_deadline()
        try:
            await asyncio.wait({task})
        finally:
            task.cancel()
            self._answers.discard(task)
            self._move_deadline()
        if task.cancelled() or (self._is_over and task.exception() is not None):
            return None
        return task.result()

    def _move_deadline(self) -> None:
        """Stop the time while answers are made. It then goes on, so that many requests do not make a call endless."""
        deadline, now = self._deadline, asyncio.get_running_loop().time()
        if deadline is None:
            return
        try:
            if self._answers and (when := deadline.when()) is not None:
                deadline.reschedule(None)
                self._left = when - now
            elif not self._answers and deadline.when() is None:
                deadline.reschedule(now + self._left)
        except RuntimeError:
            pass  # the time is over
