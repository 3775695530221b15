"""Runs: accepted, watched, changed while queued, cancelled (`R1`–`R10`, `C1`–`C4`)."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias, TypeVar

import msgspec
from msgspec import UNSET

from holdfast.errors import (
    BadRequest,
    Conflict,
    Gone,
    NoModel,
    NotFound,
    ServerStopping,
    SubagentSession,
    TooMany,
    WorkspaceClosing,
)
from holdfast.ids import is_valid_client_id
from holdfast.schema.api.request_bodies import (
    Attachment,
    CancelBody,
    EmptyBody,
    FirstPromptBody,
    LaneCommandBody,
    NoParameters,
    PromptBody,
    RequestBody,
    RunPatch,
    RunQuery,
    RunsQuery,
    ShellBody,
    UndoBody,
)
from holdfast.schema.api.response_bodies import PageView
from holdfast.schema.messages import File
from holdfast.schema.runs import Accepted, Limits, Queue, Receipt, Run, RunKind, RunRequest
from holdfast.server.http.endpoint import KIB, Call, Endpoint
from holdfast.server.http.idempotency import read_key
from holdfast.server.http.request_parsing import check_depth
from holdfast.server.server_parts import ServerParts
from holdfast.services.page_view import page_view

T = TypeVar("T")

_canonical = msgspec.json.Encoder(order="sorted")

PROMPT_BYTES = 32 * 1024 * KIB
"""Most bytes of a prompt with its attachments."""


async def start_run(call: Call[PromptBody, NoParameters]) -> Accepted:
    """Accept a prompt: it is stored when this answers, and its run belongs to the server from then on."""
    return await _accept(call, _prompt(call.body), kind="prompt")


async def start_first_run(call: Call[FirstPromptBody, NoParameters]) -> Accepted:
    """Make a session with its first run, in one commit."""
    workspace_id, request = call.path["workspace_id"], _named(call, _prompt(call.body))

    def accept() -> Awaitable[Accepted]:
        return call.parts.engine.accept_in_new_session(
            workspace_id,
            request,
            client=call.client,
            body_hash=body_hash("prompt", call.body),
            title=call.body.title,
        )

    return await _in_its_workspace(call.parts, accept, workspace_id=lambda: _known(workspace_id))


async def run_shell(call: Call[ShellBody, NoParameters]) -> Accepted:
    """Run a person's own command in the session's directory, recorded in the session."""
    request = RunRequest(kind="shell", run_id=call.body.run_id, arguments={"command": call.body.command})
    return await _accept(call, request, kind="shell")


async def compact(call: Call[LaneCommandBody, NoParameters]) -> Accepted:
    """Replace what the model is told of the past by a summary."""
    return await _accept(call, RunRequest(kind="compact", run_id=call.body.run_id), kind="compact")


async def undo(call: Call[UndoBody, NoParameters]) -> Accepted:
    """Give files back what they were before the last run, or before a message. What people changed is not touched."""
    return await _accept(call, _undo(call.body, "undo"), kind="undo")


async def redo(call: Call[UndoBody, NoParameters]) -> Accepted:
    """Take an undo back."""
    return await _accept(call, _undo(call.body, "redo"), kind="redo")


async def list_runs(call: Call[None, RunsQuery]) -> PageView[Run]:
    """The queue and the past, newest first."""
    parts, query = call.parts, call.query
    before = int(query.before) if query.before else None
    page = await parts.store.runs(call.path["session_id"], limit=query.limit, before=before, states=query.state or None)
    shown = page_view(page, parts.hub)
    return msgspec.structs.replace(shown, items=tuple(parts.engine.with_live_state(run) for run in shown.items))


async def get_run(call: Call[None, RunQuery]) -> Run:
    """A run as it is; with `wait`, when it has ended or the time is over."""
    engine, run_id, seconds = call.parts.engine, call.path["run_id"], call.query.wait
    if not seconds:
        return await engine.get_run(run_id)
    waiting = asyncio.create_task(engine.wait_run(run_id, timeout=seconds), name=f"wait:{run_id}")
    others = [
        asyncio.create_task(call.left(), name=f"left:{run_id}"),
        asyncio.create_task(call.parts.life.until_runs_have_stopped(), name=f"stop:{run_id}"),
    ]
    try:
        await asyncio.wait({waiting, *others}, return_when=asyncio.FIRST_COMPLETED)
        return waiting.result() if waiting.done() else await engine.get_run(run_id)
    finally:
        for task in (waiting, *others):
            task.cancel()


async def change_run(call: Call[RunPatch, NoParameters]) -> Run:
    """Edit or move a run that is still queued."""
    parts, run_id, body = call.parts, call.path["run_id"], call.body

    def change() -> Awaitable[Run]:
        return parts.engine.change_queued(
            run_id,
            prompt=None if body.prompt is UNSET else body.prompt,
            position=None if body.position is UNSET else body.position,
        )

    async def workspace_id() -> str:
        return await _workspace_of(parts, (await parts.store.run(run_id)).session_id)

    return await _in_its_workspace(parts, change, workspace_id=workspace_id)


async def cancel_run(call: Call[EmptyBody, NoParameters]) -> Receipt:
    """Cancel one run. One that has ended stays as it is."""
    return await call.parts.engine.cancel_run(call.path["run_id"])


async def cancel_session(call: Call[CancelBody, NoParameters]) -> Receipt:
    """Cancel what was accepted until now, or only what is active. The receipt says how each run ended."""
    return await call.parts.engine.cancel_session(call.path["session_id"], call.body.scope)


async def pause(call: Call[EmptyBody, NoParameters]) -> Queue:
    """Hold the queue; the active run goes on."""
    return await _on_lane(call, call.parts.engine.pause)


async def resume(call: Call[EmptyBody, NoParameters]) -> Queue:
    """Let the queue go on."""
    return await _on_lane(call, call.parts.engine.resume)


async def _on_lane(call: Call[Any, NoParameters], command: Callable[[str], Awaitable[Queue]]) -> Queue:
    parts, session_id = call.parts, call.path["session_id"]
    return await _in_its_workspace(
        parts, lambda: command(session_id), workspace_id=lambda: _workspace_of(parts, session_id)
    )


def body_hash(kind: RunKind, body: RequestBody) -> str:
    """The same for the same request, however its JSON was written."""
    return hashlib.sha256(kind.encode() + b"\n" + _canonical.encode(body)).hexdigest()


async def _accept(call: Call[Any, NoParameters], request: RunRequest, *, kind: RunKind) -> Accepted:
    parts, session_id = call.parts, call.path["session_id"]
    named = _named(call, request)

    def accept() -> Awaitable[Accepted]:
        return parts.engine.accept(session_id, named, client=call.client, body_hash=body_hash(kind, call.body))

    return await _in_its_workspace(parts, accept, workspace_id=lambda: _workspace_of(parts, session_id))


async def _workspace_of(parts: ServerParts, session_id: str) -> str:
    return (await parts.store.session(session_id)).workspace_id


async def _known(value: str) -> str:
    return value


async def _in_its_workspace(
    parts: ServerParts, work: Callable[[], Awaitable[T]], *, workspace_id: Callable[[], Awaitable[str]]
) -> T:
    """A workspace that was unloaded, or that this server has not opened yet, is opened by who wants something of it."""
    try:
        return await work()
    except (NotFound, WorkspaceClosing, ServerStopping) as error:
        closed = error.error_code in ("workspace_closed", WorkspaceClosing.code, ServerStopping.code)
        if not closed or parts.life.stopping:
            raise
    await parts.workspaces.open_known(await workspace_id())
    try:
        return await work()
    except ServerStopping:
        parts.life.refuse_when_stopping()
        raise WorkspaceClosing("the workspace is closing; open it, then try again") from None


def _named(call: Call[Any, NoParameters], request: RunRequest) -> RunRequest:
    """A run is known by its id; an ``Idempotency-Key`` becomes the id of one that has none."""
    key = read_key(call.headers.get(b"idempotency-key"))
    if request.run_id is not None or key is None:
        return request
    usable = key if is_valid_client_id(key) else f"run_{hashlib.sha256(key.encode()).hexdigest()[:32]}"
    return msgspec.structs.replace(request, run_id=usable)


def _prompt(body: PromptBody) -> RunRequest:
    check_depth(body.output_schema, name="output_schema")
    return RunRequest(
        prompt=body.prompt,
        run_id=body.run_id,
        attachments=tuple(_file(attachment, place=place) for place, attachment in enumerate(body.attachments)),
        delivery=body.delivery,
        after=body.after,
        model=body.model,
        mode=body.mode,
        interactive=body.interactive,
        limits=Limits(body.limits.max_steps, body.limits.max_seconds, body.limits.max_cost),
        effort=body.effort,
        output_schema=body.output_schema,
    )


def _file(attachment: Attachment, *, place: int) -> File:
    if (attachment.text is None) == (attachment.data is None):
        raise BadRequest(
            f"attachment {attachment.name!r} needs either text or data", detail={"field": f"attachments[{place}]"}
        )
    return File(attachment.name, attachment.media_type, attachment.text, attachment.data)


def _undo(body: UndoBody, kind: RunKind) -> RunRequest:
    target = {} if body.to_message_id is None else {"to_message_id": body.to_message_id}
    return RunRequest(kind=kind, run_id=body.run_id, arguments=target)


_GIVES = {"run_id": "/run/id", "session_id": "/run/session_id"}
_Errors: TypeAlias = tuple[type[Any], ...]
_KNOWN: _Errors = (NotFound, Gone)
_ACCEPT: _Errors = (*_KNOWN, Conflict, NoModel, WorkspaceClosing, SubagentSession, TooMany)
_SESSION = "/v1/sessions/{session_id}"
_RUN = "/v1/runs/{run_id}"

ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint(
        *("POST", f"{_SESSION}/runs", start_run),
        body=PromptBody,
        limit=PROMPT_BYTES,
        answer=Accepted,
        status=202,
        gives=_GIVES,
        errors=_ACCEPT,
        keyed=False,
    ),
    Endpoint("GET", _RUN, get_run, query=RunQuery, answer=Run, errors=_KNOWN),
    Endpoint("POST", f"{_SESSION}/cancel", cancel_session, body=CancelBody, answer=Receipt, errors=_KNOWN),
    Endpoint("POST", f"{_RUN}/cancel", cancel_run, body=EmptyBody, answer=Receipt, errors=(*_KNOWN, Conflict)),
    Endpoint(
        *("POST", "/v1/workspaces/{workspace_id}/runs", start_first_run),
        body=FirstPromptBody,
        limit=PROMPT_BYTES,
        answer=Accepted,
        status=202,
        gives=_GIVES,
        errors=_ACCEPT,
        keyed=False,
    ),
    Endpoint("GET", f"{_SESSION}/runs", list_runs, query=RunsQuery, answer=PageView[Run], errors=_KNOWN),
    Endpoint(*("PATCH", _RUN, change_run), body=RunPatch, limit=PROMPT_BYTES, answer=Run, errors=(*_KNOWN, Conflict)),
    Endpoint("POST", f"{_SESSION}/pause", pause, body=EmptyBody, answer=Queue, errors=(*_KNOWN, Conflict)),
    Endpoint("POST", f"{_SESSION}/resume", resume, body=EmptyBody, answer=Queue, errors=(*_KNOWN, Conflict)),
    *(
        Endpoint(
            "POST", f"{_SESSION}/{name}", handler, body=body, answer=Accepted, status=202, errors=_ACCEPT, keyed=False
        )
        for name, handler, body in (
            ("shell", run_shell, ShellBody),
            ("compact", compact, LaneCommandBody),
            ("undo", undo, UndoBody),
            ("redo", redo, UndoBody),
        )
    ),
)
