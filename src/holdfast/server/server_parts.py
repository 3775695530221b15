"""What the HTTP server is given: the services, the secrets to redact, and its limits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol

import msgspec

from holdfast.config import Redactor
from holdfast.schema.base import Value

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

    from holdfast.server.http.request_access import RequestAccess
    from holdfast.server.http.responses import AsgiApp
    from holdfast.services import Services
    from holdfast.services.event_service import AttachedStream, EventSource
    from holdfast.tools.process.tool_peers import ToolPeers


class ServerLimits(Value, frozen=True, kw_only=True):
    """Limits of a connection. Seconds are how long it may take."""

    head_bytes: int = 64 * 1024
    head_seconds: float = 10.0
    """To receive the head of a request."""
    body_seconds: float = 120.0
    """To receive the body of a request."""
    keep_alive_seconds: int = 120
    unread_seconds: float = 60.0
    """For a client that does not read; then its connection is closed. It can continue its stream with a new one."""
    socket_check_seconds: float = 2.0
    """Between two looks whether the Unix socket is still there."""
    stop_seconds: float = 2.0
    """To finish responses when everything else has stopped."""


class EventRelay(Protocol):
    def add(
        self,
        stream: AttachedStream,
        *,
        workspace_id: str | None,
        session_id: str | None,
        target: str,
        headers: Mapping[bytes, bytes],
        access: RequestAccess,
    ) -> EventSource:
        """Return the stream with the live events of other servers."""
        ...


class ServerParts(msgspec.Struct, frozen=True, kw_only=True):
    services: Services
    redactor: Callable[[], Redactor]
    """The redactor of all secrets known by now."""
    limits: ServerLimits = ServerLimits()
    find_tool_peers: Callable[[], ToolPeers | None] = lambda: None
    """What recognises connections of the agent's own commands, which are refused; None while there are none."""

    around_routes: Callable[[AsgiApp], AsgiApp] | None = None
    """Makes an application around the routes; in a fleet it sends requests to the server that owns their workspace."""
    peer_access: Callable[[Mapping[bytes, bytes]], RequestAccess | None] | None = None
    """In a fleet: what the sender of a request may do that another server forwarded; ``None`` for other requests."""
    relay: EventRelay | None = None
    """In a fleet: adds the live events of other servers to a stream."""

    static_files: Traversable | None = None
    """The files of the web page; by default those of the package."""

    def redact(self, body: bytes) -> bytes:
        """Remove every known secret (`W8`)."""
        redactor = self.redactor()
        return redactor.redact_bytes(body) if redactor else body
