"""Approvals and questions that wait for a person, as durable records (`W4`).

A record is committed with its event before anyone waits for it, so whoever comes late can list it. The first answer is
the one that the ledger takes; everyone is told who gave it, a later one is refused with the winner, and the winner
repeating it is answered the same again. A deadline is a time on the wall clock, and passing it is an answer of its own
(`expired`), also for an answer that comes a moment too late. A run that ends, is cancelled or died with its server
closes what is still open in the commit of its end; here, a wait that is cancelled just ends.

Waiters live in memory, each with its own record, and are woken by the log: whoever closed the record, and whether or
not that client is still there. No session waits for another's.

Races that are closed here: two answers; an answer and a deadline; an answer and a cancel; a cancel while the record is
being written (it is written or not when the wait ends, never later); a client that hangs up in the middle of its
answer. A rule that is to hold always is saved before its answer counts, and only by the answer that will: if it cannot
be saved, nothing was answered.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeAlias, TypeVar, cast
from weakref import WeakValueDictionary

from msgspec.structs import replace

from holdfast.approvals.answer_checks import again_or_refuse, check_answers, rules_to_save
from holdfast.errors import StoreConflict
from holdfast.ids import Clock, Ids, Sleep, rfc3339
from holdfast.schema.approvals import Approval, ApprovalDecision, Grant, Question
from holdfast.schema.events import (
    ApprovalRequested,
    ApprovalResolved,
    QuestionAsked,
    QuestionResolved,
)
from holdfast.store import Batch, CommittedEvent, Store
from holdfast.store.writes import AddGrant, OpenApproval, OpenQuestion, ResolveApproval, ResolveQuestion
from holdfast.tasks import finish_before_cancel

SaveRules: TypeAlias = Callable[[tuple[str, ...]], Awaitable[None]]
"""Keeps rules that are to hold always, in the user's own configuration."""

_Asked = TypeVar("_Asked", bound=Approval | Question)
_LOOK_AGAIN: Final = 5.0
"""Seconds between looks at the clock: timers stand still while a machine sleeps, deadlines do not."""


