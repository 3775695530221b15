"""A subscription: a position in the log, a position in the live state, and a wake-up.

The reader pulls items. A reader that does not pull costs only these few numbers. Each pull returns, in this order: a
heartbeat that is due, the next durable event, live text. Because durable events come first, live text never follows the
event that contains it (`E5`).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Collection, Iterable
from types import TracebackType
from typing import Literal, Protocol, Self, TypeAlias

from holdfast.events.live_state import LiveState
from holdfast.events.recent_events import RecentEvent, RecentEvents
from holdfast.events.stream_item import StreamItem, parse_cursor
from holdfast.schema.base import encode
from holdfast.schema.events import Hello, Reset
from holdfast.store import Store

ResetReason: TypeAlias = Literal["foreign", "future", "pruned"]

_LOG_EVENTS = 64
_LOG_BYTES = 256 * 1024
"""Maximum events and bytes of the log that a subscription holds while it is behind."""


class StreamSource(Protocol):
    """What a subscription uses of the hub."""

    store: Store
    recent_events: RecentEvents
    live_state: LiveState
    heartbeat: bytes
    heartbeat_seconds: float

    def timestamp(self) -> str: ...

    def cursor_at(self, number: int) -> str: ...

    def workspace_of(self, session_id: str) -> str | None: ...

    def add_sleeping(self, subscription: Subscription) -> None: ...

    def remove(self, subscription: Subscription) -> None: ...


class ReadableWorkspaces(Protocol):
    """The workspaces that a reader may see."""

    def includes(self, workspace_id: str | None) -> bool: ...

    def knows(self, workspace_id: str) -> bool:
        """Whether it can say so. A workspace that another server has just registered is not known yet."""
        ...


class StreamScope:
    """What a stream shows: everything, the workspaces that its reader may see, one of them, or a session with its
    descendants."""

    __slots__ = ("_readable", "is_everything", "session_id", "sessions", "workspace_id")

    def __init__(
        self,
        *,
        workspace_id: str | None,
        session_id: str | None,
        readable: ReadableWorkspaces | None = None,
    ) -> None:
        self._readable = readable
        self.workspace_id = workspace_id
        self.session_id = session_id
        self.sessions = None if session_id is None else {session_id}
        self.is_everything = readable is None and workspace_id is None and session_id is None

    def contains(self, workspace_id: str | None, session_id: str | None) -> bool:
        if self.sessions is not None:
            return session_id in self.sessions
        if not self.may_show(workspace_id):
            return False
        return self.workspace_id is None or workspace_id is None or workspace_id == self.workspace_id

    def may_show(self, workspace_id: str | None) -> bool:
        """Whether the reader may see the workspace."""
        return self._readable is None or workspace_id is None or self._readable.includes(workspace_id)

    def is_unknown(self, workspace_id: str | None) -> bool:
        """Whether it cannot be said yet if the reader may see the workspace. The stream ends there, and continues there
        when the reader has reconnected."""
        return self._readable is not None and workspace_id is not None and not self._readable.knows(workspace_id)

    def concerns(self, workspace_id: str | None, session_id: str | None) -> bool:
        """Whether the reader must look at an event."""
        return self.contains(workspace_id, session_id) or self.is_unknown(workspace_id)

    def contains_live(self, workspace_id: str | None, session_id: str | None) -> bool:
        """Like `contains`. A reader of some workspaces is not told what belongs to none, or to one that is unknown."""
        if self._readable is not None and self.sessions is None and workspace_id is None:
            return False
        return self.contains(workspace_id, session_id)

    def include(self, session_ids: Collection[str]) -> bool:
        """Add sessions. Return whether all of them were included already."""
        known = self.sessions is None or self.sessions.issuperset(session_ids)
        if self.sessions is not None:
            self.sessions.update(session_ids)
        return known

    def add_descendant(self, session_id: str, *, parent_id: str) -> None:
        """Include a new session if its parent is included."""
        if self.sessions is not None and parent_id in self.sessions:
            self.sessions.add(session_id)


class Subscription:
    """An asynchronous iterator of `StreamItem` for one reader. `Hub.subscribe` creates it; the reader closes it."""

    def __init__(self, source: StreamSource, *, after: str | None, scope: StreamScope) -> None:
        self.scope = scope
        self._source = source
        self._passed = source.recent_events.last
        """Every durable event up to this number was yielded or is outside the scope."""
        self._index: int | None = None
        """The position in the recent events, once it is known."""
        self._log_page: deque[tuple[int, StreamItem | None]] = deque()
        """Events read from the log while it is behind the recent events."""
        self._synced_at = source.live_state.revision
        """Messages that were open at this revision are new to the reader: it gets snapshots of them.

        So is the progress of runs that was reported before."""
        self._message_revision = 0
        self._notice_revision = 0
        self._live_revision = -1
        """Of the changes up to this revision there is nothing left for the reader."""
        self._scope_known = scope.session_id is None
        self._heartbeat_due = False
        self._closed = False
        self._waiter: asyncio.Future[None] | None = None
        self._first_items = self._start(after)

    @property
    def cursor(self) -> str:
        """The position of this stream. A reader that reconnects with it misses nothing and gets nothing twice."""
        return self._source.cursor_at(self._passed)

    def __aiter__(self) -> AsyncIterator[StreamItem]:
        return self

    async def __anext__(self) -> StreamItem:
        while not self._closed:
            item = self._next_item()
            if item is not None:
                return item
            await self._wait_for_more()
        raise StopAsyncIteration

    async def read_batch(self, *, max_items: int = 64, max_bytes: int = 1 << 18) -> list[StreamItem]:
        """Wait for one item and return it with all that are available. Empty if the subscription is closed."""
        items: list[StreamItem] = []
        size = 0
        while not self._closed and len(items) < max_items and size < max_bytes:
            item = self._next_item()
            if item is not None:
                items.append(item)
                size += len(item.body)
            elif items:
                break
            else:
                await self._wait_for_more()
        return items

    @property
    def is_fresh(self) -> bool:
        """Whether the reader knows nothing yet: it came without a cursor that could be used."""
        return self._is_fresh

    def add_first(self, items: Iterable[StreamItem]) -> None:
        """Yield these before anything else but the hello. They do not move the cursor."""
        self._first_items.extend(items)

    def request_heartbeat(self) -> None:
        """Yield a heartbeat next."""
        self._heartbeat_due = True

    def wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def close(self) -> None:
        """End the iteration, also for a reader that is waiting."""
        self._closed = True
        self._source.live_state.forget(self)
        self._source.remove(self)
        self.wake()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _start(self, after: str | None) -> deque[StreamItem]:
        """Return the hello, and a reset if the stream cannot continue at the cursor."""
        reason: ResetReason | None = None
        self._is_fresh = after is None
        if after is not None:
            cursor = parse_cursor(after)
            if cursor is None or cursor.log_id != self._source.store.log_id:
                reason = "foreign"
            elif cursor.number > self._source.recent_events.last:
                reason = "future"
            elif cursor.number < self._source.store.oldest_number - 1:
                reason = "pruned"
            else:
                self._passed = cursor.number
        hello = Hello(at=self._source.timestamp(), cursor=self.cursor, heartbeat_seconds=self._source.heartbeat_seconds)
        items = deque([StreamItem("hello", encode(hello))])
        if reason is not None:
            self._is_fresh = True
            items.append(self._reset(reason))
        return items

    def _reset(self, reason: ResetReason) -> StreamItem:
        """Continue from now. The client must read everything else again."""
        self._passed = self._source.recent_events.last
        self._index = None
        self._source.live_state.forget(self)
        self._synced_at = self._source.live_state.revision
        self._message_revision = self._notice_revision = 0
        self._live_revision = -1
        body = encode(Reset(at=self._source.timestamp(), cursor=self.cursor, reason=reason))
        return StreamItem("reset", body, id=self.cursor)

    def _next_item(self) -> StreamItem | None:
        """Return the next item that is available without waiting."""
        if self._first_items:
            return self._first_items.popleft()
        if self._heartbeat_due:
            self._heartbeat_due = False
            self._next_recent()
            return StreamItem("heartbeat", self._source.heartbeat, id=self.cursor)
        if not self._scope_known:
            return None
        while self._log_page:
            self._passed, item = self._log_page.popleft()
            if item is not None:
                return item
        event = self._next_recent()
        if event is None or self._index is None:
            return self._next_live()
        self._index += 1
        self._passed = event.number
        return event.item

    def _next_recent(self) -> RecentEvent | None:
        """Skip recent events outside the scope and return the next one inside it."""
        recent = self._source.recent_events
        if self._log_page or not self._scope_known or self._passed < recent.floor:
            return None
        if self._index is None:
            self._index = recent.index_after(self._passed)
        while self._index < recent.end:
            event = recent.at(self._index)
            if self.scope.is_everything:
                return event
            if self.scope.is_unknown(event.workspace_id):
                self.close()
                return None
            if self.scope.contains(event.workspace_id, event.session_id):
                return event
            self._index += 1
            self._passed = event.number
        return None

    def _next_live(self) -> StreamItem | None:
        source = self._source
        revision = source.live_state.revision
        if revision == self._live_revision or self._passed < source.recent_events.last:
            return None
        for message in source.live_state.messages_since(self._message_revision):
            if self.scope.contains_live(source.workspace_of(message.session_id), message.session_id):
                item = message.next_item_for(self, synced_at=self._synced_at, timestamp=source.timestamp)
                if item is not None:
                    return item
            self._message_revision = message.revision
        for notice in source.live_state.notices_since(self._notice_revision):
            self._notice_revision = notice.revision
            is_new = notice.is_state or notice.revision > self._synced_at
            if is_new and self.scope.contains_live(notice.workspace_id, notice.session_id):
                return notice.item
        self._live_revision = revision
        return None

    async def _wait_for_more(self) -> None:
        """Read what is missing, or sleep until the hub wakes the subscription."""
        if self._closed:
            return
        if not self._scope_known:
            await self._load_scope()
        elif self._passed < self._source.recent_events.floor:
            await self._read_log()
        else:
            self._waiter = asyncio.get_running_loop().create_future()
            self._source.add_sleeping(self)
            await self._waiter

    async def _load_scope(self) -> None:
        """Load the session's descendants. Repeat until none is new: one may be created while the store is read."""
        assert self.scope.session_id is not None
        while not self._scope_known:
            found = await self._source.store.descendants(self.scope.session_id)
            self._scope_known = self.scope.include(found)

    async def _read_log(self) -> None:
        page = await self._source.store.events_after(
            self._passed,
            upto=self._source.recent_events.last,
            workspace_id=self.scope.workspace_id,
            session_id=self.scope.session_id,
            limit=_LOG_EVENTS,
            max_bytes=_LOG_BYTES,
        )
        if page.pruned > self._passed:
            self._first_items.append(self._reset("pruned"))
            return
        self._index = None
        for event in page.events:
            if self.scope.is_unknown(event.workspace_id):
                if not self._log_page:
                    self.close()
                return
            if not self.scope.may_show(event.workspace_id):
                continue
            item = StreamItem(event.kind, event.body, id=self._source.cursor_at(event.number))
            self._log_page.append((event.number, item))
        self._log_page.append((page.passed, None))
