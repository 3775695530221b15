"""What is answered, where it is more than a word of the system."""

from __future__ import annotations

from typing import Any, Generic, Literal, TypeVar

from msgspec.structs import replace

from holdfast.schema.base import Value
from holdfast.schema.messages import Message, public_parts
from holdfast.schema.runs import Queue, Run
from holdfast.schema.sessions import Client, Session, Todo
from holdfast.store import Page, ToolRow, UsageRow

T = TypeVar("T")


class Health(Value, frozen=True):
    version: str
    build: str
    status: Literal["ok", "stopping"] = "ok"


class ServerView(Value, frozen=True, kw_only=True):
    version: str
    build: str
    pid: int
    uptime: float
    """Seconds."""
    stopping: bool
    workspaces: int
    """Open ones."""
    clients: int
    streams: int
    active_runs: int
    queued_runs: int


class StopView(Value, frozen=True):
    stopping: bool = True


class Listed(Value, Generic[T], frozen=True):
    """A list, or a page of one, and the cursor it is true at (`E7`)."""

    items: tuple[T, ...]
    cursor: str
    next: str | None = None
    """Give it as ``after`` or ``before`` for the rest in the same direction; ``null`` at the end."""


class SessionView(Session, frozen=True, kw_only=True):
    """A session with what a client that joins needs first."""

    cursor: str
    queue: Queue
    todos: tuple[Todo, ...] = ()
    attached: tuple[Client, ...] = ()
    """Who looks at it now (`W7`)."""


class Export(Value, frozen=True):
    session: Session
    runs: tuple[Run, ...]
    messages: tuple[Message, ...]


class ProviderView(Value, frozen=True, kw_only=True):
    id: str
    name: str
    wire: str
    active: bool
    local: bool
    missing: str = ""
    """What to do before it can be used."""
    missing_variables: tuple[str, ...] = ()
    """Environment variables of which one would supply what is missing."""
    key: str = ""
    """Where its key comes from; never the key."""


class ModelView(Value, frozen=True, kw_only=True):
    name: str
    """``provider/model``."""
    title: str
    provider: str
    context_window: int = 0
    max_output: int = 0
    images: bool = False
    reasoning: tuple[str, ...] = ()
    local: bool = False


class ModelsView(Value, frozen=True):
    providers: tuple[ProviderView, ...]
    models: tuple[ModelView, ...]
    large: str | None = None
    """What a run uses that names no model."""
    small: str | None = None


class ConfigView(Value, frozen=True, kw_only=True):
    values: dict[str, Any]
    """Every setting in effect; secrets hidden."""
    origins: dict[str, str]
    """By dotted key: which layer said it."""
    files: tuple[str, ...] = ()
    untrusted: tuple[str, ...] = ()
    """Project files that are not read before their directory is trusted."""
    warnings: tuple[str, ...] = ()


class KeyView(Value, frozen=True):
    provider: str
    stored: bool


class FilesView(Value, frozen=True):
    items: tuple[str, ...]


class StatsView(Value, frozen=True):
    since: str
    until: str
    models: tuple[UsageRow, ...]
    tools: tuple[ToolRow, ...]


def listed(page: Page[T], *, cursor: str) -> Listed[T]:
    return Listed(page.items, cursor, None if page.next is None else str(page.next))


def public(message: Message) -> Message:
    """As clients may see it."""
    return replace(message, parts=public_parts(message.parts))
