"""Accepting a run: what is looked at, in which order (`R3`), and the commit that makes it true (`R1`)."""

from __future__ import annotations

from typing import TypeAlias

from holdfast.errors import (
    BadRequest,
    Conflict,
    Gone,
    ServerStopping,
    SubagentSession,
    TooLarge,
    TooMany,
    WorkspaceClosing,
)
from holdfast.ids import is_valid_given_id
from holdfast.runs.engine_state import EngineState
from holdfast.runs.lane.decisions import decide
from holdfast.runs.lane.ledger_batch import Acceptance, LaneState, Plan
from holdfast.runs.lane.protocol import Accept, AcceptAnswer, QueuedAt, Repeated, Started, Steered
from holdfast.runs.mailbox import Planner
from holdfast.schema.events import KnownDurable
from holdfast.schema.runs import Accepted, Run, RunRequest, settings_of
from holdfast.schema.sessions import Session
from holdfast.store import RunRecord
from holdfast.store.writes import AnyWrite

Made: TypeAlias = tuple[tuple[AnyWrite, ...], tuple[KnownDurable, ...]]
"""Writes and events that come before the run's own: its new session."""

LONGEST_PROMPT = 1_000_000
"""Characters. A prompt is told in every event of its run; what is longer belongs into an attachment."""


def validate(request: RunRequest) -> None:
    """Raises `BadRequest` or `TooLarge` for what no run can be."""
    if request.run_id is not None and not is_valid_given_id(request.run_id):
        raise BadRequest(
            f"run_id {request.run_id!r} cannot be used; give 1 to 128 letters, digits or _ . : - and start with one of "
            "the first two"
        )
    if len(request.prompt) > LONGEST_PROMPT:
        raise TooLarge(
            f"the prompt has {len(request.prompt):,} characters, at most {LONGEST_PROMPT:,} are taken; "
            "attach the text, or put it into a file and name that"
        )
    match request.kind:
        case "prompt":
            if not request.prompt.strip() and not any(file.text for file in request.attachments):
                raise BadRequest("the prompt is empty; write one, or attach a text")
        case "shell":
            command = request.arguments.get("command")
            if not isinstance(command, str) or not command.strip():
                raise BadRequest(f"a shell run needs arguments.command, a command line; got {command!r}")
        case "delete":
            raise BadRequest("a session is deleted with DELETE, not with a run")
        case "compact" | "undo" | "redo":
            pass


def refuse_child(session: Session) -> None:
    if session.parent_id is not None:
        raise SubagentSession(
            f"session {session.id!r} belongs to a sub-agent and takes no prompts; "
            f"prompt the session {session.parent_id!r} instead"
        )


def answer_again(
    record: RunRecord, *, body_hash: str, session_id: str | None = None, workspace_id: str | None = None
) -> Accepted:
    """The first answer for a known id, with the run as it is now; or why the id cannot be used again."""
    same_place = record.run.session_id == session_id if session_id else record.workspace_id == workspace_id
    if record.body_hash != body_hash or not same_place:
        raise Conflict(
            f"run_id {record.run.id!r} was used for another request; a new run needs a new id",
            code="run_id_reused",
            detail={"run_id": record.run.id},
        )
    if record.deleted:
        raise Gone(f"the session of run {record.run.id!r} was deleted")
    return Accepted(run=record.run, decision=record.decision, position=record.position, host_run_id=record.host_run_id)


def accept_planner(desk: EngineState, acceptance: Acceptance, *, made: Made = ((), ())) -> Planner[Accepted | None]:
    """``None``: the id is in this lane already, so the ledger knows the answer."""
    request = acceptance.request
    assert request.run_id is not None

    command = Accept(
        run_id=request.run_id,
        kind=request.kind,
        delivery=request.delivery,
        after=request.after,
        settings=settings_of(request),
    )

    async def plan(state: LaneState) -> Plan[Accepted | None]:
        if state.lane.find(command.run_id) is None:
            _refuse(desk, state)
        decision = decide(state.lane, command)
        if isinstance(decision.answer, Repeated):
            return Plan(state, None)
        entry = desk.entry(state)
        entry.add(*made)
        entry.changes(decision.lane, decision.changes, acceptance=acceptance, answer=decision.answer)
        accepted = _answer(entry.runs[command.run_id], decision.answer)
        return entry.plan(decision.lane, accepted, changes=decision.changes)

    return plan


def _refuse(desk: EngineState, state: LaneState) -> None:
    workspace_id = state.session.workspace_id
    if desk.stopping:
        raise ServerStopping("the server is stopping; try again when it is back")
    if state.lane.lifecycle in ("deleting", "deleted"):
        raise Gone(f"session {state.session.id!r} is deleted")
    if not desk.is_open(workspace_id):
        raise WorkspaceClosing(f"workspace {workspace_id!r} is not open; open it, then try again")
    if len(state.lane.runs) >= desk.bounds.unfinished_runs:
        raise TooMany(
            f"session {state.session.id!r} has {len(state.lane.runs)} unfinished runs; wait for some, or cancel them"
        )


def _answer(run: Run, answer: AcceptAnswer) -> Accepted:
    match answer:
        case QueuedAt(position):
            return Accepted(run, "queued", position=position)
        case Steered(host):
            return Accepted(run, "steered", host_run_id=host)
        case Started() | Repeated():
            return Accepted(run, "started")
