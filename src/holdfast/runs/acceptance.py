"""Accepting a run: validation, repeated run ids and refusals (`R3`), and the commit of a new run (`R1`)."""

from __future__ import annotations

from typing import TypeVar

from msgspec import UNSET
from msgspec.structs import replace

from holdfast.agent.protocol import StartRecord
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
from holdfast.ids import is_valid_client_id
from holdfast.runs.engine_state import ActiveRun, EngineState
from holdfast.runs.lane.commit_plan import Acceptance, CommitPlan, LaneState, accepted_as
from holdfast.runs.lane.decisions import decide, why_not_steered
from holdfast.runs.lane.protocol import Accept, Repeated
from holdfast.runs.mailbox import Planner
from holdfast.schema.events import SessionUpdated
from holdfast.schema.runs import Accepted, Run, RunRequest, settings_of
from holdfast.schema.sessions import Session
from holdfast.store import Batch, Committed, RunRecord
from holdfast.store.writes import InsertRun, PutMessage, PutSession, UpdateSession

A = TypeVar("A")

LONGEST_PROMPT = 1_000_000
"""In characters. Every event of a run carries its prompt; longer texts are attached."""


def validate_request(request: RunRequest) -> None:
    """Raise `BadRequest` or `TooLarge` if the request is invalid."""
    if request.run_id is not None and not is_valid_client_id(request.run_id):
        raise BadRequest(
            f"run_id {request.run_id!r} is invalid; use 1 to 128 letters, digits, '_', '.', ':' or '-', "
            "and start with a letter or digit"
        )
    if len(request.prompt) > LONGEST_PROMPT:
        raise TooLarge(
            f"the prompt has {len(request.prompt):,} characters, but at most {LONGEST_PROMPT:,} are allowed; "
            "attach the text, or write it to a file and name the file"
        )
    match request.kind:
        case "prompt":
            if not request.prompt.strip() and not any(file.text for file in request.attachments):
                raise BadRequest("the prompt is empty; write one, or attach a text")
        case "shell":
            command = request.arguments.get("command")
            if not isinstance(command, str) or not command.strip():
                raise BadRequest(f"arguments.command is {command!r}; a shell run needs a command line")
        case "delete":
            raise BadRequest("kind 'delete' is not a run; delete a session with DELETE")
        case "compact" | "undo" | "redo":
            pass


def refuse_subagent_session(session: Session) -> None:
    if session.parent_id is not None:
        raise SubagentSession(
            f"session {session.id!r} belongs to a sub-agent and takes no prompts; "
            f"prompt the session {session.parent_id!r} instead"
        )


def repeat_answer(
    record: RunRecord, *, body_hash: str, session_id: str | None = None, workspace_id: str | None = None
) -> Accepted:
    """The first answer for a known run id, with the run as it is now. Raises if the id was used for something else."""
    same_place = record.run.session_id == session_id if session_id else record.workspace_id == workspace_id
    if record.body_hash != body_hash or not same_place:
        raise Conflict(
            f"run_id {record.run.id!r} was used for another request; use a new id for a new run",
            code="run_id_reused",
            detail={"run_id": record.run.id},
        )
    if record.deleted:
        raise Gone(f"the session of run {record.run.id!r} was deleted")
    return Accepted(run=record.run, decision=record.decision, position=record.position, host_run_id=record.host_run_id)


