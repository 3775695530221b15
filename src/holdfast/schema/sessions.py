"""Sessions, workspaces, clients and background jobs."""

from __future__ import annotations

from typing import Literal

from holdfast.schema.base import Value
from holdfast.schema.usage import Usage


class Session(Value, frozen=True):
    id: str
    workspace_id: str
    parent_id: str | None = None
    """The session whose run made this child session."""
    forked_from: str | None = None
    title: str = ""
    archived: bool = False
    busy: bool = False
    queued: int = 0
    clients: int = 0
    usage: Usage = Usage()
    created_at: str = ""
    updated_at: str = ""


class Workspace(Value, frozen=True):
    id: str
    path: str
    """The resolved directory."""
    trusted: bool = False
    created_at: str = ""


class Client(Value, frozen=True):
    """Who is attached: ``name/version id`` as the client called itself."""

    id: str
    name: str = ""
    session_id: str | None = None
    since: str = ""


JobState = Literal["running", "exited", "killed", "lost"]
"""``lost``: the server that owned it is gone."""


class Job(Value, frozen=True):
    id: str
    workspace_id: str
    session_id: str
    run_id: str
    command: str
    call_id: str | None = None
    state: JobState = "running"
    exit_code: int | None = None
    output_path: str = ""
    started_at: str = ""
    finished_at: str | None = None
    left_running: tuple[str, ...] = ()
    """Processes of it that would not die."""


TodoStatus = Literal["pending", "in_progress", "completed"]


class Todo(Value, frozen=True):
    text: str
    status: TodoStatus = "pending"


class WorkspaceView(Workspace, frozen=True, kw_only=True):
    """An open or known workspace as clients see it, and the cursor it is true at (`E7`)."""

    open: bool = False
    busy_sessions: int = 0
    active_runs: int = 0
    unfinished_runs: int = 0
    running_jobs: int = 0
    pending_approvals: int = 0
    pending_questions: int = 0
    cursor: str = ""


class FileChange(Value, frozen=True):
    """A file that the agent changed in a session, from before its first change to how it left it."""

    path: str
    change: Literal["created", "modified", "deleted"]
    diff: str = ""
    state: Literal["applied", "undone", "changed_since"] = "applied"
    """``changed_since``: it is not as the agent left it."""


class SearchHit(Value, frozen=True):
    """A message that a search found."""

    workspace_id: str
    session_id: str
    session_title: str = ""
    message_id: str = ""
    role: str = ""
    created_at: str = ""
    excerpt: str = ""
