"""The mailbox of a session: it plans, commits and applies one command at a time.

Everything that is written about a session's runs and messages goes through its mailbox. So its events have one order,
every decision is made on the committed state, and a refused commit leaves everything as it was. A commit belongs to
the mailbox, not to the caller: a caller that stops waiting changes nothing.

If the end of a run cannot be written, it stays at the head and is retried, with back-off and whenever a command
arrives. Other commands are refused with the same error meanwhile (`R14`). A mailbox without work and without unfinished
runs is dropped; the next command loads a new one from the database.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from holdfast.errors import StoreUnwritable
from holdfast.runs.lane.commit_plan import CommitPlan, LaneState
from holdfast.schema.base import Value
from holdfast.schema.sessions import Session
from holdfast.store import Batch, Committed, Store
from holdfast.tasks import OwnedTasks

A = TypeVar("A")

Planner: TypeAlias = Callable[[LaneState], Awaitable[CommitPlan[A]]]
"""Plans a commit on the committed state. It may read the database; nothing else of the session is written meanwhile."""


class MailboxOwner(Protocol):
    """The engine, as a mailbox sees it."""

    async def load(self, mailbox: Mailbox) -> CommitPlan[None]:
        """Load the lane. The plan commits what must be written before anything else (recovery)."""
        ...

    def applied(self, mailbox: Mailbox, plan: CommitPlan[Any]) -> None:
        """Start and stop turns and wake waiters after a commit. Must not raise: the commit stands."""
        ...

    def idle(self, mailbox: Mailbox) -> None:
        """Drop a mailbox that has no work and no unfinished runs."""
        ...


class CommittedAnswer(Value, Generic[A], frozen=True):
    """The answer of a plan, and the result of its commit."""

    answer: A
    committed: Committed


class _Request(Generic[A]):
    """A planner in the queue of a mailbox, and the future of its caller."""

    __slots__ = ("answer", "must_be_written", "planner")

    def __init__(self, planner: Planner[A], *, must_be_written: bool) -> None:
        self.planner = planner
        self.must_be_written = must_be_written
        self.answer: asyncio.Future[CommittedAnswer[A]] = asyncio.get_running_loop().create_future()
        self.answer.add_done_callback(_retrieve_exception)

    def succeed(self, answer: CommittedAnswer[A]) -> None:
        if not self.answer.done():
            self.answer.set_result(answer)

    def fail(self, error: BaseException) -> None:
        if not self.answer.done():
            self.answer.set_exception(error)


class Mailbox:
    def __init__(
        self,
        session_id: str,
        *,
        store: Store,
        owner: MailboxOwner,
        tasks: OwnedTasks,
        retry_seconds: tuple[float, float],
        state: LaneState | None = None,
        session: Session | None = None,
    ) -> None:
        self.session_id = session_id
        self.session = session
        """The session, if the caller has already read it."""
        self.state = state
        """As committed; `None` before it is loaded."""
        self.write_error: StoreUnwritable | None = None
        """Why the end at the head cannot be written."""
        self._store = store
        self._owner = owner
        self._tasks = tasks
        self._retry_seconds = retry_seconds
        """The first and the longest delay before a retry."""
        self._requests: deque[_Request[Any]] = deque()
        self._worker: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()
        self._retries = True

    def post(self, planner: Planner[A], *, must_be_written: bool = False) -> asyncio.Future[CommittedAnswer[A]]:
        """Queue a planner. The answer comes after the commit; with `must_be_written` a refused commit is retried."""
        request = _Request(planner, must_be_written=must_be_written)
        self._requests.append(request)
        self._wake.set()
        if self._worker is None:
            self._worker = self._tasks.spawn(self._work(), name=f"lane:{self.session_id}")
        return request.answer

    def stop_retrying(self) -> None:
        """Leave an end that cannot be written to the recovery of the next start."""
        self._retries = False
        self._wake.set()

    async def _work(self) -> None:
        try:
            while self._requests:
                await self._handle(self._requests[0])
        finally:
            self._worker = None
            for request in self._requests:  # only if this task was cancelled
                request.answer.cancel()
            self._requests.clear()
            if self.state is None or not self.state.lane.runs or self._is_closed(self.state):
                self._owner.idle(self)

    def _is_closed(self, state: LaneState) -> bool:
        """Nothing runs and nothing can start, so the queue need not be kept in memory."""
        return state.lane.lifecycle == "closed" and state.lane.active is None

    async def _handle(self, request: _Request[Any]) -> None:
        delay, longest = self._retry_seconds
        while True:
            try:
                answer = await self._plan_and_commit(request)
            except StoreUnwritable as error:
                if request.must_be_written and self._retries:
                    await self._wait_for_retry(error, seconds=delay)
                    delay = min(delay * 2, longest)
                    continue
                request.fail(error)
            except Exception as error:  # noqa: BLE001 - every error of a command goes to its caller
                request.fail(error)
            else:
                request.succeed(answer)
            self.write_error = None
            self._requests.popleft()
            return

    async def _plan_and_commit(self, request: _Request[A]) -> CommittedAnswer[A]:
        if self.state is None:
            await self._commit(await self._owner.load(self))
        assert self.state is not None
        plan = await request.planner(self.state)
        return CommittedAnswer(plan.answer, await self._commit(plan))

    async def _commit(self, plan: CommitPlan[Any]) -> Committed:
        committed = Committed() if plan.batch == _EMPTY else await self._store.commit(plan.batch)
        self.state = plan.state
        self._owner.applied(self, plan)
        return committed

    async def _wait_for_retry(self, error: StoreUnwritable, *, seconds: float) -> None:
        """Refuse the other commands of this lane, and wait for the delay or the next command."""
        self.write_error = error
        while len(self._requests) > 1:
            self._requests.pop().fail(error)
        self._wake.clear()
        try:
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        except TimeoutError:
            pass


_EMPTY = Batch()


def _retrieve_exception(answer: asyncio.Future[Any]) -> None:
    """Read the exception, or asyncio reports it if the caller has left."""
    if not answer.cancelled():
        answer.exception()
