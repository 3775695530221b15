"""The server itself: health, status, stop, backup, statistics."""

from __future__ import annotations

from holdfast.errors import BadRequest, Conflict
from holdfast.schema.api.request_bodies import BackupBody, IdsQuery, NoParameters, StatsQuery, StopServerBody
from holdfast.schema.api.response_bodies import (
    BackupView,
    CleanupView,
    PageView,
    SandboxView,
    ServerView,
    StatsView,
    StopView,
)
from holdfast.schema.api.server_views import Health
from holdfast.schema.sessions import IdMatch
from holdfast.server.http.endpoint import ApiRequest, Endpoint


async def health(request: ApiRequest[None, NoParameters]) -> Health:
    """Check whether the server is up. Needs no token."""
    return request.services.server.health()


async def server(request: ApiRequest[None, NoParameters]) -> ServerView:
    """Get the version of the server and what it is doing."""
    return request.services.server.view()


async def sandbox(request: ApiRequest[None, NoParameters]) -> SandboxView:
    """Find out what confines the agent's commands on this machine."""
    return await request.services.server.sandbox()


async def stop(request: ApiRequest[StopServerBody, NoParameters]) -> StopView:
    """Stop the server: active runs end `interrupted`, queues are kept. With `if_idle`, only if nothing is active."""
    request.services.server.stop(if_idle=request.body.if_idle, own_requests=1)
    return StopView()


async def backup(request: ApiRequest[BackupBody, NoParameters]) -> BackupView:
    """Copy the database consistently while the server works."""
    return await request.services.server.backup(request.body.path)


async def clean_up(request: ApiRequest[None, NoParameters]) -> CleanupView:
    """Remove old events, file contents and outputs now, and give free space back to the disk."""
    return await request.services.server.clean_up()


async def stats(request: ApiRequest[None, StatsQuery]) -> StatsView:
    """Get usage by day and model, and calls by day and tool; by default of the last 30 days."""
    return await request.services.server.stats(since=request.query.since, until=request.query.until)


async def find_ids(request: ApiRequest[None, IdsQuery]) -> PageView[IdMatch]:
    """Find ids that begin with a text, so that people need not type whole ids. An exact id is the only match."""
    query = request.query
    return await request.services.server.find_ids(
        query.prefix, kinds=query.kind, limit=query.limit, reach=request.reach
    )


ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint("GET", "/v1/health", health, response=Health, public=True),
    Endpoint("GET", "/v1/server", server, response=ServerView),
    Endpoint("GET", "/v1/server/sandbox", sandbox, response=SandboxView),
    Endpoint(
        "POST",
        "/v1/server/stop",
        stop,
        body=StopServerBody,
        response=StopView,
        status=202,
        errors=(Conflict,),
        stores_answer=False,  # a database that cannot be read does not keep the server from stopping
    ),
    Endpoint("POST", "/v1/server/backup", backup, body=BackupBody, response=BackupView, errors=(BadRequest,)),
    Endpoint("POST", "/v1/server/clean-up", clean_up, response=CleanupView),
    Endpoint("GET", "/v1/ids", find_ids, query=IdsQuery, response=PageView[IdMatch]),
    Endpoint("GET", "/v1/stats", stats, query=StatsQuery, response=StatsView),
)
