"""The rows of a fleet as clients see them. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Literal

from holdfast.schema.api.server_views import FleetServerView, FleetView, FleetWorkspaceView
from holdfast.store.postgres.lease_table import KnownServer, WorkspacePlace


def fleet_view(
    servers: Sequence[KnownServer],
    places: Sequence[WorkspacePlace],
    queues: Mapping[str, tuple[int, int]],
    *,
    last: int,
    me: str,
) -> FleetView:
    """``queues``: active and waiting runs by workspace; ``last``: the last number of the log."""
    living = {server.id for server in servers if not server.dead}
    owned = Counter(place.lease.server_id for place in places if place.lease and place.lease.server_id in living)
    workspaces = tuple(
        _workspace(place, queues.get(place.workspace_id, (0, 0)), living=living)
        for place in places
        if place.workspace_id in queues or (place.lease is not None and place.lease.server_id in living)
    )
    return FleetView(
        server_id=me,
        servers=tuple(_server(server, last=last, owned=owned[server.id]) for server in servers),
        workspaces=workspaces,
    )


def _server(server: KnownServer, *, last: int, owned: int) -> FleetServerView:
    info = server.info
    state: Literal["alive", "late", "dead"] = "dead" if server.dead else "alive" if server.is_alive else "late"
    return FleetServerView(
        id=server.id,
        host=server.host_id,
        name=info.get("name", ""),
        address=server.address,
        state=state,
        started_at=server.started_at,
        expires_in=None if server.dead else round(server.expires_in, 3),
        version=info.get("version", ""),
        pid=info.get("pid", 0),
        workspaces=owned,
        active_runs=0 if server.dead else info.get("active_runs", 0),
        streams=0 if server.dead else info.get("streams", 0),
        lag=0 if server.dead else max(last - info.get("position", last), 0),
    )


def _workspace(place: WorkspacePlace, queue: tuple[int, int], *, living: set[str]) -> FleetWorkspaceView:
    lease = place.lease if place.lease is not None and place.lease.server_id in living else None
    return FleetWorkspaceView(
        workspace_id=place.workspace_id,
        path=place.path,
        host=place.host_id,
        server_id=None if lease is None else lease.server_id,
        role=None if lease is None else lease.kind,
        fence=0 if place.lease is None else place.lease.fence,
        active_runs=queue[0],
        queued_runs=queue[1],
    )
