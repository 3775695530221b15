"""Workspaces: open, trust, close; their clients, grants, jobs and files (`W1`–`W3`)."""

from __future__ import annotations

from pathlib import Path

from holdfast.errors import BadRequest, ConfigError, Gone, NotFound, ServerStopping
from holdfast.schema.api.request_bodies import (
    DiffQuery,
    EmptyBody,
    ExtensionsQuery,
    FilesQuery,
    GrantsQuery,
    JobOutputQuery,
    JobsQuery,
    MemoryBody,
    MemoryEntryQuery,
    NoParameters,
    OpenWorkspaceBody,
    RemoveGrantsQuery,
    TrustBody,
)
from holdfast.schema.api.response_bodies import (
    ContextView,
    DiffView,
    FilesView,
    LogView,
    MemoryView,
    MentionsView,
    PageView,
    RepositoryView,
)
from holdfast.schema.approvals import Grant
from holdfast.schema.commands import PromptCommand
from holdfast.schema.extensions import AgentView, ExtensionStatus
from holdfast.schema.sessions import Client, Job, WorkspaceView
from holdfast.server.http.endpoint import ApiRequest, Endpoint
from holdfast.server.http.file_response import FileResponse
from holdfast.server.http.responses import JsonResponse


async def open_workspace(request: ApiRequest[OpenWorkspaceBody, NoParameters]) -> JsonResponse:
    """Open a directory, or join its open workspace. Runs no code of the directory."""
    view, is_new = await request.services.workspaces.open(request.body.path, reach=request.reach)
    return JsonResponse(view, status=201 if is_new else 200)


async def list_workspaces(request: ApiRequest[None, NoParameters]) -> PageView[WorkspaceView]:
    """List every directory that was ever opened."""
    return await request.services.workspaces.list_workspaces(reach=request.reach)


async def get_workspace(request: ApiRequest[None, NoParameters]) -> WorkspaceView:
    """Get a workspace with its current activity."""
    return await request.services.workspaces.view(request.path["workspace_id"])


async def close_workspace(request: ApiRequest[EmptyBody, NoParameters]) -> WorkspaceView:
    """Close a workspace: its runs end `interrupted`, its jobs end; nothing is deleted."""
    return await request.services.workspaces.close(request.path["workspace_id"])


async def trust(request: ApiRequest[TrustBody, NoParameters]) -> WorkspaceView:
    """Let the configuration of the directory take effect, or stop that."""
    return await request.services.workspaces.trust(request.path["workspace_id"], trusted=request.body.trusted)


async def list_clients(request: ApiRequest[None, NoParameters]) -> PageView[Client]:
    """List the attached clients, each with the session it views."""
    only_here = request.reach is not None
    return await request.services.workspaces.clients(request.path["workspace_id"], only_here=only_here)


async def list_grants(request: ApiRequest[None, GrantsQuery]) -> PageView[Grant]:
    """List what was allowed for longer than once: in the workspace, and with `session` also in that session."""
    return await request.services.workspaces.grants(request.path["workspace_id"], session_id=request.query.session)


async def remove_grants(request: ApiRequest[EmptyBody, RemoveGrantsQuery]) -> PageView[Grant]:
    """Remove one grant, or all. Returns those that are left."""
    return await request.services.workspaces.remove_grants(
        request.path["workspace_id"], grant_id=request.query.id, session_id=request.query.session
    )


async def find_files(request: ApiRequest[None, FilesQuery]) -> FilesView:
    """Find files whose names match, best first, for completion."""
    query = request.query
    return FilesView(
        await request.services.workspaces.find_files(request.path["workspace_id"], query.q, limit=query.limit)
    )


async def find_mentions(request: ApiRequest[None, FilesQuery]) -> MentionsView:
    """Complete what is typed after an `@`: files, and resources of MCP servers as `server:uri`."""
    query, workspace_id = request.query, request.path["workspace_id"]
    found = await request.services.workspaces.find_mentions(workspace_id, query.q, limit=query.limit)
    return MentionsView(found)


