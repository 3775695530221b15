"""The server itself: whether it is up, what it does, stopping it, how it is to be spoken to."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

from holdfast.errors import BadRequest, Conflict
from holdfast.schema.api.request_bodies import BackupBody, NoParameters, StopServerBody
from holdfast.schema.api.response_bodies import BackupView, Health, ServerView, StopView
from holdfast.server.http.endpoint import Call, Endpoint
from holdfast.server.http.responses import Raw


async def health(call: Call[None, NoParameters]) -> Health:
    """Whether the server is up. The only address that answers without a token."""
    parts = call.parts
    return Health(parts.version, parts.build, "stopping" if parts.life.stopping else "ok")


async def server(call: Call[None, NoParameters]) -> ServerView:
    """What the server is and what it is doing."""
    parts = call.parts
    active = parts.engine.count_active()
    return ServerView(
        version=parts.version,
        build=parts.build,
        pid=os.getpid(),
        uptime=round(parts.life.uptime, 3),
        stopping=parts.life.stopping,
        workspaces=sum(view.open for view in await parts.workspaces.views()),
        clients=len({client.id for client in parts.presence.clients()}),
        streams=parts.presence.streams,
        active_runs=active,
        queued_runs=parts.engine.count_unfinished() - active,
    )


async def stop(call: Call[StopServerBody, NoParameters]) -> StopView:
    """Stop the server: active runs end `interrupted`, queues are kept. With `if_idle`, only if it does nothing."""
    parts = call.parts
    if call.body.if_idle and (parts.workspaces.is_busy or parts.life.working > 1):
        raise Conflict(
            "the server is busy; it can be stopped without harm when its runs and jobs have ended",
            code="server_busy",
            detail={"unfinished_runs": parts.engine.count_unfinished()},
        )
    parts.life.stop()
    return StopView()


async def backup(call: Call[BackupBody, NoParameters]) -> BackupView:
    """Copy the database, consistently, while everything goes on."""
    path = Path(call.body.path)
    if not path.name or not await asyncio.to_thread(path.parent.is_dir):
        raise BadRequest(f"{call.body.path!r} cannot be a file: its directory does not exist", detail={"field": "path"})
    await call.parts.store.backup(path)
    return BackupView(str(path), await asyncio.to_thread(os.path.getsize, path))


async def openapi(call: Call[None, NoParameters]) -> Raw:
    """This description."""
    return Raw(call.parts.description())


ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint("GET", "/v1/health", health, answer=Health, public=True),
    Endpoint("GET", "/v1/server", server, answer=ServerView),
    Endpoint("POST", "/v1/server/stop", stop, body=StopServerBody, answer=StopView, status=202, errors=(Conflict,)),
    Endpoint("POST", "/v1/server/backup", backup, body=BackupBody, answer=BackupView, errors=(BadRequest,)),
    Endpoint("GET", "/v1/openapi.json", openapi, answer=dict[str, Any]),
)
