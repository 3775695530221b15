"""One stream for a reader, made of this server's durable events and the live events of other servers.

All servers read the same log, so every server's stream has the same durable events in the same order, with different
live events between them. A durable event is a barrier: it is yielded when every connected link has passed it too, after
all live events that came before it there. So live text never follows the durable event that contains it (`E5`), and
nothing is lost or repeated. A link that does not keep up is dropped; it continues with snapshots. While a link is down
its live events pause, and durable events go on.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterable

from holdfast.events import StreamItem, Subscription, parse_cursor

_MAX_PENDING = 256
"""Live events of a link that wait for the reader. The link is not read further meanwhile."""
BEHIND_SECONDS = 1.0
"""How long a durable event waits for a link that has not passed it."""
_CONTROL = frozenset({"hello", "heartbeat", "reset"})
_PRESENCE = frozenset({"client.attached", "client.detached"})


class LiveLink:
    """What was received from one server and not yielded yet."""

    def __init__(self, *, at: int) -> None:
        self.position = at
        """Every durable event up to this number was passed there."""
        self.is_connected = True
        self.behind_since: float | None = None
        self.pending: deque[tuple[int, StreamItem]] = deque()
        """Live events, each with the number of the durable event before it."""
        self._after = at
        self._room = asyncio.Event()
        self._room.set()

    def receive(self, item: StreamItem) -> None:
        number = number_of(item)
        if number is None:
            if item.kind not in _CONTROL:
                self.pending.append((self._after, item))
                if len(self.pending) >= _MAX_PENDING:
                    self._room.clear()
            return
        self.position = max(self.position, number)
        if item.kind not in _CONTROL:
            self._after = max(self._after, number)

    def take(self, *, upto: int) -> Iterable[StreamItem]:
        """Remove and return the live events that come before the durable event after ``upto``."""
        while self.pending and self.pending[0][0] <= upto:
            yield self.pending.popleft()[1]
        if len(self.pending) < _MAX_PENDING:
            self._room.set()

    async def wait_for_room(self) -> None:
        await self._room.wait()


class RelayedSubscription:
    """A `Subscription` of this server with the live events of links. Links come and go."""

    def __init__(self, local: Subscription) -> None:
        self._local = local
        self._items: deque[StreamItem] = deque()
        self._passed = _number(local.cursor)
        self._links: dict[str, LiveLink] = {}
        self._wake = asyncio.Event()
        self._reading: asyncio.Task[list[StreamItem]] | None = None
        self._closed = False

    @property
    def cursor(self) -> str:
        """Where a link must begin: everything up to here was yielded."""
        log_id = self._local.cursor.partition(".")[0]
        return f"{log_id}.{self._passed}"

    def connect(self, server_id: str) -> LiveLink:
        """Add a link that begins at `cursor`."""
        link = self._links[server_id] = LiveLink(at=self._passed)
        return link

    def receive(self, link: LiveLink, item: StreamItem) -> None:
        link.receive(item)
        self._wake.set()

    def drop(self, server_id: str) -> None:
        link = self._links.pop(server_id, None)
        if link is not None:
            link.is_connected = False
        self._wake.set()

    async def read_batch(self, *, max_items: int = 64, max_bytes: int = 1 << 18) -> list[StreamItem]:
        """Wait for one item and return it with all that are available. Empty if the subscription is closed."""
        loop = asyncio.get_running_loop()
        while not self._closed:
            self._wake.clear()
            items, wait = self._ready(now=loop.time(), max_items=max_items)
            if items:
                return items
            if self._reading is None and not self._items:
                self._reading = asyncio.create_task(
                    self._local.read_batch(max_items=max_items, max_bytes=max_bytes), name="relay:local"
                )
                self._reading.add_done_callback(lambda _: self._wake.set())
            try:
                async with asyncio.timeout(wait):
                    await self._wake.wait()
            except TimeoutError:
                pass
            self._collect()
        return []

    def close(self) -> None:
        self._closed = True
        self._local.close()
        if self._reading is not None:
            self._reading.cancel()
        self._wake.set()

    def _collect(self) -> None:
        if self._reading is not None and self._reading.done():
            reading, self._reading = self._reading, None
            found = [] if reading.cancelled() else reading.result()
            self._items.extend(found)
            self._closed |= not found

    def _ready(self, *, now: float, max_items: int) -> tuple[list[StreamItem], float | None]:
        """What can be yielded now, and how long to wait for links that are behind."""
        found: list[StreamItem] = []
        while self._items and len(found) < max_items:
            item = self._items[0]
            number = number_of(item)
            if number is None or item.kind in _CONTROL:
                self._items.popleft()
                if not (self._links and item.kind in _PRESENCE):  # the owner tells it too
                    found.append(item)
                if item.kind == "reset" and number is not None:
                    self._passed = number
                continue
            for link in tuple(self._links.values()):
                found.extend(link.take(upto=min(self._passed, number - 1)))
            wait = self._wait_for(number, now)
            if wait is not None:
                return found, wait
            for link in self._links.values():
                found.extend(link.take(upto=number - 1))
            self._items.popleft()
            found.append(item)
            self._passed = number
        if not self._items:
            for link in self._links.values():
                found.extend(link.take(upto=self._passed))
        return found, None

    def _wait_for(self, number: int, now: float) -> float | None:
        """How long to wait until every link has passed the event; None: no longer. Drops links that are too slow."""
        longest: float | None = None
        for server_id, link in tuple(self._links.items()):
            if link.position >= number:
                link.behind_since = None
                continue
            if link.behind_since is None:
                link.behind_since = now
            left = link.behind_since + BEHIND_SECONDS - now
            if left <= 0:
                self.drop(server_id)
            else:
                longest = max(longest or 0.0, left)
        return longest


def number_of(item: StreamItem) -> int | None:
    """The number of a durable event, a heartbeat or a reset; None for live events."""
    return None if item.id is None else _number(item.id)


def _number(cursor: str) -> int:
    found = parse_cursor(cursor)
    return 0 if found is None else found.number


async def read_items(chunks: AsyncIterator[bytes]) -> AsyncIterator[StreamItem]:
    """Parse server-sent events as our servers send them."""
    rest = b""
    async for chunk in chunks:
        *frames, rest = (rest + chunk).split(b"\n\n")
        for frame in frames:
            fields = dict(line.split(b": ", 1) for line in frame.split(b"\n") if b": " in line)
            if b"event" in fields and b"data" in fields:
                cursor = fields.get(b"id")
                yield StreamItem(
                    fields[b"event"].decode(), fields[b"data"], id=None if cursor is None else cursor.decode()
                )
