"""Response bodies that are not values of `schema` themselves.

The server sends every field. The defaults are for clients: other versions of the server may send fewer fields.
"""

from __future__ import annotations

from typing import Any, Generic, Literal, TypeVar

from holdfast.schema.base import Value
from holdfast.schema.commands import OfferedMention
from holdfast.schema.devices import AccessScope, Device
from holdfast.schema.messages import Message
from holdfast.schema.runs import Queue, Run
from holdfast.schema.sessions import Client, FileChange, RunChanges, Session, Todo
from holdfast.schema.usage import ToolRow, UsageRow

T = TypeVar("T")


class ErrorDetail(Value, frozen=True):
    code: str
    """Stable; programs decide by it."""
    message: str
    """For people."""
    detail: dict[str, Any] = {}


class ErrorBody(Value, frozen=True):
    """The body of every response with an error status."""

    error: ErrorDetail


class ServerView(Value, frozen=True, kw_only=True):
    version: str
    build: str = ""
    pid: int = 0
    uptime: float = 0.0
    """Seconds."""
    stopping: bool = False
    workspaces: int = 0
    """Number of open workspaces."""
    clients: int = 0
    streams: int = 0
    active_runs: int = 0
    queued_runs: int = 0


class SandboxView(Value, frozen=True, kw_only=True):
    """What can confine the agent's commands on this machine. The setting `server.sandbox` says whether it does."""

    backend: Literal["namespace", "bubblewrap", "landlock"] | None = None
    """What is used; ``null`` if nothing works."""
    namespace: str = ""
    """Why namespaces of their own do not work; empty if they work."""
    bubblewrap: str = ""
    """Why bubblewrap does not work; empty if it works."""
    landlock: str = ""
    """Why Landlock does not work; empty if it works."""
    not_covered: tuple[str, ...] = ()
    """What the backend does not prevent."""


class StopView(Value, frozen=True):
    stopping: bool = True


class CleanupView(Value, frozen=True):
    """What was removed, and the space before and after in bytes."""

    events: int = 0
    contents: int = 0
    """Contents of files that no session refers to any more."""
    outputs: int = 0
    """Whole outputs of old calls. Their beginning and end stay in the session."""
    audit: int = 0
    """Entries of the audit."""
    database_before: int = 0
    database_after: int = 0
    files_before: int = 0
    files_after: int = 0


class BackupView(Value, frozen=True):
    path: str
    size: int = 0
    """Bytes."""


class PageView(Value, Generic[T], frozen=True):
    """A list, or a page of one, and the cursor it is true at (`E7`)."""

    items: tuple[T, ...] = ()
    cursor: str = ""
    next: str | None = None
    """Send it as ``after`` or ``before`` to continue in the same direction; ``null`` at the end."""


class SessionView(Session, frozen=True, kw_only=True):
    """A session with what a client needs when it joins."""

    cursor: str = ""
    queue: Queue = Queue("")
    todos: tuple[Todo, ...] = ()
    attached: tuple[Client, ...] = ()
    """The clients that view the session now (`W7`)."""


class ChangesView(Value, frozen=True):
    """The file changes of a session."""

    items: tuple[FileChange, ...] = ()
    """One per file: from before its first change to after its last."""
    cursor: str = ""
    runs: tuple[RunChanges, ...] = ()
    """The same by run, oldest first."""


class SessionExport(Value, frozen=True):
    session: Session
    runs: tuple[Run, ...] = ()
    messages: tuple[Message, ...] = ()


class FilesView(Value, frozen=True):
    items: tuple[str, ...] = ()


class MentionsView(Value, frozen=True):
    items: tuple[OfferedMention, ...] = ()


class MemoryEntry(Value, frozen=True):
    """Something that the user asked to remember."""

    scope: Literal["project", "user"]
    number: int
    """Its place in its scope, from 1."""
    text: str


class MemoryView(Value, frozen=True):
    items: tuple[MemoryEntry, ...] = ()
    project_file: str = ""
    user_file: str = ""


ContextKind = Literal["prompt", "surroundings", "instructions", "skills", "agents", "mcp", "tools"]


class ContextPart(Value, frozen=True):
    """A part of what is sent before the first prompt of a session."""

    name: str
    """``system prompt``, ``tools``, ``skills``, ``agents``, or the path of an instruction file."""
    kind: ContextKind
    characters: int
    tokens: int
    """Estimated."""
    cut: int = 0
    """Characters of an instruction file that do not fit and are not sent."""


class ContextView(Value, frozen=True):
    """What the context of a new session consists of."""

    parts: tuple[ContextPart, ...] = ()
    instruction_limit: int = 0
    """Characters of all instruction files together."""
    ignored: tuple[str, ...] = ()
    """Instruction files that are not read, because they are links out of the repository."""


class RepositoryView(Value, frozen=True):
    """The git repository of a directory."""

    branch: str | None = None
    """Null if the directory is in no repository."""
    changed_files: int | None = None
    """How many files differ from the last commit. Null if it is not known: only trusted directories are looked at."""


class LogView(Value, frozen=True):
    """The last lines of the log of an extension."""

    name: str
    text: str = ""


class DiffView(Value, frozen=True):
    """Changes of the repository."""

    title: str
    """What was compared."""
    text: str = ""
    """Empty if there are no changes."""


class ProviderView(Value, frozen=True, kw_only=True):
    id: str
    name: str = ""
    wire: str = ""
    active: bool = False
    local: bool = False
    missing: str = ""
    """What must be done before the provider can be used; empty if nothing."""
    missing_variables: tuple[str, ...] = ()
    """Environment variables; setting one of them supplies what is missing."""
    key: str = ""
    """Where the key comes from; never the key itself."""


class ModelView(Value, frozen=True, kw_only=True):
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
    """The default model of runs."""
    small: str | None = None


class ConfigView(Value, frozen=True, kw_only=True):
    values: dict[str, Any] = {}
    """All settings in effect, with secrets hidden."""
    origins: dict[str, str] = {}
    """The layer that set each value, by dotted key."""
    files: tuple[str, ...] = ()
    untrusted: tuple[str, ...] = ()
    """Project files that are ignored until their directory is trusted."""
    warnings: tuple[str, ...] = ()
    policy_file: str = ""
    """The managed policy, if there is one."""
    policy: tuple[str, ...] = ()
    """What the managed policy restricts, a line each."""


class KeyView(Value, frozen=True):
    provider: str
    stored: bool = False


class ProviderTestView(Value, frozen=True):
    """Whether a provider answers with its key."""

    provider: str
    model: str = ""
    ok: bool = False
    seconds: float = 0.0
    code: str = ""
    message: str = ""


class StatsView(Value, frozen=True):
    since: str = ""
    until: str = ""
    models: tuple[UsageRow, ...] = ()
    tools: tuple[ToolRow, ...] = ()


class PairingView(Value, frozen=True):
    device: Device
    page_key: str | None = None
    """Only when a device is paired: the page sends it as ``X-Holdfast-Page`` beside the cookie."""


class PairingCodeView(Value, frozen=True):
    code: str
    """Can be used once. It belongs into the fragment of an address, which is not sent to servers and not logged."""
    scope: AccessScope = "watch"
    expires_at: str = ""


class WebListenerView(Value, frozen=True):
    """An address at which the server serves its web page."""

    address: str
    shared: bool = False
    """Whether other machines can reach it."""
    fingerprint: str = ""
    """SHA-256 of the certificate."""
    names: tuple[str, ...] = ()
    """Names by which the server may be called besides its addresses."""


class WebView(Value, frozen=True):
    listeners: tuple[WebListenerView, ...] = ()
