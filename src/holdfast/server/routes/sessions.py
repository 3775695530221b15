"""Sessions: made, listed, read, named, forked, exported, deleted."""

from __future__ import annotations

from msgspec import UNSET
from msgspec.structs import asdict, replace

from holdfast.errors import BadRequest, Conflict, Gone, NotFound
from holdfast.schema.api.request_bodies import (
    EmptyBody,
    ExportQuery,
    ForkBody,
    MessagesQuery,
    NoParameters,
    SessionBody,
    SessionPatch,
    SessionsQuery,
)
from holdfast.schema.api.response_bodies import PageView, SessionExport, SessionView
from holdfast.schema.messages import Message, ToolResult, public_message
from holdfast.schema.runs import Receipt, Run
from holdfast.schema.sessions import FileChange, Session
from holdfast.server.http.endpoint import Call, Endpoint
from holdfast.server.http.file_response import FileSlice
from holdfast.server.http.responses import Raw
from holdfast.server.server_parts import ServerParts
from holdfast.services.page_view import page_view

_END = 10**15
_PAGE = 500


async def create_session(call: Call[SessionBody, NoParameters]) -> Session:
    """Make an empty session."""
    return await call.parts.sessions.create(call.path["workspace_id"], title=call.body.title)


async def list_sessions(call: Call[None, SessionsQuery]) -> PageView[Session]:
    """Sessions of a workspace, the one that was prompted last first; or the children of one."""
    parts, query = call.parts, call.query
    workspace = await parts.store.workspace(call.path["workspace_id"])
    page = await parts.store.sessions(
        workspace.id,
        limit=query.limit,
        before=int(query.before) if query.before else None,
        q=query.q or None,
        archived=None if query.archived else False,
        parent_id=query.parent,
    )
    found = page_view(page, parts.hub)
    return replace(found, items=tuple(_with_clients(parts, session) for session in found.items))


async def get_session(call: Call[None, NoParameters]) -> SessionView:
    """A session with its queue, its tasks and who looks at it."""
    return await _view(call.parts, call.path["session_id"])


async def change_session(call: Call[SessionPatch, NoParameters]) -> Session:
    """Name a session, archive it, or bring it back."""
    title, archived = call.body.title, call.body.archived
    session = await call.parts.sessions.change(
        call.path["session_id"],
        title=None if title is UNSET else title,
        archived=None if archived is UNSET else archived,
    )
    return _with_clients(call.parts, session)


async def delete_session(call: Call[EmptyBody, NoParameters]) -> Receipt:
    """Delete a session with all that was said in it. What runs is cancelled first."""
    return await call.parts.engine.delete_session(call.path["session_id"])


async def list_messages(call: Call[None, MessagesQuery]) -> PageView[Message]:
    """Messages in order: from the start, after a place, or the last ones before a place (or the `end`)."""
    parts, query = call.parts, call.query
    if query.after is not None and query.before is not None:
        raise BadRequest("give 'after' or 'before', not both", detail={"field": "before"})
    before = None if query.before is None else _END if query.before == "end" else int(query.before)
    after = None if query.after is None else int(query.after)
    page = await parts.store.messages(call.path["session_id"], limit=query.limit, after=after, before=before)
    found = page_view(page, parts.hub)
    return replace(found, items=tuple(public_message(message) for message in found.items))


async def fork(call: Call[ForkBody, NoParameters]) -> Session:
    """A new session with the messages up to one of them, or with all. Files are not touched."""
    return await call.parts.sessions.fork(call.path["session_id"], message_id=call.body.message_id)


async def changes(call: Call[None, NoParameters]) -> PageView[FileChange]:
    """The files that the agent changed, with diffs."""
    cursor = call.parts.hub.cursor
    return PageView(await call.parts.sessions.changes(call.path["session_id"]), cursor)


async def export(call: Call[None, ExportQuery]) -> SessionExport | Raw:
    """The whole session, as JSON or as Markdown."""
    parts, session_id = call.parts, call.path["session_id"]
    if call.query.format == "markdown":
        text = await parts.sessions.export_markdown(session_id)
        return Raw(text.encode(), kind=b"text/markdown; charset=utf-8")
    session = await parts.store.session(session_id)
    return SessionExport(session, await _all_runs(parts, session_id), await parts.sessions.export_messages(session_id))


async def call_output(call: Call[None, NoParameters]) -> FileSlice | Raw:
    """The whole output of a tool call. Takes a `Range` of bytes."""
    output = await call.parts.store.call_output(call.path["call_id"])
    if not output.path:
        message = await call.parts.store.message(output.message_id)
        results = (part for part in message.parts if isinstance(part, ToolResult) and part.call_id == output.call_id)
        text = next((result.text for result in results), "")
        return Raw(text.encode(), kind=b"text/plain; charset=utf-8")
    return await FileSlice.open(output.path, wanted=call.headers.get(b"range"), redact=call.parts.redact)


async def _view(parts: ServerParts, session_id: str) -> SessionView:
    cursor = parts.hub.cursor
    session = await parts.store.session(session_id)
    viewers = parts.presence.viewers(session_id)
    return SessionView(
        **asdict(replace(session, clients=len(viewers))),
        cursor=cursor,
        queue=await parts.engine.queue(session_id),
        todos=await parts.store.todos(session_id),
        attached=viewers,
    )


def _with_clients(parts: ServerParts, session: Session) -> Session:
    viewers = parts.presence.viewers(session.id)
    return replace(session, clients=len(viewers)) if viewers else session


async def _all_runs(parts: ServerParts, session_id: str) -> tuple[Run, ...]:
    found: list[Run] = []
    before: int | None = None
    while True:
        page = await parts.store.runs(session_id, limit=_PAGE, before=before)
        found += page.items
        if page.next is None:
            return tuple(reversed(found))
        before = page.next


_SESSION = "/v1/sessions/{session_id}"
_SESSIONS = "/v1/workspaces/{workspace_id}/sessions"
_KNOWN = (NotFound, Gone)
_GIVES = {"session_id": "/id"}

ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint(
        *("POST", _SESSIONS, create_session),
        body=SessionBody,
        answer=Session,
        status=201,
        gives=_GIVES,
        errors=(NotFound,),
    ),
    Endpoint("GET", _SESSIONS, list_sessions, query=SessionsQuery, answer=PageView[Session], errors=_KNOWN),
    Endpoint("GET", _SESSION, get_session, answer=SessionView, errors=_KNOWN),
    Endpoint("PATCH", _SESSION, change_session, body=SessionPatch, answer=Session, errors=(*_KNOWN, Conflict)),
    Endpoint("DELETE", _SESSION, delete_session, body=EmptyBody, answer=Receipt, errors=_KNOWN),
    Endpoint(
        *("GET", f"{_SESSION}/messages", list_messages),
        query=MessagesQuery,
        answer=PageView[Message],
        errors=(*_KNOWN, BadRequest),
    ),
    Endpoint(
        *("POST", f"{_SESSION}/fork", fork),
        body=ForkBody,
        answer=Session,
        status=201,
        gives=_GIVES,
        errors=(*_KNOWN, Conflict),
    ),
    Endpoint("GET", f"{_SESSION}/changes", changes, answer=PageView[FileChange], errors=_KNOWN),
    Endpoint(
        *("GET", f"{_SESSION}/export", export),
        query=ExportQuery,
        answer=SessionExport,
        other_kinds=("text/markdown",),
        errors=_KNOWN,
    ),
    Endpoint(
        *("GET", "/v1/calls/{call_id}/output", call_output),
        answer=str,
        kind="text/plain",
        also={206: str},
        errors=_KNOWN,
    ),
)
