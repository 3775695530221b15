"""Task primitives: tasks with an owner, and work that a cancel must not interrupt.

Three rules hold for the whole server. Each task has a name and an owner that awaits it. Work that must be complete,
such as a commit or a file write, uses `finish_before_cancel`. Only code that turns a cancel into a result, such as a
tool that reports what it killed, uses `finish_despite_cancel`.
"""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeVar

T = TypeVar("T")

_logger = logging.getLogger(__name__)

_CANCEL_SECONDS = 0.5
"""How long `finish` waits for a cancelled task."""


async def finish_before_cancel(work: Awaitable[T]) -> T:
    """Await `work`. If the caller is cancelled meanwhile, raise the cancel when `work` is done.

    A second cancel is raised at once, and `work` continues alone. After a cancel the result or error of `work` is
    dropped, since the caller is ending and cannot act on it.
    """
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        if not task.done():
            await asyncio.wait((task,))
        if not task.cancelled():
            task.exception()  # read it, or asyncio reports an error that was never retrieved
        raise


async def finish_despite_cancel(work: Awaitable[T]) -> tuple[T, bool]:
    """Await `work`, even if the caller is cancelled. Return the result, and whether the caller was cancelled.

    The caller must then end soon and report the cancel. A cancel of `work` itself is raised.
    """
    task = asyncio.ensure_future(work)
    cancelled = False
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            if task.cancelled():
                raise
            cancelled = True
    return task.result(), cancelled


class WaitLimit:
    """Time limits for many short waits of one task, with one timer.

    `asyncio.timeout` makes and cancels a timer for each wait, which is a fifth of the work for a piece of an answer.
    Here a wait only notes its end. The timer looks whether that has passed, and otherwise runs until then.
    """

    __slots__ = ("_armed", "_task", "_timer", "_until", "expired")

    def __init__(self) -> None:
        self._timer: asyncio.TimerHandle | None = None
        self._armed = 0.0
        """When the timer ends."""
        self._task: asyncio.Task[Any] | None = None
        """The task that waits."""
        self._until = 0.0
        self.expired = False
        """A wait took too long."""

    async def wait(self, work: Awaitable[T], *, until: float | None) -> T:
        """Await `work`. Raise TimeoutError after ``until`` by the loop's clock; None is no limit."""
        if until is None:
            return await work
        task = asyncio.current_task()
        assert task is not None
        cancelling = task.cancelling()
        self._task, self._until, self.expired = task, until, False
        if self._timer is None or until < self._armed:
            self._arm()
        try:
            return await work
        except asyncio.CancelledError:
            if self.expired and task.cancelling() <= cancelling + 1:
                raise TimeoutError from None
            raise  # the task was also cancelled by someone else
        finally:
            self._task = None
            if self.expired:
                task.uncancel()

    def close(self) -> None:
        """Drop the timer. No wait may be open."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self) -> None:
        self.close()
        self._armed = self._until
        self._timer = asyncio.get_running_loop().call_at(self._until, self._check)

    def _check(self) -> None:
        self._timer = None
        if self._task is None:
            return  # the next wait arms it again
        if asyncio.get_running_loop().time() < self._until:
            self._arm()
        else:
            self.expired = True
            self._task.cancel()


class OwnedTasks:
    """The tasks of one owner, which awaits them with `finish` when it ends."""

    def __init__(self) -> None:
        self._running: set[asyncio.Task[Any]] = set()

    def spawn(self, work: Coroutine[Any, Any, T], *, name: str, may_fail: bool = False) -> asyncio.Task[T]:
        """Start a task. A failure is logged as an error; with `may_fail` the caller checks the result instead."""
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._running.add(task)
        task.add_done_callback(self._on_done_may_fail if may_fail else self._on_done)
        return task

    def __len__(self) -> int:
        return len(self._running)

    async def finish(self, *, seconds: float) -> tuple[str, ...]:
        """Wait for all tasks, then cancel the rest. Return the names of tasks that are still running.

        Tasks that are started meanwhile are awaited, too.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        while self._running:
            await asyncio.wait(tuple(self._running), timeout=max(deadline - loop.time(), 0))
            if loop.time() >= deadline:
                break
        for task in self._running:
            task.cancel()
        if self._running:
            await asyncio.wait(tuple(self._running), timeout=min(seconds, _CANCEL_SECONDS))
        return tuple(sorted(task.get_name() for task in self._running))

    def _on_done(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _logger.error("task %s failed", task.get_name(), exc_info=error)

    def _on_done_may_fail(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _logger.debug("task %s ended with %r", task.get_name(), error)


class CallThreads:
    """A few threads for short blocking calls of one event loop, started when they are needed.

    A call costs about half of what it costs in an executor, whose futures have locks for callers in other threads.
    """

    def __init__(self, most: int, *, name: str) -> None:
        self._most = most
        self._name = name
        self._threads: list[threading.Thread] = []
        self._calls: queue.SimpleQueue[tuple[Callable[[], Any], asyncio.Future[Any]] | None] = queue.SimpleQueue()
        self._open = 0
        """Calls that were made and have not returned."""

    async def call(self, function: Callable[[], T]) -> T:
        """Return what the function returns, or raise what it raises. A cancel does not stop the function."""
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        if self._open >= len(self._threads) < self._most:
            self._start_thread()
        self._open += 1
        self._calls.put((function, future))
        return await future

    def end(self) -> None:
        """Let the threads end after the calls that were made. No call may follow."""
        for _ in self._threads:
            self._calls.put(None)

    def close(self) -> None:
        """Wait for the calls that were made, then end the threads. Blocks."""
        self.end()
        for thread in self._threads:
            thread.join()

    def _start_thread(self) -> None:
        thread = threading.Thread(target=self._run, name=f"{self._name}_{len(self._threads)}", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # the system has no more threads: those that run do the work
            if not self._threads:
                raise
        else:
            self._threads.append(thread)

    def _run(self) -> None:
        while (work := self._calls.get()) is not None:
            function, future = work
            result: Any = None
            error: BaseException | None = None
            try:
                result = function()
            except BaseException as raised:  # noqa: BLE001 - the caller gets it
                error = raised
            with suppress(RuntimeError):  # the event loop was closed
                future.get_loop().call_soon_threadsafe(self._settle, future, result, error)
            del work, function, future, result, error  # the next call may come late

    def _settle(self, future: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
        self._open -= 1
        if future.done():
            return  # the caller has left
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)
