"""The streams: what happened after a cursor, then what happens (`E1`–`E8`)."""

from __future__ import annotations

from holdfast.errors import Gone, NotFound, ServerStopping, TooMany
from holdfast.schema.api.request_bodies import StreamQuery
from holdfast.server.http.endpoint import Call, Endpoint
from holdfast.server.http.event_stream import EventStream

STREAM = "text/event-stream"


async def all_events(call: Call[None, StreamQuery]) -> EventStream:
    """The events of all workspaces, from a cursor on or from now."""
    return await _stream(call, workspace_id=None)


async def workspace_events(call: Call[None, StreamQuery]) -> EventStream:
    """The events of a workspace, from a cursor on or from now."""
    workspace = await call.parts.store.workspace(call.path["workspace_id"])
    return await _stream(call, workspace_id=workspace.id)


async def _stream(call: Call[None, StreamQuery], *, workspace_id: str | None) -> EventStream:
    parts, query = call.parts, call.query
    for session_id in (query.session, query.viewing):
        if session_id is not None:
            session = await parts.store.session(session_id)
            if workspace_id not in (None, session.workspace_id):
                raise NotFound(f"session {session_id!r} is not in this workspace", code="session_not_found")
    parts.life.refuse_when_stopping()
    if parts.presence.streams >= parts.limits.streams:
        raise TooMany(f"{parts.limits.streams} streams are open already; close some", code="too_many_streams")
    after = call.headers.get(b"last-event-id", b"").decode("latin-1") or query.after
    attachment = parts.presence.attach(call.caller, workspace_id=workspace_id, session_id=query.viewing)
    subscription = parts.hub.subscribe(after=after, workspace_id=workspace_id, session_id=query.session)
    return EventStream(subscription, redact=parts.redact, on_end=lambda: parts.presence.detach(attachment))


_ERRORS = (NotFound, Gone, TooMany, ServerStopping)

ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint("GET", "/v1/events", all_events, query=StreamQuery, answer=str, kind=STREAM, errors=_ERRORS),
    Endpoint(
        *("GET", "/v1/workspaces/{workspace_id}/events", workspace_events),
        query=StreamQuery,
        answer=str,
        kind=STREAM,
        errors=_ERRORS,
    ),
)
