"""The asynchronous client, on pooled HTTP connections, for interfaces with an event loop.

It adds only I/O: the calls, the decoding and the retry rules are shared with the synchronous client. The first call
imports the HTTP library. Its exceptions become our errors.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self, TypeVar

from holdfast.client.api_call import ApiCall
from holdfast.client.base_client import BaseClient, OnLost
from holdfast.client.endpoints import connect_endpoints
from holdfast.client.late_endpoints import ALL_ENDPOINTS, load_endpoints
from holdfast.client.response_decoding import read_error
from holdfast.client.retry import LongPoll, Retry, StreamBroken
from holdfast.client.server_address import ServerAddress
from holdfast.client.stream_state import StreamState
from holdfast.client.sync_http import CONNECT_SECONDS, peer_pid
from holdfast.client.transcript import StreamedText, Transcript
from holdfast.errors import ClientError, HoldfastError, NoAnswer, Unreachable
from holdfast.schema.events import Event
from holdfast.schema.messages import Message
from holdfast.schema.runs import END_STATES, Run
from holdfast.tasks import WaitLimit

if TYPE_CHECKING:
    import httpx2

T = TypeVar("T")

_KEEP_ALIVE_SECONDS = 60.0

load_endpoints(*ALL_ENDPOINTS)


class AsyncClient(BaseClient):
    """Connects to one server. Close it with `aclose`, or use it in an ``async with`` block."""

    @cached_property
    def _pool(self) -> HttpPool:
        return HttpPool(self.address, headers=self._headers)

    async def send(self, call: ApiCall[T]) -> T:
        """Send a call and decode its response. An error response is raised as its error class."""
        retry = self._call_retry()
        while True:
            try:
                status, body = await self._pool.exchange(call, seconds=self._response_seconds + call.wait)
            except Unreachable as error:
                await self._pause(retry.after_loss(error))
                continue
            if 200 <= status < 300:
                return call.read(body)
            await self._pause(retry.after_refusal(read_error(status, body)))

    async def wait_run(self, run_id: str, *, seconds: float | None = None) -> Run:
        """Wait until the run ends, or for ``seconds``, across lost connections and restarts (`R9`)."""
        poll = LongPoll(seconds, clock=time.monotonic)
        while True:
            run = await self.get_run(run_id, wait=poll.next_wait())
            if run.state in END_STATES or poll.is_over:
                return run

    async def all_messages(self, session_id: str) -> tuple[list[Message], str | None]:
        """A session's messages in order, and the cursor at which its events continue."""
        first = page = await self.messages(session_id, after="0")
        found = list(page.items)
        while page.next is not None:
            page = await self.messages(session_id, after=page.next)
            found.extend(page.items)
        return found, first.cursor

    def events(
        self,
        *,
        workspace_id: str | None = None,
        session_id: str | None = None,
        viewing: str | None = None,
        after: str | None = None,
        transcript: StreamedText | None = None,
        on_lost: OnLost | None = None,
        give_up_after: float | None = None,
        raise_when_full: bool = False,
    ) -> AsyncEventStream:
        """Iterate over the events after the cursor ``after``, or from now on.

        ``on_lost(error, seconds)`` is called when the connection is lost; the next attempt follows after ``seconds``. A
        `Hello` follows when the stream is connected again. A long-lived client that keeps the messages itself passes a
        `StreamedText`, whose size does not grow. After ``give_up_after`` seconds without a connection, the
        error is raised. With ``raise_when_full``, `TooMany` is raised while the server has no free stream: poll, then
        iterate again.
        """
        return AsyncEventStream(
            self._pool,
            connect_endpoints.events_target(workspace_id=workspace_id, session_id=session_id, viewing=viewing),
            self._stream_state(
                after=after, transcript=transcript, give_up_after=give_up_after, raise_when_full=raise_when_full
            ),
            on_lost=on_lost,
            pause=self._pause,
        )

    async def aclose(self) -> None:
        """Close all connections, including those of its streams."""
        await self._pool.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.aclose()

    async def _pause(self, retry: Retry) -> None:
        if retry.revive and self._revive is not None:
            await asyncio.to_thread(self._revive, pid=self._pool.peer, leave_stopped=self.leave_stopped)
        await asyncio.sleep(retry.seconds)


