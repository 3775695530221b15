"""The servers that share the database."""

from __future__ import annotations

from holdfast.schema.api.request_bodies import NoParameters
from holdfast.schema.api.server_views import FleetView
from holdfast.server.http.endpoint import ApiRequest, Endpoint


async def fleet(request: ApiRequest[None, NoParameters]) -> FleetView:
    """List the servers that share the database, and what each owns: leases, lag, queues."""
    return await request.services.fleet.view()


ENDPOINTS: tuple[Endpoint, ...] = (Endpoint("GET", "/v1/fleet", fleet, response=FleetView),)
