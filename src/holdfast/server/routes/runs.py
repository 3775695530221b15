"""Runs: start, read, change, cancel (`R1`–`R10`, `C1`–`C4`)."""

from __future__ import annotations

from msgspec import UNSET

from holdfast.errors import (
    Conflict,
    Gone,
    HoldfastError,
    NoModel,
    NotFound,
    SubagentSession,
    TooMany,
    WorkspaceClosing,
)
from holdfast.schema.api.request_bodies import (
    AcceptPlanBody,
    CancelBody,
    CompactBody,
    EmptyBody,
    FirstPromptBody,
    NoParameters,
    PromptBody,
    RunPatch,
    RunQuery,
    RunsQuery,
    ShellBody,
    UndoBody,
)
from holdfast.schema.api.response_bodies import PageView
from holdfast.schema.runs import Accepted, Queue, Receipt, Run
from holdfast.server.http.endpoint import KIB, ApiRequest, Endpoint

MAX_PROMPT_BYTES = 32 * 1024 * KIB
"""With its attachments."""


async def start_run(request: ApiRequest[PromptBody, NoParameters]) -> Accepted:
    """Accept a prompt: it is stored when this returns, and its run belongs to the server from then on."""
    session_id = request.path["session_id"]
    return await request.services.runs.start(session_id, request.body, client=request.client, key=request.key)


async def start_first_run(request: ApiRequest[FirstPromptBody, NoParameters]) -> Accepted:
    """Create a session with its first run, in one commit."""
    workspace_id = request.path["workspace_id"]
    return await request.services.runs.start_in_new_session(
        workspace_id, request.body, client=request.client, key=request.key
    )


async def run_shell(request: ApiRequest[ShellBody, NoParameters]) -> Accepted:
    """Run a user's own command in the directory of the session, recorded in the session."""
    session_id = request.path["session_id"]
    return await request.services.runs.run_shell(session_id, request.body, client=request.client, key=request.key)


async def compact(request: ApiRequest[CompactBody, NoParameters]) -> Accepted:
    """Replace the past messages that the model gets by a summary."""
    session_id = request.path["session_id"]
    return await request.services.runs.compact(session_id, request.body, client=request.client, key=request.key)


async def accept_plan(request: ApiRequest[AcceptPlanBody, NoParameters]) -> Accepted:
    """Carry out the plan with which the last prompt ended (`mode` `plan`), with its model and in another mode."""
    session_id = request.path["session_id"]
    return await request.services.runs.accept_plan(session_id, request.body, client=request.client, key=request.key)


async def undo(request: ApiRequest[UndoBody, NoParameters]) -> Accepted:
    """Restore files as they were before the last run or a message; what commands changed only for confirmed runs."""
    session_id = request.path["session_id"]
    return await request.services.runs.undo(session_id, request.body, client=request.client, key=request.key)


async def redo(request: ApiRequest[UndoBody, NoParameters]) -> Accepted:
    """Reverse an undo."""
    session_id = request.path["session_id"]
    return await request.services.runs.redo(session_id, request.body, client=request.client, key=request.key)


async def list_runs(request: ApiRequest[None, RunsQuery]) -> PageView[Run]:
    """List queued and past runs, newest first."""
    query = request.query
    return await request.services.runs.list_runs(
        request.path["session_id"], limit=query.limit, before=query.before, states=query.state
    )


async def get_run(request: ApiRequest[None, RunQuery]) -> Run:
    """Get a run; with `wait`, when it has ended or the time is over."""
    run_id, seconds = request.path["run_id"], request.query.wait
    if not seconds:
        return await request.services.runs.get(run_id)
    return await request.services.runs.wait(run_id, seconds=seconds, caller_left=request.wait_for_disconnect())


async def change_run(request: ApiRequest[RunPatch, NoParameters]) -> Run:
    """Edit or move a queued run."""
    prompt, position = request.body.prompt, request.body.position
    return await request.services.runs.change(
        request.path["run_id"],
        prompt=None if prompt is UNSET else prompt,
        position=None if position is UNSET else position,
    )


async def cancel_run(request: ApiRequest[EmptyBody, NoParameters]) -> Receipt:
    """Cancel one run. A run that has ended stays as it is."""
    return await request.services.runs.cancel(request.path["run_id"])


async def cancel_session(request: ApiRequest[CancelBody, NoParameters]) -> Receipt:
    """Cancel all runs accepted so far, or only the active one. The receipt says how each run ended."""
    return await request.services.runs.cancel_session(request.path["session_id"], request.body.scope)


async def pause(request: ApiRequest[EmptyBody, NoParameters]) -> Queue:
    """Pause the queue; the active run continues."""
    return await request.services.runs.pause(request.path["session_id"])


async def resume(request: ApiRequest[EmptyBody, NoParameters]) -> Queue:
    """Resume the queue."""
    return await request.services.runs.resume(request.path["session_id"])


_IDS = {"run_id": "/run/id", "session_id": "/run/session_id"}
_Errors = tuple[type[HoldfastError], ...]
_UNKNOWN: _Errors = (NotFound, Gone)
_NOT_ACCEPTED: _Errors = (*_UNKNOWN, Conflict, NoModel, WorkspaceClosing, SubagentSession, TooMany)
_SESSION = "/v1/sessions/{session_id}"
_RUN = "/v1/runs/{run_id}"

ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint(
        *("POST", f"{_SESSION}/runs", start_run),
        body=PromptBody,
        max_body_bytes=MAX_PROMPT_BYTES,
        response=Accepted,
        status=202,
        response_ids=_IDS,
        errors=_NOT_ACCEPTED,
        stores_answer=False,
    ),
    Endpoint("GET", _RUN, get_run, query=RunQuery, response=Run, errors=_UNKNOWN),
    Endpoint("POST", f"{_SESSION}/cancel", cancel_session, body=CancelBody, response=Receipt, errors=_UNKNOWN),
    Endpoint("POST", f"{_RUN}/cancel", cancel_run, body=EmptyBody, response=Receipt, errors=(*_UNKNOWN, Conflict)),
    Endpoint(
        *("POST", "/v1/workspaces/{workspace_id}/runs", start_first_run),
        body=FirstPromptBody,
        max_body_bytes=MAX_PROMPT_BYTES,
        response=Accepted,
        status=202,
        response_ids=_IDS,
        errors=_NOT_ACCEPTED,
        stores_answer=False,
    ),
    Endpoint("GET", f"{_SESSION}/runs", list_runs, query=RunsQuery, response=PageView[Run], errors=_UNKNOWN),
    Endpoint(
        *("PATCH", _RUN, change_run),
        body=RunPatch,
        max_body_bytes=MAX_PROMPT_BYTES,
        response=Run,
        errors=(*_UNKNOWN, Conflict),
    ),
    Endpoint("POST", f"{_SESSION}/pause", pause, body=EmptyBody, response=Queue, errors=(*_UNKNOWN, Conflict)),
    Endpoint("POST", f"{_SESSION}/resume", resume, body=EmptyBody, response=Queue, errors=(*_UNKNOWN, Conflict)),
    *(
        Endpoint(
            *("POST", f"{_SESSION}/{name}", handler),
            body=body,
            response=Accepted,
            status=202,
            errors=_NOT_ACCEPTED,
            stores_answer=False,
        )
        for name, handler, body in (
            ("shell", run_shell, ShellBody),
            ("compact", compact, CompactBody),
            ("accept-plan", accept_plan, AcceptPlanBody),
            ("undo", undo, UndoBody),
            ("redo", redo, UndoBody),
        )
    ),
)
