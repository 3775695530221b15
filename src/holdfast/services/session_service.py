"""Sessions: create, list, rename, fork, delete, export, search; their messages, file changes and call outputs."""

from __future__ import annotations

import asyncio
from pathlib import Path

from msgspec import UNSET
from msgspec.structs import asdict, replace

from holdfast.errors import BadRequest, Conflict, NotFound
from holdfast.runs import Engine
from holdfast.runs.acceptance import refuse_subagent_session
from holdfast.schema.api.request_bodies import MessagesQuery, SessionsQuery
from holdfast.schema.api.response_bodies import ChangesView, PageView, SessionExport, SessionView
from holdfast.schema.events import MessageCreated, SessionCreated, SessionUpdated
from holdfast.schema.messages import Message, ToolResult, public_message
from holdfast.schema.runs import Receipt
from holdfast.schema.sessions import SearchHit, Session, UndoPreview
from holdfast.services.api_values import page_position, page_view
from holdfast.services.presence import Presence
from holdfast.services.workspace_reach import WorkspaceReach
from holdfast.services.workspace_service import WorkspaceService
from holdfast.store import Batch
from holdfast.store.writes import PutMessage, PutSession, UpdateSession
from holdfast.workspace.open_workspaces import OpenWorkspaces

_END_POSITION = 10**15


