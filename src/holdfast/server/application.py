"""The API as one ASGI application, from one table of endpoints."""

from __future__ import annotations

from functools import cache
from typing import Any

from holdfast import __version__
from holdfast.schema.api.request_bodies import NoParameters
from holdfast.schema.base import encode
from holdfast.server.auth import AccessControl, TcpAccess
from holdfast.server.http.endpoint import ApiRequest, Endpoint, EndpointApp, Resource
from holdfast.server.http.error_boundary import ErrorBoundary
from holdfast.server.http.responses import RawResponse
from holdfast.server.http.router import Router
from holdfast.server.http.static_files import StaticFiles
from holdfast.server.route_reach import RouteReach
from holdfast.server.route_scopes import route_scope
from holdfast.server.routes import (
    approvals,
    audit,
    client_tools,
    devices,
    events,
    fleet,
    mcp,
    metrics,
    people,
    runs,
    server,
    sessions,
    settings,
    web,
    workspaces,
)
from holdfast.server.server_parts import ServerParts


async def openapi(request: ApiRequest[None, NoParameters]) -> RawResponse:
    """This description."""
    return RawResponse(_description())


ENDPOINTS: tuple[Endpoint, ...] = (
    *runs.ENDPOINTS,
    *events.ENDPOINTS,
    *sessions.ENDPOINTS,
    *workspaces.ENDPOINTS,
    *approvals.ENDPOINTS,
    *client_tools.ENDPOINTS,
    *settings.ENDPOINTS,
    *mcp.ENDPOINTS,
    *devices.ENDPOINTS,
    *people.ENDPOINTS,
    *audit.ENDPOINTS,
    *web.ENDPOINTS,
    *server.ENDPOINTS,
    *metrics.ENDPOINTS,
    *fleet.ENDPOINTS,
    Endpoint("GET", "/v1/openapi.json", openapi, response=dict[str, Any]),
)

_LIMITED_ENDPOINTS = tuple(
    (endpoint, route_scope(endpoint), RouteReach(endpoint.method, endpoint.path)) for endpoint in ENDPOINTS
)
"""Each with the scope that it needs, and with what limits it to the workspaces of the sender."""


def make_app(parts: ServerParts, *, tcp: TcpAccess | None = None) -> ErrorBoundary:
    """The application of one listener: on TCP, or on a private socket that only its owner can open."""
    by_path: dict[str, dict[str, EndpointApp]] = {}
    for endpoint, needed, reach in _LIMITED_ENDPOINTS:
        by_path.setdefault(endpoint.path, {})[endpoint.method] = EndpointApp(
            endpoint, parts, needed=needed, reach=reach
        )
    page = StaticFiles(parts.static_files)
    router = Router({path: Resource(methods, redact=parts.redact) for path, methods in by_path.items()}, default=page)
    public_paths = [endpoint.path for endpoint in ENDPOINTS if endpoint.public]
    guarded = AccessControl(
        router if parts.around_routes is None else parts.around_routes(router),
        parts.services,
        tcp=tcp,
        public_paths=public_paths,
        is_page=page.has,
        peer_access=parts.peer_access,
    )
    return ErrorBoundary(guarded, is_stopping=lambda: parts.services.state.stopping, redact=parts.redact)


@cache
def _description() -> bytes:
    from holdfast.server.http.openapi import describe

    return encode(describe(ENDPOINTS, version=__version__))
