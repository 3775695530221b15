"""Workspaces: directories opened, joined, trusted, closed; their jobs, files and grants (`W1`–`W3`)."""

from __future__ import annotations

from holdfast.errors import BadRequest, Gone, NotFound, ServerStopping
from holdfast.schema.api.request_bodies import (
    EmptyBody,
    FilesQuery,
    GrantsQuery,
    JobsQuery,
    NoParameters,
    OpenWorkspaceBody,
    RemoveGrantsQuery,
    TrustBody,
)
from holdfast.schema.api.response_bodies import FilesView, PageView
from holdfast.schema.approvals import Grant
from holdfast.schema.sessions import Client, Job, WorkspaceView
from holdfast.server.http.endpoint import Call, Endpoint
from holdfast.server.http.responses import Reply
from holdfast.server.server_parts import ServerParts
from holdfast.services.page_view import page_view


async def open_workspace(call: Call[OpenWorkspaceBody, NoParameters]) -> Reply:
    """Open a directory, or join it where it is open. Runs nothing of it."""
    call.parts.life.refuse_when_stopping()
    view, is_new = await call.parts.workspaces.open(call.body.path)
    return Reply(view, status=201 if is_new else 200)


async def list_workspaces(call: Call[None, NoParameters]) -> PageView[WorkspaceView]:
    """Every directory that was ever opened."""
    cursor = call.parts.hub.cursor
    return PageView(await call.parts.workspaces.views(), cursor)


async def get_workspace(call: Call[None, NoParameters]) -> WorkspaceView:
    """A workspace, with what is going on in it."""
    return await call.parts.workspaces.view(call.path["workspace_id"])


async def close_workspace(call: Call[EmptyBody, NoParameters]) -> WorkspaceView:
    """Close a workspace: its runs end `interrupted`, its jobs end; nothing is deleted."""
    workspace_id = call.path["workspace_id"]
    await call.parts.workspaces.close(workspace_id)
    return await call.parts.workspaces.view(workspace_id)


async def trust(call: Call[TrustBody, NoParameters]) -> WorkspaceView:
    """Let the directory's own configuration take part, or not any more."""
    return await call.parts.workspaces.trust(call.path["workspace_id"], trusted=call.body.trusted)


async def list_clients(call: Call[None, NoParameters]) -> PageView[Client]:
    """Who is attached, and to which session."""
    workspace = await call.parts.store.workspace(call.path["workspace_id"])
    return PageView(call.parts.presence.clients(workspace.id), call.parts.hub.cursor)


async def list_grants(call: Call[None, GrantsQuery]) -> PageView[Grant]:
    """What was allowed for longer than once: in the workspace, and with `session` in that session too."""
    return await _grants(call.parts, call.path["workspace_id"], session_id=call.query.session)


async def remove_grants(call: Call[EmptyBody, RemoveGrantsQuery]) -> PageView[Grant]:
    """Take back one grant, or all. Answers those that are left."""
    workspace_id = call.path["workspace_id"]
    await call.parts.workspaces.remove_grants(workspace_id, grant_id=call.query.id)
    return await _grants(call.parts, workspace_id, session_id=call.query.session)


async def _grants(parts: ServerParts, workspace_id: str, *, session_id: str | None) -> PageView[Grant]:
    cursor = parts.hub.cursor
    workspace = await parts.store.workspace(workspace_id)
    if session_id is not None:
        await parts.store.session(session_id)
    return PageView(await parts.store.grants(workspace.id, session_id=session_id), cursor)


async def find_files(call: Call[None, FilesQuery]) -> FilesView:
    """Files whose names fit, best first, for completion."""
    found = await call.parts.workspaces.files(call.path["workspace_id"], call.query.q, limit=call.query.limit)
    return FilesView(found)


async def list_jobs(call: Call[None, JobsQuery]) -> PageView[Job]:
    """Background processes, newest first."""
    workspace = await call.parts.store.workspace(call.path["workspace_id"])
    page = await call.parts.store.jobs(workspace_id=workspace.id, running=call.query.running)
    return page_view(page, call.parts.hub)


async def get_job(call: Call[None, NoParameters]) -> Job:
    """A background process."""
    return await call.parts.store.job(call.path["job_id"])


async def kill_job(call: Call[EmptyBody, NoParameters]) -> Job:
    """End a background process with all that it started."""
    return await call.parts.workspaces.kill_job(call.path["job_id"])


_WORKSPACE = "/v1/workspaces/{workspace_id}"
_KNOWN = (NotFound,)

ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint("GET", "/v1/workspaces", list_workspaces, answer=PageView[WorkspaceView]),
    Endpoint(
        *("POST", "/v1/workspaces", open_workspace),
        body=OpenWorkspaceBody,
        answer=WorkspaceView,
        status=201,
        also={200: WorkspaceView},
        gives={"workspace_id": "/id"},
        errors=(BadRequest, NotFound, ServerStopping),
    ),
    Endpoint("GET", _WORKSPACE, get_workspace, answer=WorkspaceView, errors=_KNOWN),
    Endpoint("DELETE", _WORKSPACE, close_workspace, body=EmptyBody, answer=WorkspaceView, errors=_KNOWN),
    Endpoint("POST", f"{_WORKSPACE}/trust", trust, body=TrustBody, answer=WorkspaceView, errors=_KNOWN),
    Endpoint("GET", f"{_WORKSPACE}/clients", list_clients, answer=PageView[Client], errors=_KNOWN),
    Endpoint(
        *("GET", f"{_WORKSPACE}/grants", list_grants),
        query=GrantsQuery,
        answer=PageView[Grant],
        errors=(NotFound, Gone),
    ),
    Endpoint(
        *("DELETE", f"{_WORKSPACE}/grants", remove_grants),
        query=RemoveGrantsQuery,
        body=EmptyBody,
        answer=PageView[Grant],
        errors=(NotFound, Gone),
    ),
    Endpoint("GET", f"{_WORKSPACE}/files", find_files, query=FilesQuery, answer=FilesView, errors=_KNOWN),
    Endpoint("GET", f"{_WORKSPACE}/jobs", list_jobs, query=JobsQuery, answer=PageView[Job], errors=_KNOWN),
    Endpoint("GET", "/v1/jobs/{job_id}", get_job, answer=Job, errors=(NotFound, Gone)),
    Endpoint("POST", "/v1/jobs/{job_id}/kill", kill_job, body=EmptyBody, answer=Job, errors=(NotFound, Gone)),
)
