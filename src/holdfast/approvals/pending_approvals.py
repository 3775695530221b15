"""Approvals and questions that wait for an answer, as durable records (`W4`).

A record is committed with its event before anything waits for it, so a client that connects later can list it. The
first answer that is committed wins. A later answer is refused with the winner's name; if the winner repeats its answer,
it gets the same result again. A deadline is a wall-clock time. When it passes, the record is closed as `expired`, also
if an answer arrives a moment too late. When a run ends, the commit of its end closes its open records; here, a
cancelled wait just ends.

Waiters are kept in memory, one per record. The event log wakes them, so it does not matter which server or client
closed the record. Sessions do not wait for one another.

Races that are handled here: two answers; an answer and a deadline; an answer and a cancel; a cancel while the record is
written (when the wait ends, the record is committed or will never be); a client that disconnects during its answer. An
"always" rule for all projects is saved before its answer is committed, and only by the answer that wins. If saving
fails, the approval stays open. Rules for this project and for a session are grants, in the same commit as the answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeAlias, TypeVar, assert_never, cast
from weakref import WeakValueDictionary

from msgspec.structs import replace

from holdfast.errors import BadRequest, ConfigError, Conflict, StoreConflict
from holdfast.ids import Clock, Ids, Sleep, rfc3339
from holdfast.schema.approvals import Approval, ApprovalDecision, Grant, Question, QuestionItem, RuleScope
from holdfast.schema.base import to_builtins
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
"""Saves "always" rules for all projects, in the user's own configuration."""

_Asked = TypeVar("_Asked", bound=Approval | Question)
_CLOCK_CHECK_SECONDS: Final = 5.0
"""Check the clock at least this often: timers stop while the machine sleeps, deadlines do not."""


