"""What the face for Crush's clients remembers: their streams, and what they chose for a workspace.

Nothing of it decides about runs, and nothing needs to survive the server. A client that is gone takes nothing with it:
workspaces and runs belong to the server (`R10`).
"""

from __future__ import annotations

import re
from collections import OrderedDict
from typing import Any

from holdfast.errors import BadRequest, Conflict
from holdfast.services.event_service import AttachedStream
from holdfast.services.presence import Caller

_CLIENT_ID = re.compile(r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}")
_MAX_CLIENTS = 4096
"""Clients that are remembered after they left."""


class WorkspaceChoices:
    """What Crush's clients chose for a workspace. Crush keeps these in memory too, except the models."""

    def __init__(self, *, skips_permissions: bool) -> None:
        self.skips_permissions = skips_permissions
        self.environment: dict[str, str] = {}
        """The variables of the client that opened the workspace last, for commands."""
        self.large: str | None = None
        """The model that a client chose for this workspace only."""
        self.small: str | None = None
        self.options: dict[str, Any] = {}
        """Options of the client's own interface."""


class CrushClient:
    """A client of one workspace."""

    def __init__(self) -> None:
        self.streams: list[AttachedStream] = []
        self.cursor: str | None = None
        """Where its last stream ended."""


class CrushClients:
    """The clients and choices of all workspaces."""

    def __init__(self) -> None:
        self._clients: OrderedDict[tuple[str, str], CrushClient] = OrderedDict()
        self._retired: OrderedDict[str, None] = OrderedDict()
        self._choices: dict[str, WorkspaceChoices] = {}

    def choices(self, workspace_id: str, *, skips_permissions: bool = False) -> WorkspaceChoices:
        """The choices for a workspace. The first client decides whether permissions are skipped."""
        if workspace_id not in self._choices:
            self._choices[workspace_id] = WorkspaceChoices(skips_permissions=skips_permissions)
        return self._choices[workspace_id]

    def is_known(self, workspace_id: str, client_id: str) -> bool:
        """Whether this server has seen the client. One that it has not seen was attached to an earlier server."""
        return (workspace_id, client_id) in self._clients

    def add(self, workspace_id: str, client_id: str) -> CrushClient:
        """The client of a workspace. Raises `Conflict` if it said that it is leaving."""
        if client_id in self._retired:
            raise Conflict(f"client {client_id} has left; start a new one")
        key = workspace_id, client_id
        client = self._clients.setdefault(key, CrushClient())
        self._clients.move_to_end(key)
        if len(self._clients) > _MAX_CLIENTS:
            self._forget_oldest()
        return client

    def attached(self, workspace_id: str, client_id: str) -> CrushClient:
        """A client that has a stream. Raises `Conflict` if it has none."""
        client = self._clients.get((workspace_id, client_id))
        if client is None or not client.streams:
            raise Conflict(f"client {client_id} is not attached to this workspace; subscribe to its events first")
        return client

    def release(self, workspace_id: str, client_id: str) -> None:
        """Forget a client of a workspace, unless it has a stream."""
        client = self._clients.get((workspace_id, client_id))
        if client is not None and not client.streams:
            del self._clients[workspace_id, client_id]

    def retire(self, client_id: str) -> None:
        """Forget a client everywhere. It cannot come back."""
        for workspace_id, known in list(self._clients):
            if known == client_id:
                self.release(workspace_id, client_id)
        self._retired[client_id] = None
        if len(self._retired) > _MAX_CLIENTS:
            self._retired.popitem(last=False)

    def _forget_oldest(self) -> None:
        for key, client in self._clients.items():
            if not client.streams:
                del self._clients[key]
                return


def checked_client_id(client_id: str) -> str:
    """Return the id if it is a UUID, as Crush's clients choose it."""
    if _CLIENT_ID.fullmatch(client_id) is None:
        raise BadRequest(f"client_id must be a UUID, got {client_id[:80]!r}", detail={"field": "client_id"})
    return client_id


def caller_of(client_id: str) -> Caller:
    """How other clients see a client of Crush."""
    return Caller("crush", client_id)
