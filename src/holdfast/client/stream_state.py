"""The state of an event stream across connections: its cursor, its text, and when to reconnect. Pure.

The cursor moves only when an event is returned, and only whole events are returned. A connection may therefore be cut
at any byte, and the next one continues exactly there. A delta that does not continue the known text is never returned:
the connection is closed, and the next one starts with a snapshot.
"""

from __future__ import annotations

from collections import deque

from holdfast.client.retry import ReconnectRules, Retry, StreamBroken
from holdfast.client.session_decoding import read_stream_event
from holdfast.client.transcript import StreamedText
from holdfast.errors import HoldfastError, NotHoldfast, Unreachable
from holdfast.schema.base import Unknown
from holdfast.schema.events import Delta, Event, Hello
from holdfast.schema.sse_parser import SseEvent, SseParser, SseTooLong

FIRST_SILENCE = 15.0
"""Seconds within which a new connection must send its first byte."""

_MISSED_HEARTBEATS = 2.5
"""Number of missed heartbeats after which a connection counts as dead."""

_LARGEST_EVENT = 256 * 1024 * 1024
_FIRST_WAIT = 0.1
_LONGEST_WAIT = 5.0


class StreamState:
    """One stream. Feed it the bytes of a connection and take the complete events."""

    def __init__(self, *, after: str | None, transcript: StreamedText, rules: ReconnectRules) -> None:
        self.cursor = after
        """All events up to here were returned; ``None`` until the first connection names its start."""
        self.transcript = transcript
        self.silence = FIRST_SILENCE
        """Seconds without a byte after which the connection is dead."""
        self._rules = rules
        self._parser = SseParser(limit=_LARGEST_EVENT)
        self._ready: deque[SseEvent] = deque()
        self._losses = 0
        self._breaks = 0
        self._ended_properly = False

    def connect(self) -> dict[str, str]:
        """Begin a new connection and drop the incomplete rest of the last one. Returns the request's headers."""
        self._parser = SseParser(limit=_LARGEST_EVENT)
        self.silence = FIRST_SILENCE
        headers = {"Accept": "text/event-stream"}
        return headers if self.cursor is None else headers | {"Last-Event-ID": self.cursor}

    def connected(self) -> None:
        """The server has accepted the connection."""
        self._ended_properly = False

    def feed(self, chunk: bytes | None) -> None:
        """Add the next bytes of the connection; ``None`` at the proper end of its body."""
        if chunk is None:
            self._ended_properly = True
            raise Unreachable("the server ended the stream")
        try:
            self._ready.extend(self._parser.feed(chunk))
        except SseTooLong as error:
            raise self._break(str(error)) from None

    def take(self) -> Event | None:
        """The next event, already applied to the transcript; ``None`` when more bytes are needed."""
        while self._ready:
            received = self._ready[0]
            event = self._read(received.data)
            if not self.transcript.apply(event):
                raise self._break("a delta does not continue the text received so far")
            self._ready.popleft()
            self._advance(event, received.id)
            if not isinstance(event, Unknown):
                return event
        return None

    def after_loss(self, error: HoldfastError | StreamBroken) -> Retry:
        """When to connect again; raises the error if the caller must handle it.

        After a connection that delivered events the first attempt is immediate; then the waits grow. The stream's
        ``retry:`` line is meant for browsers, which wait equally long after good and failed connections.
        """
        if not self._rules.recovers(error):
            raise error
        failures = self._losses + self._breaks
        self._losses += 1
        self._rules.budget.check(error)
        return Retry(self._wait(failures), revive=self._rules.revives(error, ended_properly=self._ended_properly))

    def _wait(self, failures: int) -> float:
        if failures == 0:
            return 0.0
        return min(_FIRST_WAIT * 2.0 ** min(failures - 1, 16), _LONGEST_WAIT) * (0.5 + self._rules.random() / 2)

    def _read(self, data: bytes) -> Event:
        try:
            return read_stream_event(data)
        except NotHoldfast as error:
            raise self._break(str(error)) from None

    def _break(self, why: str) -> StreamBroken:
        self._breaks += 1
        self._ready.clear()
        return StreamBroken(why)

    def _advance(self, event: Event, event_id: str) -> None:
        if event_id:
            self.cursor = event_id
        if isinstance(event, Hello):
            self.silence = max(event.heartbeat_seconds * _MISSED_HEARTBEATS, 1.0)
            self._rules.budget.succeeded()
            if self.cursor is None:
                self.cursor = event.cursor
            return
        self._losses = 0
        if isinstance(event, Delta):
            self._breaks = 0
