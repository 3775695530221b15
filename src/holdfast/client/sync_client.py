"""The synchronous client, on plain sockets, for the command line.

It adds only I/O: the calls, the decoding and the retry rules are shared with the asynchronous client. What only event
streams use is imported by the first one: a prompt is sent before, and the server works on it meanwhile.
"""

from __future__ import annotations

import time
from functools import cached_property
from typing import TYPE_CHECKING, Self, TypeVar

from holdfast.client.api_call import ApiCall
from holdfast.client.base_client import BaseClient, OnLost
from holdfast.client.endpoints import connect_endpoints
from holdfast.client.response_decoding import read_error
from holdfast.client.retry import LongPoll, Retry
from holdfast.client.sync_http import Connection
from holdfast.errors import Unreachable
from holdfast.schema.runs import END_STATES, Run

if TYPE_CHECKING:
    from holdfast.client.sync_event_stream import SyncEventStream
    from holdfast.client.transcript import Transcript
    from holdfast.schema.messages import Message

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
        from holdfast.client.sync_event_stream import SyncEventStream

        return SyncEventStream(
            Connection(self.address, headers=self._headers),
            connect_endpoints.events_target(workspace_id=workspace_id, session_id=session_id, viewing=viewing),
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