async def get_repository(request: ApiRequest[None, NoParameters]) -> RepositoryView:
    """Get the branch of the repository, and how many files are changed (if the directory is trusted)."""
    return await request.services.workspaces.repository(request.path["workspace_id"])


async def get_diff(request: ApiRequest[None, DiffQuery]) -> DiffView:
    """Get the changes of the work tree (if the directory is trusted), of a commit or of a branch, as a diff."""
    return await request.services.workspaces.diff(request.path["workspace_id"], request.query)


async def read_context(request: ApiRequest[None, NoParameters]) -> ContextView:
    """Say what the context of a new session consists of, and what was cut."""
    return await request.services.workspaces.context(request.path["workspace_id"])


async def list_commands(request: ApiRequest[None, NoParameters]) -> PageView[PromptCommand]:
    """List the commands that a prompt may call as `/name`, for completion."""
    return await request.services.workspaces.commands(request.path["workspace_id"])


async def list_agents(request: ApiRequest[None, NoParameters]) -> PageView[AgentView]:
    """List the agents that can be chosen for a session, and those that cannot be used, with the reason."""
    return await request.services.workspaces.agents(request.path["workspace_id"])


async def read_memory(request: ApiRequest[None, NoParameters]) -> MemoryView:
    """List what the user asked to remember, for the project and for all."""
    return await request.services.memory.view(request.path["workspace_id"])


async def remember(request: ApiRequest[MemoryBody, NoParameters]) -> MemoryView:
    """Remember something. The model is told with the next prompt of every session."""
    body = request.body
    return await request.services.memory.add(request.path["workspace_id"], body.text, scope=body.scope)


async def forget(request: ApiRequest[EmptyBody, MemoryEntryQuery]) -> MemoryView:
    """Remove an entry by its number."""
    query = request.query
    return await request.services.memory.remove(request.path["workspace_id"], query.number, scope=query.scope)


async def list_extensions(request: ApiRequest[None, ExtensionsQuery]) -> PageView[ExtensionStatus]:
    """List the extensions with their states; starts those that are configured and not running."""
    workspace_id = request.path["workspace_id"]
    return await request.services.extensions.list_statuses(workspace_id, wait=request.query.wait)


async def restart_language_server(request: ApiRequest[EmptyBody, NoParameters]) -> LogView:
    """Start a language server again. Returns its log so far."""
    return await request.services.language_servers.restart(request.path["workspace_id"], request.path["name"])


async def get_language_server_log(request: ApiRequest[None, NoParameters]) -> LogView:
    """Get the last lines that a language server printed or logged."""
    return await request.services.language_servers.log(request.path["workspace_id"], request.path["name"])


async def list_jobs(request: ApiRequest[None, JobsQuery]) -> PageView[Job]:
    """List background jobs, newest first."""
    return await request.services.workspaces.jobs(request.path["workspace_id"], running=request.query.running)


async def get_job(request: ApiRequest[None, NoParameters]) -> Job:
    """Get a background job."""
    return await request.services.workspaces.job(request.path["job_id"])


async def job_output(request: ApiRequest[None, JobOutputQuery]) -> FileResponse:
    """Get the output of a background job so far, or the last bytes of it."""
    job = await request.services.workspaces.job(request.path["job_id"])
    last = request.query.last
    range_header = request.headers.get(b"range") if last is None else b"bytes=-%d" % last
    return await FileResponse.open(Path(job.output_path), range_header=range_header, redactor=request.parts.redactor())


async def kill_job(request: ApiRequest[EmptyBody, NoParameters]) -> Job:
    """Kill a background job with all its processes."""
    return await request.services.workspaces.kill_job(request.path["job_id"])