class Approvals:
    """Of one server."""

    def __init__(
        self,
        store: Store,
        *,
        ids: Ids,
        clock: Clock,
        save_rules: SaveRules,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self._store = store
        self._ids = ids
        self._clock = clock
        self._save_rules = save_rules
        self._sleep = sleep
        self._waiters: dict[str, asyncio.Future[Approval | Question]] = {}
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        store.listen(self._told)

    async def request(self, approval: Approval, *, deadline: float = 0.0) -> Approval:
        """Ask, and wait for the answer, however long it takes. ``deadline`` in seconds, 0 for none."""
        approval = self._opened(approval, self._ids.new("apr"), deadline)
        event = ApprovalRequested(approval.created_at, approval.session_id, approval)
        return await self._wait(approval, Batch((OpenApproval(approval),), (event,)), deadline)

    async def ask(self, question: Question, *, deadline: float = 0.0) -> Question:
        """The same for questions."""
        question = self._opened(question, self._ids.new("qst"), deadline)
        event = QuestionAsked(question.created_at, question.session_id, question)
        return await self._wait(question, Batch((OpenQuestion(question),), (event,)), deadline)

    async def answer(
        self,
        approval_id: str,
        decision: ApprovalDecision,
        *,
        client: str,
        patterns: tuple[str, ...] | None = None,
        feedback: str = "",
    ) -> Approval:
        """A person's decision. ``patterns`` narrows what "session" or "always" saves to some of those offered.

        Raises `Conflict` with the record when it is closed already, `BadRequest` for what was not offered.
        """
        approval = await self._store.approval(approval_id)
        wanted = replace(
            approval,
            state="answered",
            decision=decision,
            pattern=rules_to_save(approval, decision, patterns),
            feedback=feedback,
            answered_by=client,
            resolved_at=self._now(),
        )
        grants = [AddGrant(self._grant(wanted, rule)) for rule in wanted.pattern] if decision == "session" else []
        return await finish_before_cancel(self._answer(wanted, *grants))

    async def answer_question(
        self, question_id: str, answers: tuple[tuple[str, ...], ...] | None, *, client: str
    ) -> Question:
        """One tuple per item, or None to dismiss. Raises like `answer`."""
        question = await self._store.question(question_id)
        if answers is not None:
            check_answers(question.items, answers)
        wanted = replace(
            question,
            state="answered",
            answers=answers,
            dismissed=answers is None,
            answered_by=client,
            resolved_at=self._now(),
        )
        return await finish_before_cancel(self._answer(wanted))

    def _opened(self, asked: _Asked, new_id: str, deadline: float) -> _Asked:
        now = self._clock()
        until = rfc3339(now + deadline) if deadline else None
        return replace(asked, id=new_id, state="open", created_at=rfc3339(now), deadline_at=until)

    async def _wait(self, asked: _Asked, opening: Batch, deadline: float) -> _Asked:
        ends = self._clock() + deadline if deadline else None
        waiter = self._waiters[asked.id] = asyncio.get_running_loop().create_future()
        try:
            await finish_before_cancel(self._store.commit(opening))
            while not waiter.done():
                left = None if ends is None else ends - self._clock()
                if left is not None and left <= 0:
                    return await finish_before_cancel(self._expire(asked))
                await self._first(waiter, left)
            return cast(_Asked, waiter.result())
        finally:
            del self._waiters[asked.id]

    async def _first(self, waiter: asyncio.Future[Approval | Question], left: float | None) -> None:
        """Until the answer, or until it is time to look at the clock."""
        if left is None:
            await waiter
            return
        timer = asyncio.ensure_future(self._sleep(min(left, _LOOK_AGAIN)))
        both: tuple[asyncio.Future[Any], ...] = (waiter, timer)
        try:
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        finally:
            timer.cancel()

    async def _answer(self, wanted: _Asked, *grants: AddGrant) -> _Asked:
        """Take the answer, if it is the first. One at a time per record, so that only a winner's rules are saved."""
        async with self._turn(wanted.id):
            found = await self._read(wanted)
            if found.state == "open" and found.deadline_at is not None and found.deadline_at <= self._now():
                found = await self._close(_expired(found, self._now()))
            if found.state == "open":
                if isinstance(wanted, Approval) and wanted.decision == "always":
                    await self._save_rules(wanted.pattern)
                found = await self._close(wanted, *grants)
        return again_or_refuse(found, wanted)

    async def _expire(self, asked: _Asked) -> _Asked:
        async with self._turn(asked.id):
            return await self._close(_expired(asked, self._now()))

    async def _close(self, wanted: _Asked, *grants: AddGrant) -> _Asked:
        """The record as it then is: as wanted, or as somebody else closed it just before."""
        write, event = _resolution(wanted)
        try:
            await self._store.commit(Batch((write, *grants), (event,)))
        except StoreConflict:
            return await self._read(wanted)
        return wanted

    async def _read(self, asked: _Asked) -> _Asked:
        found: Approval | Question
        if isinstance(asked, Approval):
            found = await self._store.approval(asked.id)
        else:
            found = await self._store.question(asked.id)
        return cast(_Asked, found)

    def _told(self, logged: tuple[CommittedEvent, ...]) -> None:
        """Wakes who waits for a record that was closed, by whomever."""
        for entry in logged:
            match entry.event:
                case ApprovalResolved(approval=approval):
                    self._wake(approval)
                case QuestionResolved(question=question):
                    self._wake(question)

    def _wake(self, closed: Approval | Question) -> None:
        waiter = self._waiters.get(closed.id)
        if waiter is not None and not waiter.done():
            waiter.set_result(closed)

    def _turn(self, ask_id: str) -> asyncio.Lock:
        return self._turns.setdefault(ask_id, asyncio.Lock())

    def _grant(self, approval: Approval, rule: str) -> Grant:
        return Grant(
            id=self._ids.new("apr"),
            workspace_id=approval.workspace_id,
            rule=rule,
            session_id=approval.root_session_id,
            created_at=approval.resolved_at or "",
            created_by=approval.answered_by or "",
        )

    def _now(self) -> str:
        return rfc3339(self._clock())


def _expired(asked: _Asked, at: str) -> _Asked:
    denied = {"decision": "deny"} if isinstance(asked, Approval) else {}
    return replace(asked, state="expired", resolved_at=at, **denied)


def _resolution(
    asked: Approval | Question,
) -> tuple[ResolveApproval | ResolveQuestion, ApprovalResolved | QuestionResolved]:
    at = asked.resolved_at or ""
    if isinstance(asked, Approval):
        write = ResolveApproval(
            approval_id=asked.id,
            state=asked.state,
            resolved_at=at,
            decision=asked.decision,
            pattern=asked.pattern,
            feedback=asked.feedback,
            answered_by=asked.answered_by,
        )
        return write, ApprovalResolved(at, asked.session_id, asked)
    closing = ResolveQuestion(
        question_id=asked.id,
        state=asked.state,
        resolved_at=at,
        answers=asked.answers,
        dismissed=asked.dismissed,
        answered_by=asked.answered_by,
    )
    return closing, QuestionResolved(at, asked.session_id, asked)
