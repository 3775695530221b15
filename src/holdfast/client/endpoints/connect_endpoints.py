"""The first calls of every client: whether the server is there, the directory, and the event stream."""

from __future__ import annotations

from holdfast.client.api_call import ApiCall, api_call, api_path, with_query
from holdfast.schema.api.server_views import Health
from holdfast.schema.sessions import WorkspaceView


def health() -> ApiCall[Health]:
    return api_call("GET", api_path("health"), returns=Health)


def open_workspace(directory: str) -> ApiCall[WorkspaceView]:
    return api_call("POST", api_path("workspaces"), {"path": directory}, returns=WorkspaceView)


def events_target(*, workspace_id: str | None = None, session_id: str | None = None, viewing: str | None = None) -> str:
    """The event stream of one workspace or of all of them. The cursor is sent as a header."""
    base = api_path("events") if workspace_id is None else api_path("workspaces", workspace_id, "events")
    return with_query(base, {"session": session_id, "viewing": viewing})
