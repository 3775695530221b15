"""The mailbox of a session: it plans, commits and applies one command at a time.

Everything that is written about a session's runs and messages goes through its mailbox. So its events have one order,
every decision is made on the committed state, and a refused commit leaves everything as it was. A commit belongs to
the mailbox, not to the caller: a caller that stops waiting changes nothing.

Ends, cancels and recoveries must be written. If one cannot be written, it is retried, with back-off and whenever a
command arrives, and other commands are refused with the same error meanwhile (`R14`). Cancels are retried first, so
that the end of one run does not start a run that a waiting cancel covers (`C1`). If the run that a cancel stops ends at
once, mark and end are one commit: the end is planned on the state that the cancel leaves.

If it is not known whether a commit happened, because the database was lost meanwhile, nothing can be planned until that
is known. Commands that need not be written are refused meanwhile, and the caller of the commit learns that its outcome
is unknown (`OutcomeUnknown`), unless it waits ``until_known``.

A mailbox without work and without unfinished runs is dropped; the next command loads a new one from the database.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from msgspec.structs import replace

from holdfast.errors import CommitRefused, OutcomeUnknown
from holdfast.runs.lane.commit_plan import CommitPlan, LaneState
from holdfast.runs.lane.protocol import TurnStopping
from holdfast.schema.base import Value
from holdfast.schema.sessions import Session
from holdfast.store import Batch, Committed, OutcomeLookUp, Store
from holdfast.tasks import OwnedTasks

A = TypeVar("A")

Planner: TypeAlias = Callable[[LaneState], Awaitable[CommitPlan[A]]]
"""Plans a commit on the committed state. It may read the database; nothing else of the session is written meanwhile."""


class MailboxOwner(Protocol):
    """The engine, as a mailbox sees it."""

    async def load(self, mailbox: Mailbox) -> CommitPlan[None]:
        """Load the lane. The plan commits what must be written before anything else (recovery)."""
        ...

    def loaded(self, mailbox: Mailbox) -> None:
        """The plan of `load` is committed."""
        ...

    def state_now(self, state: LaneState) -> LaneState:
        """The committed state as it is to be decided on now."""
        ...

    def applied(self, mailbox: Mailbox, plan: CommitPlan[Any], committed: Committed) -> None:
        """Start and stop turns and wake waiters after a commit. Must not raise: the commit stands."""
        ...

    def idle(self, mailbox: Mailbox) -> None:
        """Drop a mailbox that has no work and no unfinished runs."""
        ...


class CommittedAnswer(Value, Generic[A], frozen=True):
    """The answer of a plan, and the result of its commit."""

    answer: A
    committed: Committed


OnRefused: TypeAlias = Callable[[CommitRefused], None]
"""Called each time that a commit is refused and will be retried."""


class _Request(Generic[A]):
    """A planner in the queue of a mailbox, and the future of its caller."""

    __slots__ = (
        *("answer", "is_cancel", "is_end", "must_be_written", "on_refused", "planner", "until_known", "uses_reserve"),
        "was_refused",
    )

    def __init__(
        self,
        planner: Planner[A],
        *,
        must_be_written: bool,
        uses_reserve: bool,
        until_known: bool = True,
        is_end: bool = False,
        is_cancel: bool = False,
        on_refused: OnRefused | None = None,
    ) -> None:
        self.planner = planner
        self.is_end = is_end
        self.is_cancel = is_cancel
        self.must_be_written = must_be_written
        self.uses_reserve = uses_reserve
        self.until_known = until_known
        self.on_refused = on_refused
        self.was_refused = False
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
        end_seconds: float,
        state: LaneState | None = None,
        session: Session | None = None,
    ) -> None:
        self.session_id = session_id
        self.session = session
        """The session, if the caller has already read it."""
        self.workspace_id = session.workspace_id if session is not None else None
        """`None` before it is known."""
        self.state = state
        """As committed; `None` before it is loaded."""
        self.write_error: CommitRefused | None = None
        """Why an end or a cancel cannot be written."""
        self._store = store
        self._owner = owner
        self._tasks = tasks
        self._retry_seconds = retry_seconds
        """The first and the longest delay before a retry."""
        self._delay = retry_seconds[0]
        self._end_seconds = end_seconds
        """How long a cancel waits for the end of the run that it stops."""
        self._requests: deque[_Request[Any]] = deque()
        self._worker: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()
        self._retries = True
        self._current: _Request[Any] | None = None
        self._unknown: OutcomeLookUp | None = None
        """A commit of which is not known whether it happened: nothing can be planned."""

    def post(
        self,
        planner: Planner[A],
        *,
        must_be_written: bool = False,
        uses_reserve: bool = False,
        until_known: bool = False,
    ) -> asyncio.Future[CommittedAnswer[A]]:
        """Queue a planner. The answer comes after the commit; with `must_be_written` a refused commit is retried.

        On a full disk, what must be written uses the reserved space; `uses_reserve` allows that for other commits.
        Without `until_known` the answer may be `OutcomeUnknown`.
        """
        return self._post(
            _Request(
                planner,
                must_be_written=must_be_written,
                uses_reserve=must_be_written or uses_reserve,
                until_known=must_be_written or until_known,
            )
        )

    def post_end(self, planner: Planner[A]) -> asyncio.Future[CommittedAnswer[A]]:
        """Queue the planner of the end of a run whose turn is over. It may be committed together with a cancel."""
        return self._post(_Request(planner, must_be_written=True, uses_reserve=True, is_end=True))

    def post_cancel(self, planner: Planner[A], *, on_refused: OnRefused) -> asyncio.Future[CommittedAnswer[A]]:
        """Queue the planner of a cancel. It must be written, and is retried before ends."""
        return self._post(
            _Request(planner, must_be_written=True, uses_reserve=True, is_cancel=True, on_refused=on_refused)
        )

    def post_opening(self, planner: Planner[A], *, on_refused: OnRefused) -> asyncio.Future[CommittedAnswer[A]]:
        """Queue a planner that recovers the lane or lets its runs start. It is retried, and starts none of them on the
        reserved space."""
        return self._post(_Request(planner, must_be_written=True, uses_reserve=False, on_refused=on_refused))

    def _post(self, request: _Request[A]) -> asyncio.Future[CommittedAnswer[A]]:
        unknown = self._unknown
        if unknown is not None and not unknown.outcome.done() and self._refuses(request, unknown):
            return request.answer
        self._requests.append(request)
        self._wake.set()
        if self._worker is None:
            self._worker = self._tasks.spawn(self._work(), name=f"lane:{self.session_id}")
            self._worker.add_done_callback(self._on_worker_done)
        return request.answer

    def _refuses(self, request: _Request[Any], unknown: OutcomeLookUp) -> bool:
        """Refuse a command behind a commit whose outcome is not known, unless it must be written."""
        refusal = unknown.refusal()
        if request.on_refused is not None:
            request.on_refused(refusal)
        if not request.must_be_written:
            request.fail(refusal)
        return not request.must_be_written

    def stop_retrying(self) -> None:
        """Leave what cannot be written to the recovery of the next start."""
        self._retries = False
        self._wake.set()

    async def _work(self) -> None:
        try:
            while self._requests:
                await self._handle(self._next())
        finally:
            self._end_work()

    def _on_worker_done(self, worker: asyncio.Task[None]) -> None:
        """A task that is cancelled before its first step does not even begin."""
        if self._worker is worker:
            self._end_work()

    def _end_work(self) -> None:
        self._worker = None
        for request in self._requests:  # only if the task was cancelled
            request.answer.cancel()
        self._requests.clear()
        if self.state is None or not self.state.lane.runs or self._is_closed(self.state):
            self._owner.idle(self)

    def _is_closed(self, state: LaneState) -> bool:
        """Nothing runs and nothing can start, so the queue need not be kept in memory."""
        return state.lane.lifecycle == "closed" and state.lane.active is None

    def _next(self) -> _Request[Any]:
        """The first request; before it, cancels that were refused, because an end could start what they cover.

        During retries the first cancel, and before it one that was not tried yet.
        """
        cancels = [request for request in self._requests if request.is_cancel]
        refused = [request for request in cancels if request.was_refused]
        if self.write_error is None:
            return (*refused, self._requests[0])[0]
        untried = [request for request in cancels if not request.was_refused]
        return (*untried, *refused, self._requests[0])[0]

    async def _handle(self, request: _Request[Any]) -> None:
        self._current = request
        try:
            await self._plan_and_commit(request)
        except CommitRefused as error:
            if request.must_be_written and self._retries:
                await self._wait_for_retry(request, error)
                return
            request.fail(error)
        except Exception as error:  # noqa: BLE001 - every error of a command goes to its caller
            request.fail(error)
        self.write_error = None
        self._delay = self._retry_seconds[0]
        self._requests.remove(request)

    async def _plan_and_commit(self, request: _Request[Any]) -> None:
        if self.state is None:
            await self._load(request)
        assert self.state is not None
        plan = await request.planner(self._owner.state_now(self.state))
        if request.is_cancel and (end := await self._end_after_cancel(request, plan)) is not None:
            await self._commit_with_end(request, plan, end)
        else:
            await self._commit(plan, uses_reserve=request.uses_reserve, answers=((request, plan.answer),))

    async def _load(self, request: _Request[Any]) -> None:
        plan = await self._owner.load(self)
        try:
            await self._commit(plan, uses_reserve=True)
        except CommitRefused:
            if request.is_cancel:
                await request.planner(plan.state)  # it learns what it covers, and can be noted
            raise
        self._owner.loaded(self)

    async def _end_after_cancel(self, cancel: _Request[Any], plan: CommitPlan[Any]) -> _Request[Any] | None:
        """The end of the run that a cancel stops, if it comes within a moment and before anything else."""
        if self.write_error is not None or not any(isinstance(change, TurnStopping) for change in plan.changes):
            return None
        if len(self._requests) == 1:
            self._wake.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(self._end_seconds):
                    await self._wake.wait()
        following = [request for request in self._requests if request is not cancel]
        if not following or any(request.is_cancel and request.was_refused for request in following):
            return None
        return following[0] if following[0].is_end else None

    async def _commit_with_end(self, request: _Request[Any], cancel: CommitPlan[Any], end: _Request[Any]) -> None:
        """Commit a cancel and the end that it leads to. If they cannot be together, the end follows by itself."""
        try:
            ending = await end.planner(cancel.state)
            both = cancel.followed_by(ending)
            await self._commit(both, uses_reserve=True, answers=((request, cancel.answer), (end, ending.answer)))
        except CommitRefused:
            raise
        except Exception:  # noqa: BLE001 - the end meets the same error when its turn comes, and reports it
            await self._commit(cancel, uses_reserve=True, answers=((request, cancel.answer),))
        else:
            self._requests.remove(end)

    async def _commit(
        self, plan: CommitPlan[Any], *, uses_reserve: bool, answers: tuple[tuple[_Request[Any], Any], ...] = ()
    ) -> None:
        """Commit a plan, answer the callers, and apply it. So they continue before the turns that it starts."""
        if plan.batch == _EMPTY:
            committed = Committed()
        else:
            batch = replace(plan.batch, uses_reserve=True) if uses_reserve else plan.batch
            try:
                committed = await self._store.commit(batch, until_known=False)
            except OutcomeUnknown as unknown:
                committed = await self._learn_outcome(unknown)
        self.state = plan.state
        for request, answer in answers:
            request.succeed(CommittedAnswer(answer, committed))
        self._owner.applied(self, plan, committed)

    async def _learn_outcome(self, unknown: OutcomeUnknown) -> Committed:
        """Wait until it is known what became of a commit. Its caller is told, unless it waits for that, too."""
        look_up: OutcomeLookUp | None = unknown.look_up
        if look_up is None:
            raise unknown
        self._unknown = look_up
        for request in tuple(self._requests):
            if request is not self._current:
                if self._refuses(request, look_up):
                    self._requests.remove(request)
            elif not request.until_known:
                request.fail(unknown)
        try:
            return await look_up.outcome
        finally:
            self._unknown = None

    async def _wait_for_retry(self, request: _Request[Any], error: CommitRefused) -> None:
        """Refuse the commands that need not be written, and wait for the delay or the next command."""
        self.write_error = error
        request.was_refused = True
        for other in tuple(self._requests):
            if not other.must_be_written:
                self._requests.remove(other)
                other.fail(error)
            elif other.on_refused is not None and (other is request or not other.is_cancel):
                other.on_refused(error)
        following = self._next()
        if following is not request and not following.was_refused and following.is_cancel:
            return  # a cancel came meanwhile; it must learn what it covers
        self._wake.clear()
        try:
            async with asyncio.timeout(self._delay):
                await self._wake.wait()
        except TimeoutError:
            pass
        self._delay = min(self._delay * 2, self._retry_seconds[1])


_EMPTY = Batch()


def _retrieve_exception(answer: asyncio.Future[Any]) -> None:
    """Read the exception, or asyncio reports it if the caller has left."""
    if not answer.cancelled():
        answer.exception()
