"""What the HTTP server is given: the services, the secrets to redact, and its limits."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from holdfast.config import Redactor
from holdfast.schema.base import Value

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

    from holdfast.services import Services
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


class ServerParts(msgspec.Struct, frozen=True, kw_only=True):
    services: Services
    redactor: Callable[[], Redactor]
    """The redactor of all secrets known by now."""
    limits: ServerLimits = ServerLimits()
    find_tool_peers: Callable[[], ToolPeers | None] = lambda: None
    """What recognises connections of the agent's own commands, which are refused; None while there are none."""

    static_files: Traversable | None = None
    """The files of the web page; by default those of the package."""

    def redact(self, body: bytes) -> bytes:
        """Remove every known secret (`W8`)."""
        redactor = self.redactor()
        return redactor.redact_bytes(body) if redactor else body
