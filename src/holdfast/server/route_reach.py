"""Which routes a person with limited workspaces may use, and how each route is limited (`W14`).

A route whose path names something of a workspace is limited to the workspaces of the person: for anything else it
answers as for an unknown id. Of the other routes, only those listed here are allowed. All others concern the whole
server, so a new route is refused until it is listed.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from typing import Any, Final

from holdfast.errors import Forbidden, NotFound
from holdfast.server.http.request_access import RequestAccess
from holdfast.services import Services
from holdfast.services.workspace_reach import WorkspaceReach
from holdfast.store import OwnedKind

_OWNED: Final[dict[str, OwnedKind]] = {
    "session_id": "session",
    "run_id": "run",
    "approval_id": "approval",
    "question_id": "question",
    "job_id": "job",
    "call_id": "call",
}
"""Path parameters that are ids of something that belongs to a workspace."""
_PLACED = tuple(f"{{{name}}}" for name in (*_OWNED, "workspace_id", "client_call_id"))

_NAMED_SESSIONS = ("session", "viewing", "parent")
"""Query parameters that are ids of sessions. ``workspace`` is the id of a workspace."""

_WITHOUT_WORKSPACE: Final = frozenset(
    {
        "GET /v1/health",
        "GET /v1/openapi.json",
        "GET /v1/config/schema",
        "GET /v1/server",  # numbers only
        "GET /v1/server/sandbox",
        "POST /v1/pairing",
        "GET /v1/device",
        "DELETE /v1/device",
    }
)
"""What is the same for everybody, or about the sender."""

_FILTERED: Final = frozenset(
    {
        "GET /v1/events",
        "GET /v1/workspaces",
        "POST /v1/workspaces",
        "GET /v1/ids",
        "GET /v1/search",
        "GET /v1/models",
    }
)
"""Routes that return or take only what belongs to the workspaces of the person."""

_WHOLE_SERVER: Final = frozenset(
    {
        "PATCH /v1/workspaces/{workspace_id}/config",  # the settings are the user's
        "POST /v1/workspaces/{workspace_id}/mcp/{name}/login",  # so are the logins
        "POST /v1/workspaces/{workspace_id}/mcp/{name}/login/answer",
        "DELETE /v1/workspaces/{workspace_id}/mcp/{name}/login",
    }
)
"""Routes with an effect beyond the workspace that they name."""


def concerns_whole_server(method: str, path: str) -> bool:
    """Whether a route needs a sender who may use all workspaces."""
    route = f"{method} {path}"
    if route in _WHOLE_SERVER:
        return True
    if route in _WITHOUT_WORKSPACE or route in _FILTERED:
        return False
    return not any(parameter in path for parameter in _PLACED)


class RouteReach:
    """Limits one route to the workspaces of a person."""

    def __init__(self, method: str, path: str) -> None:
        self._whole_server = concerns_whole_server(method, path)

    async def limit(
        self, access: RequestAccess, services: Services, *, path: Mapping[str, str], query: Any, body: Any
    ) -> WorkspaceReach | None:
        """Raise unless everything that the request names is in the person's workspaces. ``None``: all of them are."""
        directories = access.directories
        if directories is None:
            return None
        if self._whole_server:
            access.require_all_workspaces()
        reach = await services.reach(directories)
        for name, value in path.items():
            if name == "workspace_id":
                await reach.require_workspace(value)
            elif name == "client_call_id":
                if not reach.includes(services.client_tools.workspace_of(value)):
                    raise NotFound(f"there is no call {value!r}", code="call_not_found")
            elif name in _OWNED:
                await reach.require(_OWNED[name], value)
        await _limit_query(reach, query)
        if (directory := getattr(body, "path", None)) is not None:
            await asyncio.to_thread(_require_directory, reach, directory)
        if getattr(body, "scope", None) == "user" or getattr(query, "scope", None) == "user":
            access.require_all_workspaces()  # what the user's agents remember everywhere
        return reach


async def _limit_query(reach: WorkspaceReach, query: Any) -> None:
    if (workspace_id := getattr(query, "workspace", None)) is not None:
        await reach.require_workspace(workspace_id)
    for name in _NAMED_SESSIONS:
        if (session_id := getattr(query, name, None)) is not None:
            await reach.require("session", session_id)


def _require_directory(reach: WorkspaceReach, path: str) -> None:
    """The answer is the same whether the directory exists or not. Blocks."""
    if "\0" in path or not reach.includes_path(os.path.realpath(path)):
        raise Forbidden(f"you may not work in {path!r}; an admin can change that", code="workspace_forbidden")
