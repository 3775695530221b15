"""The commit of a run's end: closes its messages, answers its open calls, closes its approvals and questions (`R8`)."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Literal, TypeAlias

from msgspec.structs import replace

from holdfast.agent.protocol import Ending
from holdfast.agent.unfinished_messages import Cutoff, closing_messages, finish_of, unanswered
from holdfast.runs.engine_state import EngineState
from holdfast.runs.lane.commit_plan import LaneState
from holdfast.schema.approvals import Approval, Question
from holdfast.schema.base import Value
from holdfast.schema.events import ApprovalResolved, KnownDurable, QuestionResolved
from holdfast.schema.messages import Message, text_of
from holdfast.schema.runs import EndReason, EndState, Outcome, Run
from holdfast.store import Store
from holdfast.store.records import Page
from holdfast.store.writes import AnyWrite, ResolveApproval, ResolveQuestion

EndContent: TypeAlias = Literal["everything", "stored_messages", "end_only"]
"""How much is written with an end: all that the turn returned, only the stored messages closed, or the end alone."""

_PAGE = 32


class OpenParts(Value, frozen=True):
    """What the database has of a run that may still be open."""

    messages: tuple[Message, ...] = ()
    approvals: tuple[Approval, ...] = ()
    questions: tuple[Question, ...] = ()


async def read_open_parts(engine_state: EngineState, state: LaneState, run: Run) -> OpenParts:
    """Read what the end of the run must close. It stays true until the run's turn writes something."""
    store = engine_state.store
    run_ids = frozenset(other.id for other in state.runs.values() if other.host_run_id == run.id) | {run.id}
    found = await store.open_run_parts(run.session_id, run_id=run.id, limit=_PAGE)
    messages = await _latest_messages(store, run.session_id, found.messages, run_ids=run_ids)
    return OpenParts(messages, found.approvals, found.questions)


async def complete_ending(
    engine_state: EngineState,
    state: LaneState,
    *,
    run: Run,
    end: tuple[EndState, EndReason],
    ending: Ending,
    content: EndContent = "everything",
    crashed: bool = False,
    open_parts: Awaitable[OpenParts] | None = None,
) -> Ending:
    """Add to a turn's ending what it left open. Reads the database if the turn may have left something open.

    `open_parts` is a read that the caller has begun already.
    """
    if content == "end_only":
        return Ending(ending.outcome)
    if content == "stored_messages":
        ending = Ending(ending.outcome)
    if end[0] == "completed":
        return ending
    left = OpenParts() if ending.closes_all else await (open_parts or read_open_parts(engine_state, state, run))
    unapproved = frozenset(approval.call_id for approval in left.approvals)
    cutoff = Cutoff(
        state=end[0], reason=end[1], detail=_detail(end, ending.outcome), crashed=crashed, unapproved=unapproved
    )
    latest = _merge(left.messages, ending.messages)
    closing = closing_messages(
        latest, run=run, cutoff=cutoff, at=engine_state.now(), new_id=engine_state.new_message_id
    )
    writes, events = _close_requests(left.approvals, left.questions, at=engine_state.now())
    return replace(
        ending,
        outcome=_with_text(ending.outcome, _merge(latest, closing)),
        messages=_merge(ending.messages, closing),
        writes=(*ending.writes, *writes),
        events=(*ending.events, *events),
    )


async def _latest_messages(
    store: Store, session_id: str, page: Page[Message], *, run_ids: frozenset[str]
) -> tuple[Message, ...]:
    """Return the messages of a run and of those that joined it, back to its last prompt or its last closed step.

    ``page`` has the last messages of the session; those before are read if they are needed. What is older is
    closed: no step starts while a call of the step before has no result.
    """
    found: list[Message] = []
    while True:
        for message in reversed(page.items):
            if message.unsent:
                continue
            if message.run_id not in run_ids:
                return tuple(reversed(found))
            found.append(message)
            if message.role == "user" or _is_closed_step(message, found):
                return tuple(reversed(found))
        if page.next is None:
            return tuple(reversed(found))
        page = await store.messages(session_id, limit=_PAGE, before=page.next)


def _is_closed_step(message: Message, found: list[Message]) -> bool:
    return message.role == "assistant" and finish_of(message) is not None and not unanswered(reversed(found))


def _merge(first: tuple[Message, ...], then: tuple[Message, ...]) -> tuple[Message, ...]:
    """The later state of each message, in the order in which they came."""
    by_id = {message.id: message for message in first}
    by_id.update((message.id, message) for message in then)
    return tuple(by_id.values())


def _with_text(outcome: Outcome, messages: tuple[Message, ...]) -> Outcome:
    """Fill in the text of the last answer if the turn returned none."""
    answers = [message for message in messages if message.role == "assistant"]
    if not answers:
        return outcome
    return replace(
        outcome,
        text=outcome.text or text_of(answers[-1].parts),
        message_id=outcome.message_id or answers[-1].id,
    )


def _detail(end: tuple[EndState, EndReason], outcome: Outcome) -> str:
    if end[0] == "failed" and outcome.error is not None:
        return outcome.error.message
    return _DETAILS.get(end[1], "")


_DETAILS: dict[EndReason, str] = {
    "user_cancel": "cancelled",
    "parent_ended": "cancelled with the run that started it",
    "session_deleted": "the session was deleted",
    "server_stop": "the server was stopped",
    "server_crash": "the server ended unexpectedly",
}


def _close_requests(
    approvals: tuple[Approval, ...], questions: tuple[Question, ...], *, at: str
) -> tuple[tuple[AnyWrite, ...], tuple[KnownDurable, ...]]:
    """Close the open approvals and questions of the run."""
    writes: list[AnyWrite] = []
    events: list[KnownDurable] = []
    for approval in approvals:
        writes.append(ResolveApproval(approval_id=approval.id, state="cancelled", resolved_at=at))
        closed = replace(approval, state="cancelled", resolved_at=at)
        events.append(ApprovalResolved(at, approval.session_id, closed))
    for question in questions:
        writes.append(ResolveQuestion(question_id=question.id, state="cancelled", resolved_at=at))
        unanswered_question = replace(question, state="cancelled", resolved_at=at)
        events.append(QuestionResolved(at, question.session_id, unanswered_question))
    return tuple(writes), tuple(events)
