"""What a stream remembers from connection to connection: its cursor, its text, and when to try again. Pure.

The race it closes: the cursor moves only as events are handed out, and whole events only are handed out, so a
connection may be cut at any byte and the next one goes on exactly there. Text that cannot be continued exactly is never
handed out: the connection is given up instead, and a new one begins with a snapshot.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from holdfast.client.response_decoding import read_stream_event
from holdfast.client.transcript import Transcript
from holdfast.errors import NotOurs
from holdfast.schema.base import Unknown
from holdfast.schema.events import Delta, Event, Hello
from holdfast.schema.sse_parser import SseEvent, SseParser, SseTooLong

FIRST_SILENCE = 15.0
"""Seconds for the first sign of life of a connection."""

_MISSED_BEATS = 2.5
"""Heartbeats that must have been missed before a connection counts as dead."""

_LARGEST_EVENT = 256 * 1024 * 1024
_FIRST_WAIT = 0.1
_LONGEST_WAIT = 5.0


class OutOfStep(Exception):
    """The stream cannot be continued on this connection: reconnect at the cursor."""


class Following:
    """One stream. Feed it what a connection brings, take what became complete."""

    def __init__(self, *, after: str | None, transcript: Transcript, random: Callable[[], float]) -> None:
        self.cursor = after
        """Everything up to here was handed out; ``None`` until the first connection told where it begins."""
        self.transcript = transcript
        self.silence = FIRST_SILENCE
        """Seconds without a byte after which the connection is dead."""
        self._random = random
        self._parser = SseParser(limit=_LARGEST_EVENT)
        self._ready: deque[SseEvent] = deque()
        self._losses = 0
        self._missteps = 0

    def connected(self) -> None:
        """A new connection: what the last one left unfinished is forgotten."""
        self._parser = SseParser(limit=_LARGEST_EVENT)
        self.silence = FIRST_SILENCE

    def feed(self, chunk: bytes) -> None:
        try:
            self._ready.extend(self._parser.feed(chunk))
        except SseTooLong as error:
            raise self._misstep(str(error)) from None

    def take(self) -> Event | None:
        """The next event, its text folded into the transcript; ``None`` when more bytes are needed."""
        while self._ready:
            told = self._ready[0]
            event = self._read(told.data)
            if not self.transcript.apply(event):
                raise self._misstep("text came that does not continue what is here")
            self._ready.popleft()
            self._passed(event, told.id)
            if not isinstance(event, Unknown):
                return event
        return None

    def wait_after_loss(self) -> float:
        """Seconds until the next attempt: at once after a connection that brought something, then ever longer.

        The stream's ``retry:`` line is for browsers, which wait as long after a good connection as after none.
        """
        failures = self._losses + self._missteps
        self._losses += 1
        if failures == 0:
            return 0.0
        return min(_FIRST_WAIT * 2.0 ** min(failures - 1, 16), _LONGEST_WAIT) * (0.5 + self._random() / 2)

    def _read(self, data: bytes) -> Event:
        try:
            return read_stream_event(data)
        except NotOurs as error:
            raise self._misstep(str(error)) from None

    def _misstep(self, why: str) -> OutOfStep:
        self._missteps += 1
        self._ready.clear()
        return OutOfStep(why)

    def _passed(self, event: Event, told_id: str) -> None:
        if told_id:
            self.cursor = told_id
        if isinstance(event, Hello):
            self.silence = max(event.heartbeat_seconds * _MISSED_BEATS, 1.0)
            if self.cursor is None:
                self.cursor = event.cursor
            return
        self._losses = 0
        if isinstance(event, Delta):
            self._missteps = 0
