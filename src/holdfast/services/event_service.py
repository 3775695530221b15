"""Event streams: open one from a cursor, and show its client as attached while it is open (`E1`–`E8`, `W7`)."""

from __future__ import annotations

from holdfast.errors import NotFound, TooMany
from holdfast.events import Hub, Subscription
from holdfast.services.presence import AttachedClient, Caller, Presence
from holdfast.services.server_state import ServerState
from holdfast.store import Store


class AttachedStream:
    """An open event stream. Close it when it is not read any more."""

    def __init__(self, subscription: Subscription, presence: Presence, attached: AttachedClient) -> None:
        self.subscription = subscription
        self._presence = presence
        self._attached = attached

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
    ) -> AttachedStream:
        """Open a stream of a workspace or of all, from a cursor or from now.

        ``session_id`` limits it to a session and its descendants; ``viewing`` names the session that the client shows.
        """
        if workspace_id is not None:
            await self._store.workspace(workspace_id)
        for named in (session_id, viewing):
            if named is not None:
                session = await self._store.session(named)
                if workspace_id not in (None, session.workspace_id):
                    raise NotFound(f"session {named!r} is not in this workspace", code="session_not_found")
        self._state.raise_if_stopping()
        if self._presence.streams >= self._max_streams:
            raise TooMany(f"{self._max_streams} streams are open already; close some", code="too_many_streams")
        attached = self._presence.attach(caller, workspace_id=workspace_id, session_id=viewing)
        subscription = self._hub.subscribe(after=after, workspace_id=workspace_id, session_id=session_id)
        return AttachedStream(subscription, self._presence, attached)

    def close_all(self) -> None:
        """End every stream after the events that are committed by now."""
        self._hub.close()
