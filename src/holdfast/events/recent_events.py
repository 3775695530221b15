"""The latest durable events, held once for all subscribers."""

from __future__ import annotations

from collections import deque

import msgspec

from holdfast.events.stream_item import StreamItem

_MAX_EVENTS = 2048
_MAX_BYTES = 8 << 20


class RecentEvent(msgspec.Struct, frozen=True):
    number: int
    workspace_id: str | None
    session_id: str | None
    item: StreamItem


class RecentEvents:
    """A buffer limited by count and size. The index of an event never changes, so a reader can keep it."""

    def __init__(self, last: int, *, max_events: int = _MAX_EVENTS, max_bytes: int = _MAX_BYTES) -> None:
        self.last = last
        """The number of the last durable event."""
        self.floor = last
        """All events with a higher number are in the buffer."""
        self._events: deque[RecentEvent] = deque()
        self._first_index = 0
        self.end = 0
        """The index after the last event."""
        self._bytes = 0
        self._max_events = max_events
        self._max_bytes = max_bytes

    def append(self, event: RecentEvent) -> None:
        self._events.append(event)
        self._bytes += len(event.item.body)
        self.last = event.number
        self.end += 1
        while len(self._events) > self._max_events or self._bytes > self._max_bytes:
            dropped = self._events.popleft()
            self._bytes -= len(dropped.item.body)
            self._first_index += 1
            self.floor = dropped.number

    def index_after(self, number: int) -> int:
        """Return the index of the first event above `number`, which must not be below `floor`."""
        index = self.end
        for event in reversed(self._events):
            if event.number <= number:
                break
            index -= 1
        return index

    def at(self, index: int) -> RecentEvent:
        """Return the event. It must be before `end` and still in the buffer (see `floor`)."""
        return self._events[index - self._first_index]
