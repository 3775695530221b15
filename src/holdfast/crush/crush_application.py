"""Crush's protocol as one ASGI application."""

from __future__ import annotations

from holdfast.crush.crush_agent import CrushAgent
from holdfast.crush.crush_face import CrushFace
from holdfast.crush.crush_sessions import CrushSessions
from holdfast.crush.crush_settings import CrushSettings
from holdfast.crush.crush_workspaces import CrushWorkspaces
from holdfast.errors import NotFound
from holdfast.schema.api.response_bodies import ErrorBody
from holdfast.server.auth import AccessControl
from holdfast.server.http.endpoint import EndpointApp, Resource
from holdfast.server.http.error_boundary import ErrorBoundary
from holdfast.server.http.request_parsing import HEADERS, Receive
from holdfast.server.http.responses import JsonResponse, Scope, Send
from holdfast.server.http.router import Router
from holdfast.server.server_parts import ServerParts


def make_crush_app(parts: ServerParts, *, data_directory: str) -> ErrorBoundary:
    """The application of the listener for Crush's clients. ``data_directory`` is where they write their logs."""
    face = CrushFace(parts.services, data_directory=data_directory)
    endpoints = [
        endpoint
        for routes in (CrushAgent(face), CrushWorkspaces(face), CrushSessions(face), CrushSettings(face))
        for endpoint in routes.endpoints()
    ]
    by_path: dict[str, dict[str, EndpointApp]] = {}
    for endpoint in endpoints:
        by_path.setdefault(endpoint.path, {})[endpoint.method] = EndpointApp(endpoint, parts, needed="admin")
    router = Router(
        {path: Resource(methods, redact=parts.redact) for path, methods in by_path.items()},
        default=_raise_unknown_path,
    )

    async def ignore_media_type(scope: Scope, receive: Receive, send: Send) -> None:
        """Crush's client sends some of its JSON as ``text/plain``."""
        scope[HEADERS].pop(b"content-type", None)
        await router(scope, receive, send)

    guarded = AccessControl(ignore_media_type, parts.services, tcp=None)
    return ErrorBoundary(
        guarded, is_stopping=lambda: parts.services.state.stopping, redact=parts.redact, translate=crush_error
    )


def crush_error(response: JsonResponse) -> JsonResponse:
    """An error in the form that Crush's client reads."""
    assert isinstance(response.value, ErrorBody)
    return JsonResponse({"message": response.value.error.message}, status=response.status)


async def _raise_unknown_path(scope: Scope, receive: Receive, send: Send) -> None:
    raise NotFound(f"Holdfast has nothing at {scope['path'][:200]!r} for Crush's clients")
