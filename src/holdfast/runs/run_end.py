"""The one commit of a run's end: what the turn left, closed, with its last open approvals and questions (`R8`)."""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec.structs import replace

from holdfast.agent.protocol import Ending
from holdfast.agent.unfinished_messages import Cutoff, closing_messages, finish_of, unanswered
from holdfast.runs.engine_state import EngineState
from holdfast.runs.lane.ledger_batch import EndDetails, LaneState
from holdfast.schema.events import ApprovalResolved, KnownDurable, QuestionResolved
from holdfast.schema.messages import Message, text_of
from holdfast.schema.runs import EndReason, EndState, Outcome, Run
from holdfast.store import Store
from holdfast.store.writes import AnyWrite, ResolveApproval, ResolveQuestion

Care: TypeAlias = Literal["whole", "closed", "bare"]
"""How much is written with an end: all that the turn gave; only what was stored, closed; nothing but the end."""

_PAGE = 32
_PAST_THE_END = 1 << 62


async def end_details(
    desk: EngineState,
    state: LaneState,
    *,
    run: Run,
    end: tuple[EndState, EndReason],
    ending: Ending,
    care: Care = "whole",
    crashed: bool = False,
) -> EndDetails:
    """What is written with the end that was decided. Reads the ledger only where the turn may have left something."""
    outcome = ending.outcome
    if care == "bare":
        return EndDetails(outcome=outcome)
    given = ending if care == "whole" else Ending(outcome)
    details = EndDetails(
        outcome=outcome, messages=given.messages, writes=given.writes, events=given.events, spent=given.spent
    )
    if end[0] == "completed":
        return details
    of_run = frozenset(other.id for other in state.runs.values() if other.host_run_id == run.id) | {run.id}
    stored = await latest_messages(desk.store, run.session_id, run_ids=of_run)
    asked = (await desk.store.open_approvals(run_id=run.id)).items
    unapproved = frozenset(approval.call_id for approval in asked)
    cutoff = Cutoff(state=end[0], reason=end[1], detail=_detail(end, outcome), crashed=crashed, unapproved=unapproved)
    latest = _merged(stored, given.messages)
    closing = closing_messages(latest, run=run, cutoff=cutoff, at=desk.now(), new_id=desk.new_message_id)
    asks = await _open_asks(desk, run.id)
    messages = _merged(given.messages, closing)
    return replace(
        details,
        outcome=_with_text(outcome, _merged(latest, closing)),
        messages=messages,
        writes=(*details.writes, *asks[0]),
        events=(*details.events, *asks[1]),
    )


async def latest_messages(store: Store, session_id: str, *, run_ids: frozenset[str]) -> tuple[Message, ...]:
    """The latest messages of a run and of those that joined it, back to its last prompt or its last closed step.

    What lies before is closed: no step starts while a call of the step before has no result.
    """
    found: list[Message] = []
    before: int | None = _PAST_THE_END
    while before is not None:
        page = await store.messages(session_id, limit=_PAGE, before=before)
        for message in reversed(page.items):
            if message.unsent:
                continue
            if message.run_id not in run_ids:
                return tuple(reversed(found))
            found.append(message)
            if message.role == "user" or _is_closed_step(message, found):
                return tuple(reversed(found))
        before = page.next
    return tuple(reversed(found))


def _is_closed_step(message: Message, found: list[Message]) -> bool:
    return message.role == "assistant" and finish_of(message) is not None and not unanswered(reversed(found))


def _merged(first: tuple[Message, ...], then: tuple[Message, ...]) -> tuple[Message, ...]:
    """The later state of each message, in the order in which they came."""
    by_id = {message.id: message for message in first}
    by_id.update((message.id, message) for message in then)
    return tuple(by_id.values())


def _with_text(outcome: Outcome, messages: tuple[Message, ...]) -> Outcome:
    """Where the turn did not say, the run's text is that of its last answer."""
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
    return _WORDS.get(end[1], "")


_WORDS: dict[EndReason, str] = {
    "user_cancel": "cancelled",
    "parent_ended": "cancelled with the run that started it",
    "session_deleted": "the session was deleted",
    "server_stop": "the server was stopped",
    "server_crash": "the server ended unexpectedly",
}


async def _open_asks(desk: EngineState, run_id: str) -> tuple[tuple[AnyWrite, ...], tuple[KnownDurable, ...]]:
    """Closes what the run still asked of a person."""
    at = desk.now()
    writes: list[AnyWrite] = []
    events: list[KnownDurable] = []
    for approval in (await desk.store.open_approvals(run_id=run_id)).items:
        writes.append(ResolveApproval(approval_id=approval.id, state="cancelled", resolved_at=at))
        closed = replace(approval, state="cancelled", resolved_at=at)
        events.append(ApprovalResolved(at, approval.session_id, closed))
    for question in (await desk.store.open_questions(run_id=run_id)).items:
        writes.append(ResolveQuestion(question_id=question.id, state="cancelled", resolved_at=at))
        dropped = replace(question, state="cancelled", resolved_at=at)
        events.append(QuestionResolved(at, question.session_id, dropped))
    return tuple(writes), tuple(events)
