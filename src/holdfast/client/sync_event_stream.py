"""The event stream of the synchronous client. It adds only I/O to `StreamState`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Self

from holdfast.client.base_client import OnLost
from holdfast.client.response_decoding import read_error
from holdfast.client.retry import Retry, StreamBroken
from holdfast.client.stream_state import StreamState
from holdfast.client.sync_http import Connection
from holdfast.client.transcript import Transcript
from holdfast.errors import HoldfastError
from holdfast.schema.events import Event


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
