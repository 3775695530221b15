"""Sessions, workspaces, clients, background jobs, todos, changed files and search hits."""

from typing import Literal

from holdfast.schema.base import Value
from holdfast.schema.usage import Usage


class Session(Value, frozen=True):
    id: str
    workspace_id: str
    parent_id: str | None = None
    """The session whose run started this sub-agent's session."""
    forked_from: str | None = None
    title: str = ""
    archived: bool = False
    busy: bool = False
    queued: int = 0
    clients: int = 0
    usage: Usage = Usage()
    created_at: str = ""
    updated_at: str = ""
    agent: str | None = None
    """The agent of its next prompts; ``main``: none. Null: none was chosen, so that of the configuration is used."""


class Workspace(Value, frozen=True):
    id: str
    path: str
    """The resolved directory."""
    trusted: bool = False
    created_at: str = ""


class Client(Value, frozen=True):
    """An attached client, named as in its request header."""

    id: str
    name: str = ""
    session_id: str | None = None
    since: str = ""


JobState = Literal["running", "exited", "killed", "lost"]
"""``lost``: the server that owned the job crashed."""


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
    """Processes of the job that could not be killed."""


TodoStatus = Literal["pending", "in_progress", "completed"]


class Todo(Value, frozen=True):
    text: str
    status: TodoStatus = "pending"


class WorkspaceView(Workspace, frozen=True, kw_only=True):
    """A workspace with its counts, and the cursor they are true at (`E7`)."""

    open: bool = False
    busy_sessions: int = 0
    active_runs: int = 0
    unfinished_runs: int = 0
    running_jobs: int = 0
    pending_approvals: int = 0
    pending_questions: int = 0
    instructions: tuple[str, ...] = ()
    """The instruction files of the directory, which are sent to the model also before the directory is trusted."""
    ignored_instructions: tuple[str, ...] = ()
    """Instruction files that are not read, because they are links that leave the repository."""
    variables: tuple[str, ...] = ()
    """Variables that clients on the same machine send with prompts; ``*`` at the end stands for any rest."""
    cursor: str = ""


class FileChange(Value, frozen=True):
    """A file that the agent changed in a session: from before its first change to after its last."""

    path: str
    change: Literal["created", "modified", "deleted"]
    diff: str = ""
    """Empty if nothing can be shown, or if very many files changed."""
    state: Literal["applied", "undone", "changed_since"] = "applied"
    """``changed_since``: the file was changed after the agent."""
    by_command: bool = False
    """Whether it changed while a command ran. A person may have changed it, so undo needs a confirmation."""


class RunChanges(Value, frozen=True):
    """The files that one run changed, with its sub-agents."""

    run_id: str
    at: str = ""
    prompt: str = ""
    """The first line of its prompt."""
    files: tuple[FileChange, ...] = ()
    notes: tuple[str, ...] = ()
    """What undo does not cover: background jobs, and commands without a whole snapshot."""


class UndoFile(Value, frozen=True):
    """What an undo would do with one file."""

    path: str
    action: Literal["restore", "confirm", "settled", "skip"]
    """``confirm``: it changed while a command ran, and is restored only if its run is confirmed. ``settled``: it
    already has the old content. ``skip``: it is not touched."""
    why: str = ""


class UndoPreview(Value, frozen=True):
    """What an undo would do now, without confirmations."""

    runs: tuple[str, ...] = ()
    """The runs whose changes would be undone; send those that are confirmed as ``confirmed_runs``."""
    files: tuple[UndoFile, ...] = ()
    notes: tuple[str, ...] = ()
    """What undo does not cover."""


IdKind = Literal["session", "run", "message", "approval", "question", "job"]


class IdMatch(Value, frozen=True):
    """Something that has an id which begins with the text that was asked for."""

    kind: IdKind
    id: str


class SearchHit(Value, frozen=True):
    """A message that matches a search."""

    workspace_id: str
    session_id: str
    session_title: str = ""
    message_id: str = ""
    role: str = ""
    created_at: str = ""
    excerpt: str = ""