_WORKSPACE = "/v1/workspaces/{workspace_id}"
_UNKNOWN = (NotFound, Gone)

ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint("GET", "/v1/workspaces", list_workspaces, response=PageView[WorkspaceView]),
    Endpoint(
        *("POST", "/v1/workspaces", open_workspace),
        stores_answer=False,  # commands that only read begin with it, and must not wait for the disk
        body=OpenWorkspaceBody,
        response=WorkspaceView,
        status=201,
        other_responses={200: WorkspaceView},
        response_ids={"workspace_id": "/id"},
        errors=(BadRequest, NotFound, ServerStopping),
    ),
    Endpoint("GET", _WORKSPACE, get_workspace, response=WorkspaceView, errors=(NotFound,)),
    Endpoint("DELETE", _WORKSPACE, close_workspace, body=EmptyBody, response=WorkspaceView, errors=(NotFound,)),
    Endpoint("POST", f"{_WORKSPACE}/trust", trust, body=TrustBody, response=WorkspaceView, errors=(NotFound,)),
    Endpoint("GET", f"{_WORKSPACE}/clients", list_clients, response=PageView[Client], errors=(NotFound,)),
    Endpoint("GET", f"{_WORKSPACE}/grants", list_grants, query=GrantsQuery, response=PageView[Grant], errors=_UNKNOWN),
    Endpoint(
        *("DELETE", f"{_WORKSPACE}/grants", remove_grants),
        query=RemoveGrantsQuery,
        body=EmptyBody,
        response=PageView[Grant],
        errors=_UNKNOWN,
    ),
    Endpoint("GET", f"{_WORKSPACE}/files", find_files, query=FilesQuery, response=FilesView, errors=(NotFound,)),
    Endpoint(
        *("GET", f"{_WORKSPACE}/mentions", find_mentions),
        query=FilesQuery,
        response=MentionsView,
        errors=(NotFound,),
    ),
    Endpoint("GET", f"{_WORKSPACE}/repository", get_repository, response=RepositoryView, errors=(NotFound,)),
    Endpoint(
        *("GET", f"{_WORKSPACE}/diff", get_diff),
        query=DiffQuery,
        response=DiffView,
        errors=(NotFound, BadRequest),
    ),
    Endpoint("GET", f"{_WORKSPACE}/context", read_context, response=ContextView, errors=(NotFound, BadRequest)),
    Endpoint(
        *("GET", f"{_WORKSPACE}/commands", list_commands),
        response=PageView[PromptCommand],
        errors=(NotFound, BadRequest),
    ),
    Endpoint("GET", f"{_WORKSPACE}/agents", list_agents, response=PageView[AgentView], errors=(NotFound, BadRequest)),
    Endpoint("GET", f"{_WORKSPACE}/memory", read_memory, response=MemoryView, errors=(NotFound, BadRequest)),
    Endpoint(
        *("POST", f"{_WORKSPACE}/memory", remember),
        body=MemoryBody,
        response=MemoryView,
        errors=(NotFound, BadRequest),
    ),
    Endpoint(
        *("DELETE", f"{_WORKSPACE}/memory", forget),
        query=MemoryEntryQuery,
        body=EmptyBody,
        response=MemoryView,
        errors=(NotFound, BadRequest),
    ),
    Endpoint(
        *("GET", f"{_WORKSPACE}/extensions", list_extensions),
        query=ExtensionsQuery,
        response=PageView[ExtensionStatus],
        errors=(NotFound, BadRequest, ConfigError),
    ),
    Endpoint(
        *("POST", f"{_WORKSPACE}/language-servers/{{name}}/restart", restart_language_server),
        body=EmptyBody,
        response=LogView,
        errors=(NotFound,),
    ),
    Endpoint(
        *("GET", f"{_WORKSPACE}/language-servers/{{name}}/log", get_language_server_log),
        response=LogView,
        errors=(NotFound,),
    ),
    Endpoint("GET", f"{_WORKSPACE}/jobs", list_jobs, query=JobsQuery, response=PageView[Job], errors=(NotFound,)),
    Endpoint("GET", "/v1/jobs/{job_id}", get_job, response=Job, errors=_UNKNOWN),
    Endpoint(
        *("GET", "/v1/jobs/{job_id}/output", job_output),
        query=JobOutputQuery,
        response=str,
        media_type="text/plain",
        other_responses={206: str},
        errors=_UNKNOWN,
    ),
    Endpoint("POST", "/v1/jobs/{job_id}/kill", kill_job, body=EmptyBody, response=Job, errors=_UNKNOWN),
)