class PendingApprovals:
    """The open approvals and questions of one server."""

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
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        store.listen(self._on_events)

    async def request(self, approval: Approval, *, deadline: float = 0.0) -> Approval:
        """Ask for approval and wait for the answer. ``deadline`` is in seconds; 0 means no limit."""
        approval = self._new_record(approval, self._ids.new("apr"), deadline)
        event = ApprovalRequested(approval.created_at, approval.session_id, approval)
        return await self._wait(approval, Batch((OpenApproval(approval),), (event,)), deadline)

    async def ask(self, question: Question, *, deadline: float = 0.0) -> Question:
        """Ask a question and wait for the answer. ``deadline`` is in seconds; 0 means no limit."""
        question = self._new_record(question, self._ids.new("qst"), deadline)
        event = QuestionAsked(question.created_at, question.session_id, question)
        return await self._wait(question, Batch((OpenQuestion(question),), (event,)), deadline)

    async def answer(
        self,
        approval_id: str,
        decision: ApprovalDecision,
        *,
        client: str,
        patterns: tuple[str, ...] | None = None,
        scope: RuleScope = "project",
        feedback: str = "",
    ) -> Approval:
        """Record a decision. ``patterns`` chooses which of the offered rules "session" or "always" saves.

        ``scope`` is for "always": the rules become grants of the workspace, or are saved in the user's configuration.

        Raises `Conflict` with the record if it is closed, `BadRequest` for a rule that was not offered.
        """
        approval = await self._store.approval(approval_id)
        wanted = replace(
            approval,
            state="answered",
            decision=decision,
            pattern=_rules_to_save(approval, decision, patterns),
            scope=scope,
            feedback=feedback,
            answered_by=client,
            resolved_at=self._now(),
        )
        is_granted = decision == "session" or (decision == "always" and scope == "project")
        grants = [AddGrant(self._grant(wanted, rule)) for rule in wanted.pattern] if is_granted else []
        return await finish_before_cancel(self._answer(wanted, *grants))

    async def answer_question(
        self, question_id: str, answers: tuple[tuple[str, ...], ...] | None, *, client: str
    ) -> Question:
        """Record the answers to a question, one tuple per item; ``None`` dismisses it. Raises like `answer`."""
        question = await self._store.question(question_id)
        if answers is not None:
            _check_answers(question.items, answers)
        wanted = replace(
            question,
            state="answered",
            answers=answers,
            dismissed=answers is None,
            answered_by=client,
            resolved_at=self._now(),
        )
        return await finish_before_cancel(self._answer(wanted))

    def _new_record(self, asked: _Asked, new_id: str, deadline: float) -> _Asked:
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
                await self._wait_for_answer(waiter, left)
            return cast(_Asked, waiter.result())
        finally:
            del self._waiters[asked.id]

    async def _wait_for_answer(self, waiter: asyncio.Future[Approval | Question], left: float | None) -> None:
        """Wait until the answer arrives or the clock must be checked again."""
        if left is None:
            await waiter
            return
        timer = asyncio.ensure_future(self._sleep(min(left, _CLOCK_CHECK_SECONDS)))
        both: tuple[asyncio.Future[Any], ...] = (waiter, timer)
        try:
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        finally:
            timer.cancel()

    async def _answer(self, wanted: _Asked, *grants: AddGrant) -> _Asked:
        """Commit the answer if it is the first. A lock per record ensures that only the winner's rules are saved."""
        async with self._lock(wanted.id):
            found = await self._read(wanted)
            if found.state == "open" and found.deadline_at is not None and found.deadline_at <= self._now():
                found = await self._close(_expired(found, self._now()))
            if found.state == "open":
                if isinstance(wanted, Approval) and wanted.decision == "always" and wanted.scope == "all":
                    await self._save_rules(wanted.pattern)
                found = await self._close(wanted, *grants)
        return _winner_or_conflict(found, wanted)

    async def _expire(self, asked: _Asked) -> _Asked:
        async with self._lock(asked.id):
            return await self._close(_expired(asked, self._now()))

    async def _close(self, wanted: _Asked, *grants: AddGrant) -> _Asked:
        """Close the record. Returns it as it is now: as wanted, or as another server closed it first."""
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

    def _on_events(self, logged: tuple[CommittedEvent, ...]) -> None:
        """Wake the waiters of records that were closed."""
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

    def _lock(self, record_id: str) -> asyncio.Lock:
        return self._locks.setdefault(record_id, asyncio.Lock())

    def _grant(self, approval: Approval, rule: str) -> Grant:
        return Grant(
            id=self._ids.new("apr"),
            workspace_id=approval.workspace_id,
            rule=rule,
            session_id=approval.root_session_id if approval.decision == "session" else None,
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
            scope=asked.scope,
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


def _rules_to_save(approval: Approval, decision: ApprovalDecision, patterns: tuple[str, ...] | None) -> tuple[str, ...]:
    """The rules that "session" or "always" saves: the offered ones, or the chosen ones, also edited."""
    if decision not in ("session", "always"):
        return ()
    if not approval.patterns:
        raise BadRequest(f"{approval.title!r} can only be allowed once; answer 'once' or 'deny'")
    chosen = approval.patterns if patterns is None else tuple(dict.fromkeys(patterns))
    offered = ", ".join(map(repr, approval.patterns))
    for pattern in chosen:
        if pattern not in approval.patterns and (problem := _problem_with_edited(pattern, approval.patterns)):
            raise BadRequest(f"the pattern {pattern!r} was not offered, and {problem}; offered: {offered}")
    if not chosen:
        raise BadRequest(f"{decision!r} needs at least one pattern to save; offered: {offered}")
    return chosen


def _problem_with_edited(pattern: str, offered: tuple[str, ...]) -> str:
    """Why a rule that was edited cannot be saved; empty if it can.

    It must be for the same tool, and for commands also for the same program, so that a slip cannot allow everything.
    """
    from holdfast.approvals.rule_patterns import CommandPattern
    from holdfast.approvals.rules import parse_rule

    try:
        rule = parse_rule(pattern)
    except ConfigError as error:
        return error.message
    tool, _, body = rule.text.partition(":")
    same_tool = [words for name, _, words in (text.partition(":") for text in offered) if name.strip() == tool]
    if not same_tool:
        return "it is for another tool"
    if not body.strip("*?/.~ "):
        return "it allows everything"
    if isinstance(rule.pattern, CommandPattern) and body.split()[0] not in {words.split()[0] for words in same_tool}:
        return "it is for another program"
    return ""


def _winner_or_conflict(found: _Asked, wanted: _Asked) -> _Asked:
    """The record if it has the wanted answer, now or from an earlier call; otherwise raise `Conflict`."""
    if found.state == "answered" and _answer_of(found) == _answer_of(wanted):
        return found
    what = "approval" if isinstance(found, Approval) else "question"
    who = f" by {found.answered_by!r}" if found.answered_by else ""
    raise Conflict(
        f"{what} {found.id!r} is already {found.state}{who}",
        code=f"{what}_closed",
        detail={what: to_builtins(found)},
    )


def _answer_of(asked: Approval | Question) -> tuple[object, ...]:
    if isinstance(asked, Approval):
        return asked.answered_by, asked.decision, asked.pattern, asked.scope, asked.feedback
    return asked.answered_by, asked.answers, asked.dismissed


def _check_answers(items: tuple[QuestionItem, ...], answers: tuple[tuple[str, ...], ...]) -> None:
    """Raise `BadRequest` if the answers do not fit their questions."""
    if len(items) != len(answers):
        raise BadRequest(f"expected {len(items)} answers, one per question, got {len(answers)}")
    for item, answer in zip(items, answers, strict=True):
        options = ("yes", "no") if item.kind == "yes_no" else item.options
        if not _fits(item, answer, options):
            raise BadRequest(f"{list(answer)!r} is not a valid answer to {item.text!r}; options: {list(options)!r}")


def _fits(item: QuestionItem, answer: tuple[str, ...], options: tuple[str, ...]) -> bool:
    match item.kind:
        case "text":
            return len(answer) <= 1
        case "multiple":
            return set(answer) <= set(options)
        case "yes_no" | "single":
            return len(answer) == 1 and answer[0] in options
        case _:
            assert_never(item.kind)
