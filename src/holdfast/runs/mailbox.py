"""One session's mailbox: one command at a time is planned, committed and applied; the next one only then.

Everything that is written about a session's runs and messages passes here, so its events have one order, nothing is
decided on a state that is not committed, and a refused commit leaves everything as it was. A commit belongs to the
mailbox, not to the caller: whoever gives up waiting changes nothing.

An end that cannot be written stays at the head and is tried again, with back-off and whenever a command comes; the
commands meanwhile are refused with the same error (`R14`). A mailbox without work and without unfinished runs goes
away; the next command makes a new one from the ledger.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from holdfast.errors import StoreUnwritable
from holdfast.runs.engine_limits import EngineLimits
from holdfast.runs.lane.ledger_batch import LaneState, Plan
from holdfast.schema.base import Value
from holdfast.schema.sessions import Session
from holdfast.store import Batch, Committed, Store
from holdfast.tasks import OwnedTasks

A = TypeVar("A")

Planner: TypeAlias = Callable[[LaneState], Awaitable[Plan[A]]]
"""Decides on the lane as it is. It may read the ledger; nothing else of the session is written meanwhile."""


class MailboxOwner(Protocol):
    async def load(self, mailbox: Mailbox) -> Plan[None]:
        """The lane from the ledger, and what must be committed before anything else (recovery)."""
        ...

    def applied(self, mailbox: Mailbox, plan: Plan[Any]) -> None:
        """The plan is committed: start, stop and tell what follows from it. Never raises: the commit stands."""
        ...

    def idle(self, mailbox: Mailbox) -> None:
        """Nothing to do and nothing unfinished: forget it."""
        ...


class Reply(Value, Generic[A], frozen=True):
    """The plan's answer, now that it is true, and what its commit gave."""

    answer: A
    committed: Committed


class _Letter(Generic[A]):
    __slots__ = ("answer", "insists", "planner")

    def __init__(self, planner: Planner[A], *, insists: bool) -> None:
        self.planner = planner
        self.insists = insists
        self.answer: asyncio.Future[Reply[A]] = asyncio.get_running_loop().create_future()
        self.answer.add_done_callback(_seen)

    def succeed(self, answer: Reply[A]) -> None:
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
        bounds: EngineLimits,
        state: LaneState | None = None,
        known: Session | None = None,
    ) -> None:
        self.session_id = session_id
        self.known = known
        """The session, if whoever made the mailbox had read it already."""
        self.state = state
        """As committed; ``None`` before it is loaded."""
        self.stuck: StoreUnwritable | None = None
        """Why the end at the head cannot be written."""
        self._store = store
        self._owner = owner
        self._tasks = tasks
        self._bounds = bounds
        self._letters: deque[_Letter[Any]] = deque()
        self._worker: asyncio.Task[None] | None = None
        self._arrived = asyncio.Event()
        self._giving_up = False

    def post(self, planner: Planner[A], *, insists: bool = False) -> asyncio.Future[Reply[A]]:
        """The answer comes when the plan is committed. ``insists``: a refused commit is tried until it succeeds."""
        letter = _Letter(planner, insists=insists)
        self._letters.append(letter)
        self._arrived.set()
        if self._worker is None:
            self._worker = self._tasks.spawn(self._work(), name=f"lane:{self.session_id}")
        return letter.answer

    def give_up(self) -> None:
        """An end that cannot be written is left to the next start's recovery."""
        self._giving_up = True
        self._arrived.set()

    async def _work(self) -> None:
        try:
            while self._letters:
                await self._handle(self._letters[0])
        finally:
            self._worker = None
            for letter in self._letters:  # only when this task was cancelled from outside
                letter.answer.cancel()
            self._letters.clear()
            if self.state is None or not self.state.lane.runs or self._is_shut(self.state):
                self._owner.idle(self)

    def _is_shut(self, state: LaneState) -> bool:
        """Nothing runs and nothing starts: the ledger knows the queue as well."""
        return state.lane.lifecycle == "closed" and state.lane.active is None

    async def _handle(self, letter: _Letter[Any]) -> None:
        delay = self._bounds.retry_first_seconds
        while True:
            try:
                answer = await self._obey(letter)
            except StoreUnwritable as error:
                if letter.insists and not self._giving_up:
                    await self._wait_for_room(error, seconds=delay)
                    delay = min(delay * 2, self._bounds.retry_most_seconds)
                    continue
                letter.fail(error)
            except Exception as error:  # noqa: BLE001 - whatever is wrong with a command is its sender's to hear
                letter.fail(error)
            else:
                letter.succeed(answer)
            self.stuck = None
            self._letters.popleft()
            return

    async def _obey(self, letter: _Letter[A]) -> Reply[A]:
        if self.state is None:
            await self._carry_out(await self._owner.load(self))
        assert self.state is not None
        plan = await letter.planner(self.state)
        return Reply(plan.answer, await self._carry_out(plan))

    async def _carry_out(self, plan: Plan[Any]) -> Committed:
        committed = Committed() if plan.batch == _NOTHING else await self._store.commit(plan.batch)
        self.state = plan.state
        self._owner.applied(self, plan)
        return committed

    async def _wait_for_room(self, error: StoreUnwritable, *, seconds: float) -> None:
        """Nothing else of this lane moves meanwhile."""
        self.stuck = error
        while len(self._letters) > 1:
            self._letters.pop().fail(error)
        self._arrived.clear()
        try:
            async with asyncio.timeout(seconds):
                await self._arrived.wait()
        except TimeoutError:
            pass


_NOTHING = Batch()


def _seen(answer: asyncio.Future[Any]) -> None:
    """A caller that left does not make its answer an error of the loop's."""
    if not answer.cancelled():
        answer.exception()