def accept_planner(engine_state: EngineState, acceptance: Acceptance) -> Planner[Accepted | None]:
    """Plan the acceptance of a run. The answer is `None` if the id is already in this lane."""
    request = acceptance.request
    assert request.run_id is not None

    accept = Accept(
        run_id=request.run_id,
        kind=request.kind,
        delivery=request.delivery,
        after=request.after,
        settings=settings_of(request),
    )

    async def plan(state: LaneState) -> CommitPlan[Accepted | None]:
        command = replace(accept, same_settings_as=_same_settings_as(_active_run(engine_state, state), request))
        if state.lane.find(command.run_id) is None:
            _refuse_new_run(engine_state, state)
        is_parked = state.session.workspace_id in engine_state.caretaken_workspaces
        decision = decide(state.lane, replace(command, parked=True) if is_parked else command)
        if isinstance(decision.answer, Repeated):
            return CommitPlan(state, None)
        made = engine_state.plan_decision(state, decision, acceptance=acceptance)
        if request.chooses_agent and request.agent is not None and not acceptance.in_new_session:
            made = await _with_session_agent(made, engine_state, request.agent)
        accepted = accepted_as(made.state.runs[command.run_id], decision.answer)
        return made.with_answer(replace(accepted, not_steered=why_not_steered(state.lane, command)))

    return plan


def start_record(run: Run, batch: Batch, committed: Committed) -> StartRecord:
    """What the commit that started a run says about it, for its turn.

    Nothing is known of a run that was accepted before, or that works in the environment of its parent.
    """
    inserted = next((write for write in batch.writes if isinstance(write, InsertRun) and write.run.id == run.id), None)
    if inserted is None:
        return StartRecord()
    begins_session = any(isinstance(write, PutSession) for write in batch.writes)
    is_known = run.parent_run_id is None and (begins_session or inserted.environment is not None)
    messages = (write.message for write in batch.writes if isinstance(write, PutMessage))
    return StartRecord(
        variables=inserted.environment if is_known else UNSET,
        messages=tuple(replace(one, seq=committed.seqs[one.id]) for one in messages) if begins_session else None,
    )


async def wait_for_host(engine_state: EngineState, session_id: str, request: RunRequest) -> None:
    """Wait until a steer can be compared with the active run, if that run was given other settings."""
    while request.in_effect is not None and (mailbox := engine_state.mailboxes.get(session_id)) is not None:
        host = None if mailbox.state is None else _active_run(engine_state, mailbox.state)
        if host is None or host.in_effect.done() or not host.takes_steers:
            return
        if settings_of(host.run) == settings_of(request):
            return
        await host.settings_known()


def _active_run(engine_state: EngineState, state: LaneState) -> ActiveRun | None:
    turn = state.lane.active
    return None if turn is None else engine_state.active_runs.get(turn.id)


def _same_settings_as(host: ActiveRun | None, request: RunRequest) -> str | None:
    """The active run, if it works with the settings that a steer asks for."""
    if host is None or request.in_effect is None or not host.in_effect.done():
        return None
    return host.run.id if host.in_effect.result() == request.in_effect else None


async def _with_session_agent(made: CommitPlan[A], engine_state: EngineState, agent: str) -> CommitPlan[A]:
    """Let the commit of a run also change the agent of its session."""
    session = await engine_state.store.session(made.state.session.id)
    if session.agent == agent:
        return made
    at = engine_state.now()
    write = UpdateSession(session_id=session.id, agent=agent, updated_at=at)
    event = SessionUpdated(at, session.id, replace(session, agent=agent, updated_at=at))
    return replace(
        made,
        state=replace(made.state, session=replace(made.state.session, agent=agent)),
        batch=Batch((*made.batch.writes, write), (*made.batch.events, event)),
    )


def _refuse_new_run(engine_state: EngineState, state: LaneState) -> None:
    workspace_id = state.session.workspace_id
    if engine_state.stopping:
        raise ServerStopping("the server is stopping; try again when it is back")
    if state.lane.lifecycle in ("deleting", "deleted"):
        raise Gone(f"session {state.session.id!r} is deleted")
    if not engine_state.is_open(workspace_id) and workspace_id not in engine_state.caretaken_workspaces:
        raise WorkspaceClosing(f"workspace {workspace_id!r} is not open; open it, then try again")
    if len(state.lane.runs) >= engine_state.limits.unfinished_runs:
        raise TooMany(
            f"session {state.session.id!r} has {len(state.lane.runs)} unfinished runs; wait for some, or cancel them"
        )
