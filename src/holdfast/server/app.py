"""The interface as one application: every endpoint there is, from one table."""

from __future__ import annotations

from collections.abc import Collection

from starlette.routing import Route, Router

from holdfast.server import (
    routes_asks,
    routes_events,
    routes_runs,
    routes_server,
    routes_sessions,
    routes_settings,
    routes_workspaces,
)
from holdfast.server.auth import Gate
from holdfast.server.calls import Endpoint
from holdfast.server.dispatch import Dispatch, Resource, unknown_path
from holdfast.server.faults import Faults
from holdfast.server.parts import Parts

ENDPOINTS: tuple[Endpoint, ...] = (
    *routes_runs.ENDPOINTS,  # the most used first: addresses are matched in this order
    *routes_events.ENDPOINTS,
    *routes_sessions.ENDPOINTS,
    *routes_workspaces.ENDPOINTS,
    *routes_asks.ENDPOINTS,
    *routes_settings.ENDPOINTS,
    *routes_server.ENDPOINTS,
)


def make_app(parts: Parts, *, token: str | None = None, host_names: Collection[str] = ()) -> Faults:
    """The application of one listener: with a token for TCP, without for a private socket."""
    by_path: dict[str, dict[str, Dispatch]] = {}
    for endpoint in ENDPOINTS:
        by_path.setdefault(endpoint.path, {})[endpoint.method] = Dispatch(endpoint, parts)
    router = Router(
        routes=[Route(path, Resource(methods)) for path, methods in by_path.items()],
        redirect_slashes=False,
        default=unknown_path,
    )
    public = [endpoint.path for endpoint in ENDPOINTS if endpoint.public]
    gate = Gate(router, token=token, public=public, host_names=host_names)
    return Faults(gate, is_stopping=lambda: parts.life.stopping, redact=parts.redact)
