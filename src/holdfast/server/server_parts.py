"""What the routes work with: the parts that the composition root gives, and the server's own."""

from __future__ import annotations

import time
from collections.abc import Callable

from holdfast import __version__
from holdfast.approvals.pending_approvals import PendingApprovals
from holdfast.config import Redactor
from holdfast.events import Hub
from holdfast.ids import Clock, Ids, rfc3339
from holdfast.runs import Engine
from holdfast.schema.base import Value, encode
from holdfast.server.http.idempotency import Answers
from holdfast.server.presence import Presence
from holdfast.server.server_state import ServerState
from holdfast.services.session_service import SessionService
from holdfast.services.setting_service import SettingService
from holdfast.services.workspace_service import WorkspaceService
from holdfast.store import Store


class ServerLimits(Value, frozen=True, kw_only=True):
    streams: int = 256
    head_bytes: int = 64 * 1024
    head_seconds: float = 10.0
    """How long a request's head may take to arrive."""
    body_seconds: float = 120.0
    keep_alive_seconds: int = 120
    stop_seconds: float = 2.0
    """What answers that are still being sent get when everything else has stopped."""


class ServerParts:
    """Of one server."""

    def __init__(
        self,
        *,
        store: Store,
        hub: Hub,
        engine: Engine,
        approvals: PendingApprovals,
        workspaces: WorkspaceService,
        sessions: SessionService,
        configuring: SettingService,
        redactor: Callable[[], Redactor] = Redactor,
        clock: Clock = time.time,
        ids: Ids | None = None,
        build: str = "",
        limits: ServerLimits | None = None,
    ) -> None:
        self.store = store
        self.hub = hub
        self.engine = engine
        self.approvals = approvals
        self.workspaces = workspaces
        self.sessions = sessions
        self.configuring = configuring
        self.redactor = redactor
        self.clock = clock
        self.ids = ids or Ids(clock=clock)
        self.version = __version__
        self.build = build
        self.limits = limits or ServerLimits()
        self.life = ServerState()
        self.presence = Presence(hub, new_id=lambda: self.ids.new("cli"))
        self.answers = Answers(store, now=self.now)
        self._description: bytes | None = None

    def now(self) -> str:
        return rfc3339(self.clock())

    def description(self) -> bytes:
        """OpenAPI, made when it is first asked for."""
        if self._description is None:
            from holdfast.server.http.application import ENDPOINTS
            from holdfast.server.http.openapi import describe

            self._description = encode(describe(ENDPOINTS, version=self.version))
        return self._description

    def redact(self, body: bytes) -> bytes:
        """Without any secret that is known by now (`W8`)."""
        redactor = self.redactor()
        return redactor.redact_bytes(body) if redactor else body
