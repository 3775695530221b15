"""Approvals and questions that wait for a person, as durable records (`W4`).

A record is committed with its event before anyone waits for it, so whoever comes late can list it. The first answer is
the one that the ledger takes; everyone is told who gave it, a later one is refused with the winner, and the winner
repeating it is answered the same again. A deadline is an answer of its own (`expired`). A run that ends closes what is
still open in the commit of its end; here, a wait that is cancelled just ends.

Waiters live in memory, each with its own record: no session waits for another's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias, TypeVar, assert_never

from msgspec.structs import replace

from holdfast.errors import BadRequest, Conflict, StoreConflict
from holdfast.ids import Clock, Ids, rfc3339
from holdfast.schema.approvals import Approval, Decision, Question, QuestionItem
from holdfast.schema.base import builtins
from holdfast.schema.events import ApprovalRequested, ApprovalResolved, QuestionAsked, QuestionResolved
from holdfast.store import Batch, Grant, Store
from holdfast.store.writes import AddGrant, OpenApproval, OpenQuestion, ResolveApproval, ResolveQuestion

SaveRules: TypeAlias = Callable[[tuple[str, ...]], Awaitable[None]]
"""Keeps rules that are to hold always, in the user's own configuration."""

_T = TypeVar("_T", Approval, Question)

Sleep: TypeAlias = Callable[[float], Awaitable[object]]


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
        self._approvals: dict[str, asyncio.Future[Approval]] = {}
        self._questions: dict[str, asyncio.Future[Question]] = {}

    async def request(self, approval: Approval, *, deadline: float = 0.0) -> Approval:
        """Ask, and wait for the answer, however long it takes. ``deadline`` in seconds, 0 for none."""
        approval = replace(
            approval,
            id=self._ids.new("apr"),
            state="open",
            created_at=self._now(),
            deadline_at=rfc3339(self._clock() + deadline) if deadline else None,
        )
        answered = self._approvals[approval.id] = asyncio.get_running_loop().create_future()
        try:
            event = ApprovalRequested(approval.created_at, approval.session_id, approval)
            await self._store.commit(Batch((OpenApproval(approval),), (event,)))
            return await self._until(answered, deadline, lambda: self._expire_approval(approval))
        finally:
            del self._approvals[approval.id]

    async def ask(self, question: Question, *, deadline: float = 0.0) -> Question:
        """The same for questions."""
        question = replace(
            question,
            id=self._ids.new("qst"),
            state="open",
            created_at=self._now(),
            deadline_at=rfc3339(self._clock() + deadline) if deadline else None,
        )
        answered = self._questions[question.id] = asyncio.get_running_loop().create_future()
        try:
            event = QuestionAsked(question.created_at, question.session_id, question)
            await self._store.commit(Batch((OpenQuestion(question),), (event,)))
            return await self._until(answered, deadline, lambda: self._expire_question(question))
        finally:
            del self._questions[question.id]

    async def answer(
        self,
        approval_id: str,
        decision: Decision,
        *,
        client: str,
        patterns: tuple[str, ...] | None = None,
        feedback: str = "",
    ) -> Approval:
        """A person's decision. ``patterns`` narrows what "session" or "always" saves to some of those offered."""
        approval = await self._store.approval(approval_id)
        saved = _saved(approval, decision, patterns)
        resolved = replace(
            approval,
            state="answered",
            decision=decision,
            pattern=saved,
            feedback=feedback,
            answered_by=client,
            resolved_at=self._now(),
        )
        if approval.state != "open":
            return _again_or_refuse(approval, resolved)
        if decision == "always":
            await self._save_rules(saved)
        grants = [AddGrant(self._grant(resolved, rule)) for rule in saved] if decision == "session" else []
        try:
            await self._resolve_approval(resolved, *grants)
        except StoreConflict:
            return _again_or_refuse(await self._store.approval(approval_id), resolved)
        return resolved

    async def answer_question(
        self,
        question_id: str,
        answers: tuple[tuple[str, ...], ...] | None,
        *,
        client: str,
    ) -> Question:
        """One tuple per item, or None to dismiss."""
        question = await self._store.question(question_id)
        if answers is not None:
            _check_answers(question.items, answers)
        resolved = replace(
            question,
            state="answered",
            answers=answers,
            dismissed=answers is None,
            answered_by=client,
            resolved_at=self._now(),
        )
        if question.state != "open":
            return _question_again_or_refuse(question, resolved)
        try:
            await self._resolve_question(resolved)
        except StoreConflict:
            return _question_again_or_refuse(await self._store.question(question_id), resolved)
        return resolved

    async def _until(self, answered: asyncio.Future[_T], deadline: float, expire: Callable[[], Awaitable[_T]]) -> _T:
        if not deadline:
            return await answered
        timer: asyncio.Future[object] = asyncio.ensure_future(self._sleep(deadline))
        waited: tuple[asyncio.Future[Any], ...] = (answered, timer)
        try:
            await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
            return answered.result() if answered.done() else await expire()
        finally:
            timer.cancel()

    async def _expire_approval(self, approval: Approval) -> Approval:
        expired = replace(approval, state="expired", decision="deny", resolved_at=self._now())
        try:
            await self._resolve_approval(expired)
        except StoreConflict:
            return await self._store.approval(approval.id)  # an answer came just before
        return expired

    async def _expire_question(self, question: Question) -> Question:
        expired = replace(question, state="expired", resolved_at=self._now())
        try:
            await self._resolve_question(expired)
        except StoreConflict:
            return await self._store.question(question.id)
        return expired

    async def _resolve_approval(self, resolved: Approval, *grants: AddGrant) -> None:
        assert resolved.resolved_at is not None
        write = ResolveApproval(
            approval_id=resolved.id,
            state=resolved.state,
            resolved_at=resolved.resolved_at,
            decision=resolved.decision,
            pattern=resolved.pattern,
            feedback=resolved.feedback,
            answered_by=resolved.answered_by,
        )
        event = ApprovalResolved(resolved.resolved_at, resolved.session_id, resolved)
        await self._store.commit(Batch((write, *grants), (event,)))
        waiter = self._approvals.get(resolved.id)
        if waiter is not None and not waiter.done():
            waiter.set_result(resolved)

    async def _resolve_question(self, resolved: Question) -> None:
        assert resolved.resolved_at is not None
        write = ResolveQuestion(
            question_id=resolved.id,
            state=resolved.state,
            resolved_at=resolved.resolved_at,
            answers=resolved.answers,
            dismissed=resolved.dismissed,
            answered_by=resolved.answered_by,
        )
        event = QuestionResolved(resolved.resolved_at, resolved.session_id, resolved)
        await self._store.commit(Batch((write,), (event,)))
        waiter = self._questions.get(resolved.id)
        if waiter is not None and not waiter.done():
            waiter.set_result(resolved)

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


