"""Event streams: open one from a cursor, and show its client as attached while it is open (`E1`–`E8`, `W7`)."""

from __future__ import annotations

from typing import Protocol

from holdfast.errors import NotFound, TooMany
from holdfast.events import Hub, StreamItem, Subscription, parse_cursor
from holdfast.schema.base import encode
from holdfast.schema.events import ApprovalRequested, QuestionAsked, event_kind
from holdfast.services.presence import AttachedClient, Caller, Presence
from holdfast.services.server_state import ServerState
from holdfast.services.workspace_reach import WorkspaceReach
from holdfast.store import Store


class EventItems(Protocol):
    """What a stream's reader pulls from; `Subscription` is one."""

    async def read_batch(self) -> list[StreamItem]:
        """Wait for one item and return it with all that are available. Empty if it is closed."""
        ...

    def close(self) -> None: ...


class EventSource(Protocol):
    """An open event stream. Close it when it is not read any more."""

    @property
    def subscription(self) -> EventItems: ...

    def close(self) -> None: ...


class AttachedStream:
    """An open event stream. Close it when it is not read any more."""

    def __init__(self, subscription: Subscription, presence: Presence, attached: AttachedClient) -> None:
        self.subscription = subscription
        self._presence = presence
        self._attached = attached

    def show(self, session_id: str | None) -> None:
        """Change the session that the client shows."""
        self._attached = self._presence.move(self._attached, session_id=session_id)

    def close(self) -> None:
        self.subscription.close()
        self._presence.detach(self._attached)


class EventService:
    def __init__(self, store: Store, hub: Hub, presence: Presence, *, state: ServerState, max_streams: int) -> None:
        self._store = store
        self._hub = hub
        self._presence = presence
        self._state = state
        self._max_streams = max_streams

    async def open_stream(
        self,
        caller: Caller,
        *,
        after: str | None,
        workspace_id: str | None = None,
        session_id: str | None = None,
        viewing: str | None = None,
        reach: WorkspaceReach | None = None,
    ) -> AttachedStream:
        """Open a stream of a workspace or of all, from a cursor or from now.

        ``session_id`` limits it to a session and its descendants; ``viewing`` names the session that the client shows;
        ``reach`` limits it to the workspaces that its reader may see.
        """
        if workspace_id is not None:
            await self._store.workspace(workspace_id)
        for named in (session_id, viewing):
            if named is not None:
                session = await self._store.session(named)
                if workspace_id not in (None, session.workspace_id):
                    raise NotFound(f"session {named!r} is not in this workspace", code="session_not_found")
        self._state.raise_if_stopping()
        if after is not None and (cursor := parse_cursor(after)) and cursor.number > self._store.last_number:
            await self._store.catch_up()  # another server of a fleet may have given it
        if self._presence.streams >= self._max_streams:
            raise TooMany(f"{self._max_streams} streams are open already; close some", code="too_many_streams")
        attached = self._presence.attach(caller, workspace_id=workspace_id, session_id=viewing)

        subscription = self._hub.subscribe(
            after=after,
            workspace_id=workspace_id,
            session_id=session_id,
            readable=reach,
        )
        stream = AttachedStream(subscription, self._presence, attached)
        if subscription.is_fresh:
            try:
                first = await self._open_requests(workspace_id=workspace_id, session_id=session_id, reach=reach)
                subscription.add_first(first)
            except BaseException:
                stream.close()
                raise
        return stream

    async def _open_requests(
        self, *, workspace_id: str | None, session_id: str | None, reach: WorkspaceReach | None
    ) -> list[StreamItem]:
        """The approvals and questions that wait for an answer, as events for a client that has seen none (`W4`).

        They are read after the stream has its position: one that is opened meanwhile may come twice, one that is closed
        meanwhile is followed by its resolution.
        """
        approvals = (await self._store.open_approvals(workspace_id=workspace_id)).items
        questions = (await self._store.open_questions(workspace_id=workspace_id)).items
        if reach is not None:
            approvals = tuple(one for one in approvals if reach.includes(one.workspace_id))
            questions = tuple(one for one in questions if reach.includes(one.workspace_id))
        if not approvals and not questions:
            return []
        shown = None if session_id is None else {session_id, *await self._store.descendants(session_id)}
        events: list[ApprovalRequested | QuestionAsked] = [
            *(ApprovalRequested(one.created_at, one.session_id, one) for one in approvals),
            *(QuestionAsked(one.created_at, one.session_id, one) for one in questions),
        ]
        events.sort(key=lambda event: event.at)
        return [
            StreamItem(event_kind(event), encode(event))
            for event in events
            if shown is None or event.session_id in shown
        ]

    def close_all(self) -> None:
        """End every stream after the events that are committed by now."""
        self._hub.close()
