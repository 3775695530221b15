"""The server itself, and what concerns all workspaces: ids, search, usage."""

from __future__ import annotations

from holdfast.client.api_call import ApiCall, api_call, api_path, read_text
from holdfast.schema.api.response_bodies import (
    BackupView,
    CleanupView,
    PageView,
    SandboxView,
    ServerView,
    StatsView,
)
from holdfast.schema.api.server_views import FleetView
from holdfast.schema.sessions import IdKind, IdMatch, SearchHit


def server() -> ApiCall[ServerView]:
    return api_call("GET", api_path("server"), returns=ServerView)


def sandbox() -> ApiCall[SandboxView]:
    return api_call("GET", api_path("server", "sandbox"), returns=SandboxView)


def stop_server(*, if_idle: bool) -> ApiCall[None]:
    return api_call("POST", api_path("server", "stop"), {"if_idle": if_idle}, returns=type(None))


def backup(target: str) -> ApiCall[BackupView]:
    """Copy the database to a file that does not exist yet. The server keeps running."""
    return api_call("POST", api_path("server", "backup"), {"path": target}, returns=BackupView, wait=600.0)


def clean_up() -> ApiCall[CleanupView]:
    """Remove what has been kept long enough, and give free space back to the disk."""
    return api_call("POST", api_path("server", "clean-up"), returns=CleanupView, wait=600.0)


def find_ids(prefix: str, *, kind: IdKind | None = None) -> ApiCall[PageView[IdMatch]]:
    """Ids that begin with ``prefix``; an exact id is the only match."""
    return api_call("GET", api_path("ids"), returns=PageView[IdMatch], query={"prefix": prefix, "kind": kind})


def search(q: str, *, workspace_id: str | None = None, limit: int | None = None) -> ApiCall[PageView[SearchHit]]:
    query = {"q": q, "workspace": workspace_id, "limit": limit}
    return api_call("GET", api_path("search"), returns=PageView[SearchHit], query=query)


def fleet() -> ApiCall[FleetView]:
    return api_call("GET", api_path("fleet"), returns=FleetView)


def stats(*, since: str | None = None, until: str | None = None) -> ApiCall[StatsView]:
    return api_call("GET", api_path("stats"), returns=StatsView, query={"since": since, "until": until})


def metrics() -> ApiCall[str]:
    """Counters and latencies of the server, as OpenMetrics text."""
    return ApiCall("GET", "/metrics", read_text)
