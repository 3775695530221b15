"""Sessions: create, list, read, rename, fork, export, search, delete."""

from __future__ import annotations

from msgspec import UNSET

from holdfast.errors import BadRequest, Conflict, Gone, NotFound
from holdfast.schema.api.request_bodies import (
    EmptyBody,
    ExportQuery,
    ForkBody,
    MessagesQuery,
    NoParameters,
    SearchQuery,
    SessionBody,
    SessionPatch,
    SessionsQuery,
    UndoQuery,
)
from holdfast.schema.api.response_bodies import ChangesView, PageView, SessionExport, SessionView
from holdfast.schema.messages import Message
from holdfast.schema.runs import Receipt
from holdfast.schema.sessions import SearchHit, Session, UndoPreview
from holdfast.server.http.endpoint import ApiRequest, Endpoint
from holdfast.server.http.file_response import FileResponse
from holdfast.server.http.responses import RawResponse


async def create_session(request: ApiRequest[SessionBody, NoParameters]) -> Session:
    """Create an empty session."""
    body = request.body
    return await request.services.sessions.create(request.path["workspace_id"], title=body.title, agent=body.agent)


async def list_sessions(request: ApiRequest[None, SessionsQuery]) -> PageView[Session]:
    """List the sessions of a workspace, the one prompted last first; or the sub-agent sessions of one."""
    return await request.services.sessions.list_sessions(request.path["workspace_id"], request.query)


async def get_session(request: ApiRequest[None, NoParameters]) -> SessionView:
    """Get a session with its queue, its task list and its viewers."""
    return await request.services.sessions.view(request.path["session_id"])


async def change_session(request: ApiRequest[SessionPatch, NoParameters]) -> Session:
    """Rename a session, archive it, restore it, or choose the agent of its next prompts."""
    title, archived, agent = request.body.title, request.body.archived, request.body.agent
    return await request.services.sessions.change(
        request.path["session_id"],
        title=None if title is UNSET else title,
        archived=None if archived is UNSET else archived,
        agent=None if agent is UNSET else agent,
    )


async def delete_session(request: ApiRequest[EmptyBody, NoParameters]) -> Receipt:
    """Delete a session with its messages. Its runs are cancelled first."""
    return await request.services.sessions.delete(request.path["session_id"])


async def list_messages(request: ApiRequest[None, MessagesQuery]) -> PageView[Message]:
    """List messages in order: from the start, after a position, or the last ones before a position or the `end`."""
    return await request.services.sessions.list_messages(request.path["session_id"], request.query)


async def fork(request: ApiRequest[ForkBody, NoParameters]) -> Session:
    """Create a session with the messages up to one of them, or with all. Files do not change."""
    return await request.services.sessions.fork(request.path["session_id"], message_id=request.body.message_id)


async def changes(request: ApiRequest[None, NoParameters]) -> ChangesView:
    """List the files that the agent's tools and commands changed, with diffs, in total and by run."""
    return await request.services.sessions.changes(request.path["session_id"])


async def preview_undo(request: ApiRequest[None, UndoQuery]) -> UndoPreview:
    """Tell what an undo would do now: which files it restores, which need a confirmation, and which it skips."""
    session_id, query = request.path["session_id"], request.query
    return await request.services.sessions.preview_undo(session_id, to_message_id=query.to_message_id)


async def export(request: ApiRequest[None, ExportQuery]) -> SessionExport | RawResponse:
    """Export the whole session as JSON or as Markdown."""
    session_id = request.path["session_id"]
    if request.query.format == "markdown":
        text = await request.services.sessions.export_markdown(session_id)
        return RawResponse(text.encode(), media_type=b"text/markdown; charset=utf-8")
    return await request.services.sessions.export(session_id)


async def search(request: ApiRequest[None, SearchQuery]) -> PageView[SearchHit]:
    """Search messages of past sessions that contain all the words, best first."""
    query = request.query
    return await request.services.sessions.search(
        query.q, workspace_id=query.workspace, limit=query.limit, reach=request.reach
    )


async def call_output(request: ApiRequest[None, NoParameters]) -> FileResponse | RawResponse:
    """Get the whole output of a tool call. Takes a `Range` of bytes."""
    output = await request.services.sessions.call_output(request.path["call_id"])
    if isinstance(output, str):
        return RawResponse(output.encode(), media_type=b"text/plain; charset=utf-8")
    redactor = request.parts.redactor()
    return await FileResponse.open(output, range_header=request.headers.get(b"range"), redactor=redactor)


_SESSION = "/v1/sessions/{session_id}"
_SESSIONS = "/v1/workspaces/{workspace_id}/sessions"
_UNKNOWN = (NotFound, Gone)
_IDS = {"session_id": "/id"}

ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint(
        *("POST", _SESSIONS, create_session),
        body=SessionBody,
        response=Session,
        status=201,
        response_ids=_IDS,
        errors=(NotFound, BadRequest),
    ),
    Endpoint("GET", _SESSIONS, list_sessions, query=SessionsQuery, response=PageView[Session], errors=_UNKNOWN),
    Endpoint("GET", _SESSION, get_session, response=SessionView, errors=_UNKNOWN),
    Endpoint(
        *("PATCH", _SESSION, change_session),
        body=SessionPatch,
        response=Session,
        errors=(*_UNKNOWN, BadRequest, Conflict),
    ),
    Endpoint("DELETE", _SESSION, delete_session, body=EmptyBody, response=Receipt, errors=_UNKNOWN),
    Endpoint(
        *("GET", f"{_SESSION}/messages", list_messages),
        query=MessagesQuery,
        response=PageView[Message],
        errors=(*_UNKNOWN, BadRequest),
    ),
    Endpoint(
        *("POST", f"{_SESSION}/fork", fork),
        body=ForkBody,
        response=Session,
        status=201,
        response_ids=_IDS,
        errors=(*_UNKNOWN, Conflict),
    ),
    Endpoint("GET", f"{_SESSION}/changes", changes, response=ChangesView, errors=_UNKNOWN),
    Endpoint("GET", f"{_SESSION}/undo", preview_undo, query=UndoQuery, response=UndoPreview, errors=_UNKNOWN),
    Endpoint(
        *("GET", f"{_SESSION}/export", export),
        query=ExportQuery,
        response=SessionExport,
        other_media_types=("text/markdown",),
        errors=_UNKNOWN,
    ),
    Endpoint(
        *("GET", "/v1/calls/{call_id}/output", call_output),
        response=str,
        media_type="text/plain",
        other_responses={206: str},
        errors=_UNKNOWN,
    ),
    Endpoint("GET", "/v1/search", search, query=SearchQuery, response=PageView[SearchHit], errors=(NotFound,)),
)