def _saved(approval: Approval, decision: Decision, patterns: tuple[str, ...] | None) -> tuple[str, ...]:
    """What the answer saves: only what was offered, exactly."""
    if decision not in ("session", "always"):
        return ()
    if not approval.patterns:
        raise BadRequest(f"{approval.title!r} can only be allowed once; answer 'once' or 'deny'")
    chosen = approval.patterns if patterns is None else patterns
    if unknown := [pattern for pattern in chosen if pattern not in approval.patterns]:
        offered = ", ".join(map(repr, approval.patterns))
        raise BadRequest(f"the pattern {unknown[0]!r} was not offered; offered: {offered}")
    return chosen


def _again_or_refuse(found: Approval, wanted: Approval) -> Approval:
    """The winner repeating its answer gets it again; everyone else is told who won."""
    same = (found.answered_by, found.decision, found.feedback) == (wanted.answered_by, wanted.decision, wanted.feedback)
    if found.state == "answered" and same:
        return found
    raise Conflict(
        f"approval {found.id!r} is {found.state} already" + (f" by {found.answered_by!r}" if found.answered_by else ""),
        code="approval_closed",
        detail={"approval": builtins(found)},
    )


def _question_again_or_refuse(found: Question, wanted: Question) -> Question:
    if found.state == "answered" and (found.answered_by, found.answers) == (wanted.answered_by, wanted.answers):
        return found
    raise Conflict(
        f"question {found.id!r} is {found.state} already" + (f" by {found.answered_by!r}" if found.answered_by else ""),
        code="question_closed",
        detail={"question": builtins(found)},
    )


def _check_answers(items: tuple[QuestionItem, ...], answers: tuple[tuple[str, ...], ...]) -> None:
    if len(items) != len(answers):
        raise BadRequest(f"there are {len(items)} questions, but {len(answers)} answers")
    for item, answer in zip(items, answers, strict=True):
        options = ("yes", "no") if item.kind == "yes_no" else item.options
        match item.kind:
            case "text":
                fits = len(answer) <= 1
            case "multiple":
                fits = set(answer) <= set(options)
            case "yes_no" | "single":
                fits = len(answer) == 1 and answer[0] in options
            case _:
                assert_never(item.kind)
        if not fits:
            raise BadRequest(f"{list(answer)!r} is no answer to {item.text!r}; options: {list(options)!r}")