class SessionService:
    """Sessions of all workspaces."""

    def __init__(
        self, open_workspaces: OpenWorkspaces, engine: Engine, *, presence: Presence, workspaces: WorkspaceService
    ) -> None:
        self._open_workspaces = open_workspaces
        self._workspaces = workspaces
        self._shared = shared = open_workspaces.shared
        self._store = shared.store
        self._hub = shared.hub
        self._engine = engine
        self._presence = presence

    async def create(self, workspace_id: str, *, title: str = "", agent: str | None = None) -> Session:
        await self._store.workspace(workspace_id)
        if agent is not None:
            await self._check_agent(workspace_id, agent)
        session = replace(self._new(workspace_id, title=title), agent=agent)
        event = SessionCreated(session.created_at, session.id, session)
        await self._store.commit(Batch((PutSession(session),), (event,)))
        return session

    async def list_sessions(self, workspace_id: str, query: SessionsQuery) -> PageView[Session]:
        """Sessions of a workspace, the one prompted last first; or the sub-agent sessions of one."""
        workspace = await self._store.workspace(workspace_id)
        page = await self._store.sessions(
            workspace.id,
            limit=query.limit,
            before=page_position(query.before),
            q=query.q or None,
            archived=None if query.archived else False,
            parent_id=query.parent,
        )
        view = page_view(page, self._hub)
        return replace(view, items=tuple(self._with_clients(session) for session in view.items))

    async def view(self, session_id: str) -> SessionView:
        """A session with its queue, its task list and its viewers."""
        cursor = self._hub.cursor
        session = await self._store.session(session_id)
        viewers = self._presence.viewers(session_id)
        return SessionView(
            **asdict(replace(session, clients=len(viewers))),
            cursor=cursor,
            queue=await self._engine.queue(session_id),
            todos=await self._store.todos(session_id),
            attached=viewers,
        )

    async def change(
        self, session_id: str, *, title: str | None = None, archived: bool | None = None, agent: str | None = None
    ) -> Session:
        """Change what is given. A new agent is that of the next prompts; accepted ones keep theirs."""
        session = await self._store.session(session_id)
        if agent is not None:
            refuse_subagent_session(session)
            await self._check_agent(session.workspace_id, agent)
            session = await self._store.session(session_id)
        now = self._shared.now()
        changed = replace(
            session,
            title=session.title if title is None else title,
            archived=session.archived if archived is None else archived,
            agent=session.agent if agent is None else agent,
            updated_at=now,
        )
        write = UpdateSession(
            session_id=session_id,
            title=changed.title,
            archived=changed.archived,
            agent=UNSET if agent is None else agent,
            updated_at=now,
        )
        await self._store.commit(Batch((write,), (SessionUpdated(now, session_id, changed),)))
        return self._with_clients(changed)

    async def _check_agent(self, workspace_id: str, name: str) -> None:
        workspace = await self._workspaces.open_known(workspace_id)
        await workspace.find_agent(name, await workspace.setup())

    async def delete(self, session_id: str) -> Receipt:
        """Cancel the runs of a session, then remove it."""
        return await self._engine.delete_session(session_id)

    async def list_messages(self, session_id: str, query: MessagesQuery) -> PageView[Message]:
        """Messages in order: from the start, after a position, or the last ones before a position or the end."""
        if query.after is not None and query.before is not None:
            raise BadRequest("give 'after' or 'before', not both", detail={"field": "before"})
        page = await self._store.messages(
            session_id,
            limit=query.limit,
            after=page_position(query.after),
            before=_END_POSITION if query.before == "end" else page_position(query.before),
        )
        view = page_view(page, self._hub)
        return replace(view, items=tuple(public_message(message) for message in view.items))

    async def fork(self, session_id: str, *, message_id: str | None = None) -> Session:
        """Create a session with the messages up to and including one, or all, in one commit. Files do not change."""
        from holdfast.services.session_export import read_messages

        source = await self._store.session(session_id)
        if message_id is None and source.busy:
            raise Conflict("the session is busy; name the message to fork from, or wait", code="session_busy")
        session = self._new(source.workspace_id, title=f"{source.title} (fork)".strip())
        session = replace(session, forked_from=source.id, agent=source.agent)
        writes: list[PutSession | PutMessage] = [PutSession(session)]
        events: list[SessionCreated | MessageCreated] = [SessionCreated(session.created_at, session.id, session)]
        found = message_id is None
        async for message in read_messages(self._store, session_id):
            copy = replace(message, id=self._shared.ids.new("msg"), session_id=session.id, seq=0)
            writes.append(PutMessage(copy))
            events.append(MessageCreated(session.created_at, session.id, copy))
            if message.id == message_id:
                found = True
                break
        if not found:
            raise NotFound(f"message {message_id!r} is not in session {session_id!r}", code="message_not_found")
        await self._store.commit(Batch(tuple(writes), tuple(events)))
        return session

    async def changes(self, session_id: str) -> ChangesView:
        """The files that the agent changed, with diffs."""
        cursor = self._hub.cursor
        await self._recover_commands(session_id)
        await asyncio.to_thread(self._load_undo)
        from holdfast.services.session_changes import session_changes

        return await session_changes(self._shared, session_id, cursor=cursor)

    async def preview_undo(self, session_id: str, *, to_message_id: str | None) -> UndoPreview:
        """What an undo would do now."""
        await self._recover_commands(session_id)
        await asyncio.to_thread(self._load_undo)
        from holdfast.services.session_changes import preview_undo

        return await preview_undo(self._shared, session_id, to_message_id=to_message_id)

    def _load_undo(self) -> None:
        """Import what the next lines of the callers use. Blocks."""
        from holdfast.services import session_changes as _changes  # noqa: F401

        self._shared.prepare()

    async def _recover_commands(self, session_id: str) -> None:
        """Record what commands changed that ran when a server died, if the workspace is open."""
        workspace_id = (await self._store.session(session_id)).workspace_id
        if self._open_workspaces.get(workspace_id) is not None:
            await (await self._open_workspaces.live(workspace_id)).recover_commands()

    async def export(self, session_id: str) -> SessionExport:
        from holdfast.services.session_export import read_messages, read_runs

        session = await self._store.session(session_id)
        runs = await read_runs(self._store, session_id)
        messages = [public_message(message) async for message in read_messages(self._store, session_id)]
        return SessionExport(session, runs, tuple(messages))

    async def export_markdown(self, session_id: str) -> str:
        from holdfast.services.session_export import export_markdown

        return await export_markdown(self._store, session_id)

    async def search(
        self, text: str, *, workspace_id: str | None, limit: int, reach: WorkspaceReach | None = None
    ) -> PageView[SearchHit]:
        """Messages of past sessions that contain all the words, best first; with ``reach``, by workspace."""
        cursor = self._hub.cursor
        if workspace_id is not None:
            await self._store.workspace(workspace_id)
        elif reach is not None:
            hits: list[SearchHit] = []
            for workspace in await self._store.workspaces():
                if reach.includes(workspace.id) and len(hits) < limit:
                    hits += await self._store.search(text, workspace_id=workspace.id, limit=limit - len(hits))
            return PageView(tuple(hits), cursor)
        return PageView(await self._store.search(text, workspace_id=workspace_id, limit=limit), cursor)

    async def call_output(self, call_id: str) -> Path | str:
        """The whole output of a tool call: the file that holds it, or the text itself."""
        output = await self._store.call_output(call_id)
        if output.path:
            return Path(output.path)
        message = await self._store.message(output.message_id)
        results = (part for part in message.parts if isinstance(part, ToolResult) and part.call_id == output.call_id)
        return next((result.text for result in results), "")

    def _with_clients(self, session: Session) -> Session:
        viewers = self._presence.viewers(session.id)
        return replace(session, clients=len(viewers)) if viewers else session

    def _new(self, workspace_id: str, *, title: str) -> Session:
        now = self._shared.now()
        new_id = self._shared.ids.new("ses")
        return Session(id=new_id, workspace_id=workspace_id, title=title, created_at=now, updated_at=now)
