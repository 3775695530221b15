"""What servers answer, beyond the words of the system. Everything has a default: other versions say less or more."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from holdfast.schema.base import Value
from holdfast.schema.messages import Message
from holdfast.schema.runs import Queue, Run
from holdfast.schema.sessions import Client, Session, Todo
from holdfast.schema.usage import Usage

T = TypeVar("T")


class Health(Value, frozen=True):
    status: str
    version: str
    build: str = ""
    """Names the code that runs, where one version has many builds; empty if the server does not say."""


class ServerInfo(Value, frozen=True):
    version: str
    build: str = ""
    pid: int = 0
    uptime: float = 0.0
    stopping: bool = False
    workspaces: int = 0
    clients: int = 0
    streams: int = 0
    active_runs: int = 0
    queued_runs: int = 0


class BackupView(Value, frozen=True):
    path: str
    size: int = 0
    """Bytes."""


class Page(Value, Generic[T], frozen=True):
    """Part of a list, and the cursor it is true at (`E7`)."""

    items: tuple[T, ...] = ()
    next: str | None = None
    """Give it as ``after`` or ``before`` for the rest in the same direction; ``None`` at the end."""
    cursor: str | None = None


class SessionView(Session, frozen=True, kw_only=True):
    """A session with what a client that joins needs first."""

    cursor: str | None = None
    queue: Queue | None = None
    todos: tuple[Todo, ...] = ()
    attached: tuple[Client, ...] = ()
    """Who looks at it now."""


class Export(Value, frozen=True):
    session: Session
    runs: tuple[Run, ...] = ()
    messages: tuple[Message, ...] = ()


class GrantView(Value, frozen=True):
    """A remembered approval: for a session, or for the workspace."""

    id: str
    rule: str
    session_id: str | None = None
    created_at: str = ""
    created_by: str = ""


class FilesView(Value, frozen=True):
    items: tuple[str, ...] = ()


class HitView(Value, frozen=True):
    """A message that a search found."""

    workspace_id: str
    session_id: str
    message_id: str
    session_title: str = ""
    role: str = ""
    created_at: str = ""
    excerpt: str = ""


class ProviderView(Value, frozen=True):
    id: str
    name: str = ""
    wire: str = ""
    active: bool = False
    local: bool = False
    missing: str = ""
    """What to do before it can be used."""
    missing_variables: tuple[str, ...] = ()
    """Environment variables of which one would supply what is missing."""
    key: str = ""
    """Where its key comes from; never the key."""


class ModelView(Value, frozen=True):
    name: str
    """``provider/model``."""
    title: str = ""
    provider: str = ""
    context_window: int = 0
    max_output: int = 0
    images: bool = False
    reasoning: tuple[str, ...] = ()
    local: bool = False


class ModelsView(Value, frozen=True):
    providers: tuple[ProviderView, ...] = ()
    models: tuple[ModelView, ...] = ()
    large: str | None = None
    """What a run uses that names no model."""
    small: str | None = None


class ConfigView(Value, frozen=True):
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    """By dotted key: which layer said it."""
    files: tuple[str, ...] = ()
    untrusted: tuple[str, ...] = ()
    """Project files that are not read before their directory is trusted."""
    warnings: tuple[str, ...] = ()


class KeyView(Value, frozen=True):
    provider: str
    stored: bool = False


class ProviderTestView(Value, frozen=True):
    """Whether a provider answers with its key."""

    provider: str
    ok: bool
    model: str = ""
    seconds: float = 0.0
    code: str = ""
    message: str = ""


class UsageRow(Value, frozen=True):
    day: str
    model: str
    usage: Usage = Usage()
    runs: int = 0
    steps: int = 0


class ToolRow(Value, frozen=True):
    day: str
    tool: str
    calls: int = 0
    failed: int = 0


class StatsView(Value, frozen=True):
    since: str = ""
    until: str = ""
    models: tuple[UsageRow, ...] = ()
    tools: tuple[ToolRow, ...] = ()
