"""The synchronous client, on plain sockets, for the command line.

It adds only I/O: the calls, the decoding and the retry rules are shared with the asynchronous client.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Self, TypeVar

from holdfast.client.api_call import ApiCall
from holdfast.client.base_client import BaseClient, OnLost
from holdfast.client.endpoints import server_endpoints
from holdfast.client.response_decoding import read_error
from holdfast.client.retry import LongPoll, Retry, StreamBroken
from holdfast.client.stream_state import StreamState
from holdfast.client.sync_http import Connection
from holdfast.client.transcript import Transcript
from holdfast.errors import HoldfastError, Unreachable
from holdfast.schema.events import Event
from holdfast.schema.messages import Message
from holdfast.schema.runs import END_STATES, Run

T = TypeVar("T")


class SyncClient(BaseClient):
    """Connects to one server. For one thread at a time. Close it, or use it in a ``with`` block."""

    @cached_property
    def _connection(self) -> Connection:
        return Connection(self.address, headers=self._headers)

    def send(self, call: ApiCall[T]) -> T:
        """Send a call and decode its response. An error response is raised as its error class."""
        retry = self._call_retry()
        while True:
            reused = self._connection.is_open
            try:
                head, body = self._connection.exchange(
                    call.method,
                    call.target,
                    body=call.body,
                    headers=call.headers,
                    seconds=self._response_seconds + call.wait,
                )
            except Unreachable as error:
                self._pause(retry.after_loss(error, reused=reused))
                continue
            if 200 <= head.status < 300:
                return call.read(body)
            self._pause(retry.after_refusal(read_error(head.status, body)))

    def wait_run(self, run_id: str, *, seconds: float | None = None) -> Run:
        """Wait until the run ends, or for ``seconds``, across lost connections and restarts (`R9`)."""
        poll = LongPoll(seconds, clock=time.monotonic)
        while True:
            run = self.get_run(run_id, wait=poll.next_wait())
            if run.state in END_STATES or poll.is_over:
                return run

    def all_messages(self, session_id: str) -> tuple[list[Message], str | None]:
        """A session's messages in order, and the cursor at which its events continue."""
        first = page = self.messages(session_id, after="0")
        found = list(page.items)
        while page.next is not None:
            page = self.messages(session_id, after=page.next)
            found.extend(page.items)
        return found, first.cursor

    def events(
        self,
        *,
        workspace_id: str | None = None,
        session_id: str | None = None,
        viewing: str | None = None,
        after: str | None = None,
        transcript: Transcript | None = None,
        on_lost: OnLost | None = None,
        give_up_after: float | None = None,
        raise_when_full: bool = False,
    ) -> SyncEventStream:
        """Iterate over the events after the cursor ``after``, or from now on.

        ``on_lost(error, seconds)`` is called when the connection is lost; the next attempt follows after ``seconds``. A
        `Hello` follows when the stream is connected again. After ``give_up_after`` seconds without a connection, the
        error is raised. With ``raise_when_full``, `TooMany` is raised while the server has no free stream: poll, then
        iterate again.
        """
        return SyncEventStream(
            Connection(self.address, headers=self._headers),
            server_endpoints.events_target(workspace_id=workspace_id, session_id=session_id, viewing=viewing),
            self._stream_state(
                after=after, transcript=transcript, give_up_after=give_up_after, raise_when_full=raise_when_full
            ),
            on_lost=on_lost,
            pause=self._pause,
        )

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _pause(self, retry: Retry) -> None:
        if retry.revive and self._revive is not None:
            self._revive(pid=self._connection.peer, leave_stopped=self.leave_stopped)
        time.sleep(retry.seconds)


class SyncEventStream:
    """An iterator of events that reconnects by itself. `transcript` has the exact text at every event.

    It may be interrupted (Ctrl-C) at any time: iterate again, and no event is missing.
    """

    def __init__(
        self,
        connection: Connection,
        target: str,
        state: StreamState,
        *,
        on_lost: OnLost | None,
        pause: Callable[[Retry], None],
    ) -> None:
        self._connection = connection
        self._target = target
        self._state = state
        self._on_lost = on_lost
        self._pause = pause
        self._chunks: Iterator[bytes] | None = None

    @property
    def cursor(self) -> str | None:
        """The position after the last event; a later stream can continue here."""
        return self._state.cursor

    @property
    def transcript(self) -> Transcript:
        assert isinstance(self._state.transcript, Transcript)
        return self._state.transcript

    def __iter__(self) -> Iterator[Event]:
        return self

    def __next__(self) -> Event:
        while True:
            try:
                event = self._state.take()
                if event is not None:
                    return event
                self._read()
            except (HoldfastError, StreamBroken) as error:
                self._reconnect(error)
            except BaseException:
                self.close()
                raise

    def close(self) -> None:
        """Close the connection. Iterating again opens a new one at the cursor."""
        self._chunks = None
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _read(self) -> None:
        if self._chunks is None:
            self._chunks = self._connect()
        self._connection.set_timeout(self._state.silence)
        self._state.feed(next(self._chunks, None))

    def _connect(self) -> Iterator[bytes]:
        headers = self._state.connect()
        head = self._connection.begin("GET", self._target, body=None, headers=headers, seconds=self._state.silence)
        if head.status != 200:
            raise read_error(head.status, b"".join(self._connection.chunks(head)))
        self._state.connected()
        return self._connection.chunks(head)

    def _reconnect(self, error: HoldfastError | StreamBroken) -> None:
        self.close()
        retry = self._state.after_loss(error)
        if self._on_lost is not None:
            self._on_lost(error, retry.seconds)
        self._pause(retry)
