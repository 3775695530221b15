"""What the routes work with: the parts that the composition root gives, and the server's own."""

from __future__ import annotations

import time
from collections.abc import Callable

from holdfast import __version__
from holdfast.approvals.pending import Approvals
from holdfast.config import Redactor
from holdfast.events import Hub
from holdfast.ids import Clock, Ids, rfc3339
from holdfast.runs import Engine
from holdfast.schema.base import Word, encode
from holdfast.server.clients import Presence
from holdfast.server.idempotency import Answers
from holdfast.server.life import Life
from holdfast.store import Store
from holdfast.workspace.configuring import Configuring
from holdfast.workspace.sessions import SessionDesk
from holdfast.workspace.workspaces import Workspaces


class ServerLimits(Word, frozen=True, kw_only=True):
    streams: int = 256
    head_bytes: int = 64 * 1024
    head_seconds: float = 10.0
    """How long a request's head may take to arrive."""
    body_seconds: float = 120.0
    keep_alive_seconds: int = 120
    stop_seconds: float = 2.0
    """What answers that are still being sent get when everything else has stopped."""


class Parts:
    """Of one server."""

    def __init__(
        self,
        *,
        store: Store,
        hub: Hub,
        engine: Engine,
        approvals: Approvals,
        workspaces: Workspaces,
        sessions: SessionDesk,
        configuring: Configuring,
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
        self.life = Life()
        self.presence = Presence(hub, new_id=lambda: self.ids.new("cli"))
        self.answers = Answers(store, now=self.now)
        self._description: bytes | None = None

    def now(self) -> str:
        return rfc3339(self.clock())

    def description(self) -> bytes:
        """OpenAPI, made when it is first asked for."""
        if self._description is None:
            from holdfast.server.app import ENDPOINTS
            from holdfast.server.openapi import describe

            self._description = encode(describe(ENDPOINTS, version=self.version))
        return self._description

    def redact(self, body: bytes) -> bytes:
        """Without any secret that is known by now (`W8`)."""
        redactor = self.redactor()
        return redactor.redact_bytes(body) if redactor else body