class AsyncEventStream:
    """An iterator of events that reconnects by itself. `transcript` has the exact text at every event.

    For one task at a time. It may be cancelled at any time, for example by a time-out: iterate again, and no event is
    missing.
    """

    def __init__(
        self,
        pool: HttpPool,
        target: str,
        state: StreamState,
        *,
        on_lost: OnLost | None,
        pause: Callable[[Retry], Awaitable[None]],
    ) -> None:
        self._pool = pool
        self._target = target
        self._state = state
        self._on_lost = on_lost
        self._pause = pause
        self._response: httpx2.Response | None = None
        self._chunks: AsyncIterator[bytes] | None = None
        self._limit = WaitLimit()

    @property
    def cursor(self) -> str | None:
        """The position after the last event; a later stream can continue here."""
        return self._state.cursor

    @property
    def transcript(self) -> Transcript:
        assert isinstance(self._state.transcript, Transcript), "this stream keeps no messages"
        return self._state.transcript

    def __aiter__(self) -> AsyncIterator[Event]:
        return self

    async def __anext__(self) -> Event:
        while True:
            try:
                event = self._state.take()
                if event is not None:
                    return event
                await self._read()
            except (HoldfastError, StreamBroken) as error:
                await self._reconnect(error)
            except BaseException:
                await self.aclose()
                raise

    async def aclose(self) -> None:
        """Close the connection. Iterating again opens a new one at the cursor."""
        response, self._response, self._chunks = self._response, None, None
        self._limit.close()
        if response is not None:
            await response.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.aclose()

    async def _read(self) -> None:
        if self._chunks is None:
            self._chunks = await self._connect()
        silence = self._state.silence
        self._state.feed(await self._pool.read_chunk(self._chunks, seconds=silence, limit=self._limit))

    async def _connect(self) -> AsyncIterator[bytes]:
        headers, silence = self._state.connect(), self._state.silence
        self._response = await self._pool.open("GET", self._target, body=None, headers=headers, seconds=silence)
        if self._response.status_code != 200:
            body = await self._pool.read_rest(self._response, seconds=silence)
            raise read_error(self._response.status_code, body)
        self._state.connected()
        return _body_chunks(self._response)

    async def _reconnect(self, error: HoldfastError | StreamBroken) -> None:
        await self.aclose()
        retry = self._state.after_loss(error)
        if self._on_lost is not None:
            self._on_lost(error, retry.seconds)
        await self._pause(retry)


class HttpPool:
    """The connections to one server."""

    def __init__(self, address: ServerAddress, *, headers: Mapping[str, str]) -> None:
        self._address = address
        self._headers = {"Host": address.authority, **headers}
        self._opening = asyncio.Lock()
        self._pool: httpx2.AsyncHTTPTransport | None = None
        self.peer: int | None = None
        """The process that responded last, where the platform reports it."""

    async def open(
        self, method: str, target: str, *, body: bytes | None, headers: Mapping[str, str], seconds: float
    ) -> httpx2.Response:
        """Send a request and read the head of its response. The caller reads the body and closes the response."""
        pool = await self._opened()
        import httpx2

        all_headers = {**self._headers, **headers}
        if body is not None:
            all_headers["Content-Type"] = "application/json"
        host = "localhost" if self._address.path is not None else self._address.authority
        timeouts = {"connect": CONNECT_SECONDS, "read": None, "write": seconds, "pool": None}
        request = httpx2.Request(
            method, f"http://{host}{target}", headers=all_headers, content=body, extensions={"timeout": timeouts}
        )
        try:
            async with asyncio.timeout(seconds):
                response = await pool.handle_async_request(request)
        except (httpx2.HTTPError, OSError, TimeoutError) as error:
            raise self._failure(error) from None
        self.peer = self._peer_of(response) or self.peer
        return response

    async def read_chunk(self, chunks: AsyncIterator[bytes], *, seconds: float, limit: WaitLimit) -> bytes | None:
        """The next bytes of a body; ``None`` at its proper end."""
        import httpx2

        try:
            return await limit.wait(anext(chunks, None), until=asyncio.get_running_loop().time() + seconds)
        except (httpx2.HTTPError, OSError, TimeoutError) as error:
            raise self._failure(error) from None

    async def exchange(self, call: ApiCall[Any], *, seconds: float) -> tuple[int, bytes]:
        response = await self.open(call.method, call.target, body=call.body, headers=call.headers, seconds=seconds)
        try:
            return response.status_code, await self.read_rest(response, seconds=seconds)
        finally:
            await response.aclose()

    async def read_rest(self, response: httpx2.Response, *, seconds: float) -> bytes:
        """The whole body; each chunk must arrive within ``seconds``."""
        chunks, received, limit = _body_chunks(response), [], WaitLimit()
        try:
            while (chunk := await self.read_chunk(chunks, seconds=seconds, limit=limit)) is not None:
                received.append(chunk)
        finally:
            limit.close()
        return b"".join(received)

    async def aclose(self) -> None:
        pool, self._pool = self._pool, None
        if pool is not None:
            await pool.aclose()

    async def _opened(self) -> httpx2.AsyncHTTPTransport:
        async with self._opening:
            if self._pool is None:
                self._pool = await asyncio.to_thread(_open_pool, self._address.path)
            return self._pool

    def _peer_of(self, response: httpx2.Response) -> int | None:
        stream = response.extensions.get("network_stream")
        if self._address.path is None or stream is None:
            return None
        return peer_pid(stream.get_extra_info("socket"))

    def _failure(self, error: Exception) -> ClientError:
        import httpx2

        address = self._address
        match error:
            case httpx2.ConnectError() | httpx2.ConnectTimeout():
                return Unreachable(f"cannot connect to {address}: {error}")
            case TimeoutError() | httpx2.TimeoutException():
                return NoAnswer(f"the server at {address} has not answered in time")
        return Unreachable(f"the connection to {address} broke ({type(error).__name__})")


def _body_chunks(response: httpx2.Response) -> AsyncIterator[bytes]:
    """The body as it arrives, not re-chunked by the library."""
    stream: Any = response.stream
    return aiter(stream)


def _open_pool(path: str | None) -> httpx2.AsyncHTTPTransport:
    """Runs in a thread: the imports read from disk."""
    import anyio._backends._asyncio  # noqa: F401 - otherwise imported on the event loop by the first connection
    import httpx2

    from holdfast.client.late_wakeups import drop_late_wakeups

    drop_late_wakeups()
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=20, keepalive_expiry=_KEEP_ALIVE_SECONDS)
    return httpx2.AsyncHTTPTransport(uds=path, limits=limits, verify=False, trust_env=False)
