"""The interface as one application: every endpoint there is, from one table."""

from __future__ import annotations

from collections.abc import Collection

from starlette.routing import Route, Router

from holdfast.server.auth import RequestGate
from holdfast.server.http.dispatch import Dispatch, Resource, unknown_path
from holdfast.server.http.endpoint import Endpoint
from holdfast.server.http.error_boundary import Faults
from holdfast.server.routes import approvals, events, runs, server, sessions, settings, workspaces
from holdfast.server.server_parts import ServerParts

ENDPOINTS: tuple[Endpoint, ...] = (
    *runs.ENDPOINTS,  # the most used first: addresses are matched in this order
    *events.ENDPOINTS,
    *sessions.ENDPOINTS,
    *workspaces.ENDPOINTS,
    *approvals.ENDPOINTS,
    *settings.ENDPOINTS,
    *server.ENDPOINTS,
)


def make_app(parts: ServerParts, *, token: str | None = None, host_names: Collection[str] = ()) -> Faults:
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
    gate = RequestGate(router, token=token, public=public, host_names=host_names)
    return Faults(gate, is_stopping=lambda: parts.life.stopping, redact=parts.redact)
