"""What an event stream remembers from connection to connection: its cursor, its text, and when to reconnect. Pure.

The race it closes: the cursor moves only as events are handed out, and only whole events are handed out, so a
connection may be cut at any byte and the next one continues exactly there. Text that cannot be continued exactly is
never handed out: the connection is given up, and a new one begins with a snapshot.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from holdfast.client.response_decoding import read_stream_event
from holdfast.client.retry import Retry, RetryBudget
from holdfast.client.transcript import Transcript
from holdfast.errors import HoldfastError, NoAnswer, NotHoldfast, ServerError, TooMany, Unreachable
from holdfast.schema.base import Unknown
from holdfast.schema.events import Delta, Event, Hello
from holdfast.schema.sse_parser import SseEvent, SseParser, SseTooLong

FIRST_SILENCE = 15.0
"""Seconds within which a new connection must send its first byte."""

_MISSED_BEATS = 2.5
"""Heartbeats that must be missed before a connection counts as dead."""

_LARGEST_EVENT = 256 * 1024 * 1024
_FIRST_WAIT = 0.1
_LONGEST_WAIT = 5.0


class StreamBroken(Exception):
    """The stream cannot be continued on this connection: reconnect at the cursor."""


class ReconnectRules:
    """Which losses a stream recovers from by itself."""

    def __init__(
        self,
        budget: RetryBudget,
        *,
        random: Callable[[], float],
        can_revive: bool = False,
        leave_stopped: bool = False,
        raise_when_full: bool = False,
    ) -> None:
        """``random`` spreads the waits, so that many clients do not reconnect at the same moment."""
        self.budget = budget
        self.random = random
        self.can_revive = can_revive
        self.leave_stopped = leave_stopped
        self.raise_when_full = raise_when_full

    def recovers(self, error: Exception) -> bool:
        """Everything recovers except what the caller must change."""
        if self.raise_when_full and isinstance(error, TooMany):
            return False
        return isinstance(error, StreamBroken | Unreachable | NoAnswer | ServerError | TooMany)

    def revives(self, error: Exception, *, ended_properly: bool) -> bool:
        """A server that ended its stream properly was stopped on purpose, and is not started again for a reader.

        With ``leave_stopped``, reviving itself finds out whether the server was stopped, so it is always asked for.
        """
        return self.can_revive and isinstance(error, Unreachable) and (self.leave_stopped or not ended_properly)


class StreamState:
    """One stream. Feed it the bytes of a connection, take the events that became complete."""

    def __init__(self, *, after: str | None, transcript: Transcript, rules: ReconnectRules) -> None:
        self.cursor = after
        """Everything up to here was handed out; ``None`` until the first connection has said where it begins."""
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
        """Begin a new connection and forget what the last one left unfinished. Returns the request's headers."""
        self._parser = SseParser(limit=_LARGEST_EVENT)
        self.silence = FIRST_SILENCE
        headers = {"Accept": "text/event-stream"}
        return headers if self.cursor is None else headers | {"Last-Event-ID": self.cursor}

    def connected(self) -> None:
        """The server has accepted the connection."""
        self._ended_properly = False

    def feed(self, chunk: bytes | None) -> None:
        """The next bytes of the connection; ``None`` at the proper end of its body."""
        if chunk is None:
            self._ended_properly = True
            raise Unreachable("the server ended the stream")
        try:
            self._ready.extend(self._parser.feed(chunk))
        except SseTooLong as error:
            raise self._break(str(error)) from None

    def take(self) -> Event | None:
        """The next event, its text folded into the transcript; ``None`` when more bytes are needed."""
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
        """When to connect again; raises the error when that is up to the caller.

        The first attempt follows at once after a connection that brought something; then the waits grow. The stream's
        ``retry:`` line is for browsers, which wait as long after a good connection as after a failed one.
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
            self.silence = max(event.heartbeat_seconds * _MISSED_BEATS, 1.0)
            self._rules.budget.succeeded()
            if self.cursor is None:
                self.cursor = event.cursor
            return
        self._losses = 0
        if isinstance(event, Delta):
            self._breaks = 0
