"""Directories: their files, changes, memory, clients and background jobs."""

from __future__ import annotations

from holdfast.client.api_call import ApiCall, api_call, api_path, read_text, with_query, without_none
from holdfast.schema.api.response_bodies import (
    ContextView,
    DiffView,
    FilesView,
    MemoryView,
    MentionsView,
    PageView,
    RepositoryView,
)
from holdfast.schema.commands import PromptCommand
from holdfast.schema.extensions import AgentView
from holdfast.schema.sessions import Client, Job, WorkspaceView


def workspaces() -> ApiCall[PageView[WorkspaceView]]:
    return api_call("GET", api_path("workspaces"), returns=PageView[WorkspaceView])


def workspace(workspace_id: str) -> ApiCall[WorkspaceView]:
    return api_call("GET", api_path("workspaces", workspace_id), returns=WorkspaceView)


def close_workspace(workspace_id: str) -> ApiCall[WorkspaceView]:
    return api_call("DELETE", api_path("workspaces", workspace_id), returns=WorkspaceView, wait=10.0)


def trust(workspace_id: str, *, trusted: bool = True) -> ApiCall[WorkspaceView]:
    return api_call("POST", api_path("workspaces", workspace_id, "trust"), {"trusted": trusted}, returns=WorkspaceView)


def repository(workspace_id: str) -> ApiCall[RepositoryView]:
    """The branch, and how many files are changed."""
    return api_call("GET", api_path("workspaces", workspace_id, "repository"), returns=RepositoryView, wait=30.0)


def diff(
    workspace_id: str, *, commit: str | None = None, branch: bool = False, base: str | None = None
) -> ApiCall[DiffView]:
    """The changes of the work tree, of a commit, or of the current branch since its base."""
    query = {"commit": commit, "branch": branch or None, "base": base}
    return api_call("GET", api_path("workspaces", workspace_id, "diff"), returns=DiffView, query=query, wait=60.0)


def context(workspace_id: str) -> ApiCall[ContextView]:
    return api_call("GET", api_path("workspaces", workspace_id, "context"), returns=ContextView)


def agents(workspace_id: str) -> ApiCall[PageView[AgentView]]:
    return api_call("GET", api_path("workspaces", workspace_id, "agents"), returns=PageView[AgentView])


def commands(workspace_id: str) -> ApiCall[PageView[PromptCommand]]:
    return api_call("GET", api_path("workspaces", workspace_id, "commands"), returns=PageView[PromptCommand])


def memory(workspace_id: str) -> ApiCall[MemoryView]:
    return api_call("GET", api_path("workspaces", workspace_id, "memory"), returns=MemoryView)


def remember(workspace_id: str, text: str, *, scope: str | None = None) -> ApiCall[MemoryView]:
    body = without_none(text=text, scope=scope)
    return api_call("POST", api_path("workspaces", workspace_id, "memory"), body, returns=MemoryView)


def forget(workspace_id: str, number: int, *, scope: str | None = None) -> ApiCall[MemoryView]:
    query = {"number": number, "scope": scope}
    return api_call("DELETE", api_path("workspaces", workspace_id, "memory"), {}, returns=MemoryView, query=query)


def clients(workspace_id: str) -> ApiCall[PageView[Client]]:
    """The clients that are attached to the workspace."""
    return api_call("GET", api_path("workspaces", workspace_id, "clients"), returns=PageView[Client])


def files(workspace_id: str, q: str, *, limit: int | None = None) -> ApiCall[FilesView]:
    query = {"q": q, "limit": limit}
    return api_call("GET", api_path("workspaces", workspace_id, "files"), returns=FilesView, query=query)


def mentions(workspace_id: str, q: str, *, limit: int | None = None) -> ApiCall[MentionsView]:
    query = {"q": q, "limit": limit}
    return api_call("GET", api_path("workspaces", workspace_id, "mentions"), returns=MentionsView, query=query)


def jobs(workspace_id: str, *, running: bool | None = None) -> ApiCall[PageView[Job]]:
    return api_call(
        "GET", api_path("workspaces", workspace_id, "jobs"), returns=PageView[Job], query={"running": running}
    )


def job(job_id: str) -> ApiCall[Job]:
    return api_call("GET", api_path("jobs", job_id), returns=Job)


def job_output(job_id: str, *, last: int | None = None) -> ApiCall[str]:
    """The output of a background job so far, or its last bytes."""
    return ApiCall("GET", with_query(api_path("jobs", job_id, "output"), {"last": last}), read_text)


def kill_job(job_id: str) -> ApiCall[Job]:
    return api_call("POST", api_path("jobs", job_id, "kill"), returns=Job)
