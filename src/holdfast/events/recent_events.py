"""The last durable events, kept once for all subscribers."""

from __future__ import annotations

from collections import deque

import msgspec

from holdfast.events.stream_item import StreamItem

MOST_EVENTS = 2048
MOST_BYTES = 8 << 20


class Entry(msgspec.Struct, frozen=True):
    number: int
    workspace_id: str | None
    session_id: str | None
    item: StreamItem


class RecentEvents:
    """Bounded by number and size. An entry's index only grows, so that a reader's place stays its place."""

    def __init__(self, last: int, *, most_events: int = MOST_EVENTS, most_bytes: int = MOST_BYTES) -> None:
        self.last = last
        """The number of the last durable event."""
        self.floor = last
        """Every event above it is here."""
        self._entries: deque[Entry] = deque()
        self._first = 0
        self._bytes = 0
        self._most_events = most_events
        self._most_bytes = most_bytes

    def append(self, entry: Entry) -> None:
        self._entries.append(entry)
        self._bytes += len(entry.item.body)
        self.last = entry.number
        while len(self._entries) > self._most_events or self._bytes > self._most_bytes:
            gone = self._entries.popleft()
            self._bytes -= len(gone.item.body)
            self._first += 1
            self.floor = gone.number

    @property
    def size(self) -> tuple[int, int]:
        """Events and bytes held."""
        return len(self._entries), self._bytes

    def index_after(self, number: int) -> int:
        """The index of the first entry above the number, which must not lie below the floor."""
        index = self._first + len(self._entries)
        for entry in reversed(self._entries):
            if entry.number <= number:
                break
            index -= 1
        return index

    def at(self, index: int) -> Entry | None:
        """``None`` past the end. The index must not have been let go of (see `floor`)."""
        place = index - self._first
        return self._entries[place] if place < len(self._entries) else None
