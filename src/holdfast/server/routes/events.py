"""Event streams (`E1`–`E8`)."""

from __future__ import annotations

from holdfast.errors import Gone, NotFound, ServerStopping, TooMany
from holdfast.schema.api.request_bodies import StreamQuery
from holdfast.server.http.endpoint import ApiRequest, Endpoint
from holdfast.server.http.event_stream import EventStream
from holdfast.services.event_service import EventSource


async def all_events(request: ApiRequest[None, StreamQuery]) -> EventStream:
    """Stream the events of all workspaces, from a cursor or from now."""
    return await _stream(request, workspace_id=None)


async def workspace_events(request: ApiRequest[None, StreamQuery]) -> EventStream:
    """Stream the events of a workspace, from a cursor or from now."""
    return await _stream(request, workspace_id=request.path["workspace_id"])


async def _stream(request: ApiRequest[None, StreamQuery], *, workspace_id: str | None) -> EventStream:
    query = request.query
    stream = await request.services.events.open_stream(
        request.caller,
        after=request.headers.get(b"last-event-id", b"").decode("latin-1") or query.after,
        workspace_id=workspace_id,
        session_id=query.session,
        viewing=query.viewing,
        reach=request.reach,
    )
    source: EventSource = stream
    if request.parts.relay is not None and not request.is_forwarded:
        source = request.parts.relay.add(
            stream,
            workspace_id=workspace_id,
            session_id=query.session,
            target=request.target,
            headers=request.headers,
            access=request.access,
        )
    return EventStream(source, redact=request.parts.redact)


_STREAM = "text/event-stream"
_ERRORS = (NotFound, Gone, TooMany, ServerStopping)

ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint("GET", "/v1/events", all_events, query=StreamQuery, response=str, media_type=_STREAM, errors=_ERRORS),
    Endpoint(
        *("GET", "/v1/workspaces/{workspace_id}/events", workspace_events),
        query=StreamQuery,
        response=str,
        media_type=_STREAM,
        errors=_ERRORS,
    ),
)
