"""One stream: a place in the log, a place on the board, and a wake-up.

It is pulled. Whoever does not pull costs nothing but these few numbers. Each pull gives, in this order: a heartbeat
that is due, the next durable event, then live text as it stands. Since durable events go first, live text never
follows the event that tells it whole (`E5`).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Collection
from types import TracebackType
from typing import Literal, Protocol, Self, TypeAlias

from holdfast.events.cursor import read_cursor
from holdfast.events.live_state import LiveState
from holdfast.events.recent_events import Entry, RecentEvents
from holdfast.events.stream_item import StreamItem
from holdfast.schema.base import encode
from holdfast.schema.events import Hello, Reset
from holdfast.store import Store

ResetReason: TypeAlias = Literal["foreign", "future", "pruned"]

LOG_EVENTS = 64
LOG_BYTES = 256 * 1024
"""How much of the log a subscription that is behind holds at a time."""


class Source(Protocol):
    """What a subscription needs of its hub."""

    store: Store
    recent_events: RecentEvents
    live_state: LiveState
    heartbeat: bytes
    heartbeat_seconds: float

    def timestamp(self) -> str: ...

    def cursor_at(self, number: int) -> str: ...

    def workspace_of(self, session_id: str) -> str | None: ...

    def fell_asleep(self, subscription: Subscription) -> None: ...

    def left(self, subscription: Subscription) -> None: ...


class Scope:
    """What a stream shows: everything, a workspace, or a session with its descendants."""

    __slots__ = ("session_id", "sessions", "workspace_id")

    def __init__(self, *, workspace_id: str | None, session_id: str | None) -> None:
        self.workspace_id = workspace_id
        self.session_id = session_id
        self.sessions = None if session_id is None else {session_id}

    def wants(self, workspace_id: str | None, session_id: str | None) -> bool:
        if self.sessions is not None:
            return session_id in self.sessions
        return self.workspace_id is None or workspace_id is None or workspace_id == self.workspace_id

    def include(self, session_ids: Collection[str]) -> bool:
        """Whether all of them were known."""
        known = self.sessions is None or self.sessions.issuperset(session_ids)
        if self.sessions is not None:
            self.sessions.update(session_ids)
        return known

    def adopt(self, session_id: str, *, parent_id: str) -> None:
        """A child session was made."""
        if self.sessions is not None and parent_id in self.sessions:
            self.sessions.add(session_id)


class Subscription:
    """An asynchronous iterator of `StreamItem` for one reader. `Hub.subscribe` creates it; the reader closes it."""

    def __init__(self, source: Source, *, after: str | None, scope: Scope) -> None:
        self.scope = scope
        self._source = source
        self._passed = source.recent_events.last
        """Every durable event up to here was given or is outside the scope."""
        self._index: int | None = None
        """The place in the ring, once it is known."""
        self._page: deque[tuple[int, StreamItem | None]] = deque()
        """Of the log, while it is behind the ring."""
        self._synced = source.live_state.tick
        """Messages that were open at this count are new to it: it gets them as snapshots."""
        self._message_tick = 0
        self._notice_tick = source.live_state.tick
        self._scope_known = scope.session_id is None
        self._beat_due = False
        self._closed = False
        self._waiter: asyncio.Future[None] | None = None
        self._first = self._begin(after)

    @property
    def cursor(self) -> str:
        """Where this stream is: whoever comes back with it misses nothing and gets nothing twice."""
        return self._source.cursor_at(self._passed)

    def __aiter__(self) -> AsyncIterator[StreamItem]:
        return self

    async def __anext__(self) -> StreamItem:
        while not self._closed:
            item = self._next()
            if item is not None:
                return item
            await self._more()
        raise StopAsyncIteration

    async def read_batch(self, *, most: int = 64, most_bytes: int = 1 << 18) -> list[StreamItem]:
        """At least one item and what else is there already, to be written at once; nothing when it is closed."""
        items: list[StreamItem] = []
        size = 0
        while not self._closed and len(items) < most and size < most_bytes:
            item = self._next()
            if item is not None:
                items.append(item)
                size += len(item.body)
            elif items:
                break
            else:
                await self._more()
        return items

    def beat(self) -> None:
        """A heartbeat is due."""
        self._beat_due = True

    def wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def close(self) -> None:
        """Ends the iteration, also of a reader that waits."""
        self._closed = True
        self._source.live_state.forget(self)
        self._source.left(self)
        self.wake()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _begin(self, after: str | None) -> deque[StreamItem]:
        """Hello, and a reset where the cursor cannot be continued."""
        reason: ResetReason | None = None
        if after is not None:
            cursor = read_cursor(after)
            if cursor is None or cursor.log_id != self._source.store.log_id:
                reason = "foreign"
            elif cursor.number > self._source.recent_events.last:
                reason = "future"
            elif cursor.number < self._source.store.oldest_number - 1:
                reason = "pruned"
            else:
                self._passed = cursor.number
        hello = Hello(at=self._source.timestamp(), cursor=self.cursor, heartbeat_seconds=self._source.heartbeat_seconds)
        first = deque([StreamItem("hello", encode(hello))])
        if reason is not None:
            first.append(self._reset(reason))
        return first

    def _reset(self, reason: ResetReason) -> StreamItem:
        """The stream goes on from now; the client reads everything else again."""
        self._passed = self._source.recent_events.last
        self._index = None
        self._source.live_state.forget(self)
        self._synced = self._source.live_state.tick
        self._message_tick = 0
        body = encode(Reset(at=self._source.timestamp(), cursor=self.cursor, reason=reason))
        return StreamItem("reset", body, id=self.cursor)

    def _next(self) -> StreamItem | None:
        """What is there already."""
        if self._first:
            return self._first.popleft()
        if self._beat_due:
            self._beat_due = False
            self._next_entry()
            return StreamItem("heartbeat", self._source.heartbeat, id=self.cursor)
        if not self._scope_known:
            return None
        return self._next_durable() or self._next_live()

    def _next_durable(self) -> StreamItem | None:
        while self._page:
            self._passed, item = self._page.popleft()
            if item is not None:
                return item
        entry = self._next_entry()
        if entry is None or self._index is None:
            return None
        self._index += 1
        self._passed = entry.number
        return entry.item

    def _next_entry(self) -> Entry | None:
        """The next event in the ring, having passed those that are outside the scope."""
        ring = self._source.recent_events
        if self._page or not self._scope_known or self._passed < ring.floor:
            return None
        if self._index is None:
            self._index = ring.index_after(self._passed)
        while (entry := ring.at(self._index)) is not None:
            if self.scope.wants(entry.workspace_id, entry.session_id):
                return entry
            self._index += 1
            self._passed = entry.number
        return None

    def _next_live(self) -> StreamItem | None:
        source = self._source
        if self._passed < source.recent_events.last:
            return None
        for message in source.live_state.messages_since(self._message_tick):
            if self.scope.wants(source.workspace_of(message.session_id), message.session_id):
                item = message.next_for(self, synced=self._synced, stamp=source.timestamp)
                if item is not None:
                    return item
            self._message_tick = message.tick
        for notice in source.live_state.notices_since(self._notice_tick):
            self._notice_tick = notice.tick
            if self.scope.wants(notice.workspace_id, notice.session_id):
                return notice.item
        return None

    async def _more(self) -> None:
        """Nothing is there: read what is missing, or sleep until something comes."""
        if not self._scope_known:
            await self._learn_scope()
        elif self._passed < self._source.recent_events.floor:
            await self._read_log()
        else:
            self._waiter = asyncio.get_running_loop().create_future()
            self._source.fell_asleep(self)
            await self._waiter

    async def _learn_scope(self) -> None:
        """The session's descendants. Asked again until nothing is new: one may be made between asking and hearing."""
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
            limit=LOG_EVENTS,
            max_bytes=LOG_BYTES,
        )
        if page.pruned > self._passed:
            self._first.append(self._reset("pruned"))
            return
        self._index = None
        for event in page.events:
            self._page.append(
                (event.number, StreamItem(event.kind, event.body, id=self._source.cursor_at(event.number)))
            )
        self._page.append((page.passed, None))
