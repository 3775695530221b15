"""What servers answer, beyond the words of the system. Everything has a default: other versions say less or more."""

from __future__ import annotations

from typing import Generic, TypeVar

from holdfast.schema.base import Word
from holdfast.schema.sessions import Session

T = TypeVar("T")


class Health(Word, frozen=True):
    status: str
    version: str
    build: str = ""
    """Names the code that runs, where one version has many builds; empty if the server does not say."""


class ServerInfo(Word, frozen=True):
    version: str
    build: str = ""
    pid: int = 0
    uptime: float = 0.0
    workspaces: int = 0
    clients: int = 0
    active_runs: int = 0
    queued_runs: int = 0


class Page(Word, Generic[T], frozen=True):
    """Part of a list, and the cursor it is true at (`E7`)."""

    items: tuple[T, ...] = ()
    next: str | int | None = None
    """Give it as ``after`` or ``before`` for the rest in the same direction; ``None`` at the end."""
    cursor: str | None = None


class SessionView(Session, frozen=True, kw_only=True):
    cursor: str | None = None
