"""uvicorn on one listener, with limits for its connections and a stop in bounded time.

httptools and uvicorn set no limits for the size of a request's head or for slow requests; the limits here do. A request
that arrives at once sets no timer.
"""

from __future__ import annotations

import asyncio
import resource
import socket
import ssl
from typing import Any, ClassVar, Literal, TypeAlias

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from holdfast.errors import BadRequest, HoldfastError, OutOfDescriptors, RequestTimeout, TooLarge
from holdfast.server.http.connection_peer import PEER, ConnectionPeer
from holdfast.server.http.responses import UNFRAMED, AsgiApp, error_response
from holdfast.server.server_parts import ServerLimits
from holdfast.tools.process.tool_peers import ToolPeers

_Phase: TypeAlias = Literal["idle", "head", "body"]

_REASONS = {
    400: b"Bad Request",
    408: b"Request Timeout",
    431: b"Request Header Fields Too Large",
    503: b"Service Unavailable",
}

_RESERVED_DESCRIPTORS = 64
"""Open files that connections may not take: the store, tools and requests to models need them."""
_UNFRAMED_BYTES = 1 << 62
"""More than any response has."""
_UNREAD_STOP_SECONDS = 0.2
"""How long a stop waits for clients that have not read what was sent."""


class HttpServer(uvicorn.Server):
    """Serves one listener from `start` until `stop`. It handles no signals."""

    def __init__(self, app: AsgiApp, *, limits: ServerLimits, tool_peers: ToolPeers | None = None) -> None:
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        reserved = min(_RESERVED_DESCRIPTORS, most // 4)
        attributes = {"limits": limits, "tool_peers": tool_peers, "max_descriptor": most - reserved}
        self._protocol: type[LimitedConnection] = type("Connection", (LimitedConnection,), attributes)
        config = uvicorn.Config(
            app,
            http=self._protocol,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            date_header=False,
            timeout_keep_alive=limits.keep_alive_seconds,
        )
        super().__init__(config)
        self._stop_seconds = limits.stop_seconds

    async def start(self, sock: socket.socket, *, tls: ssl.SSLContext | None = None) -> None:
        """Return when connections are accepted."""
        if not self.config.loaded:
            self.config.load()
        self.config.ssl = tls
        self.lifespan = self.config.lifespan_class(self.config)
        await self.startup(sockets=[sock])

    async def stop(self, *, at_once: bool = False) -> None:
        """Accept no more connections, give responses `ServerLimits.stop_seconds` to finish, then close all.

        With ``at_once``, streams and other responses that have begun are cut off, and those to come are still sent.
        """
        self._protocol.is_stopped = True
        await self._stop_accepting()
        if at_once:
            for connection in tuple(self.server_state.connections):
                connection.shutdown()
                if isinstance(connection, LimitedConnection) and connection.is_sending:
                    connection.transport.abort()
            return
        for connection in tuple(self.server_state.connections):
            connection.shutdown()
        await self._wait_for_responses(min(_UNREAD_STOP_SECONDS, self._stop_seconds))
        for connection in tuple(self.server_state.connections):
            if isinstance(connection, LimitedConnection) and connection.is_unread:
                connection.transport.abort()
        await self._wait_for_responses(self._stop_seconds)
        for task in tuple(self.server_state.tasks):
            task.cancel()
        await self._wait_for_responses(0.5)
        for connection in tuple(self.server_state.connections):
            connection.transport.abort()
        await asyncio.sleep(0)

    async def _stop_accepting(self) -> None:
        """Close the listening sockets after the connections already accepted are set up.

        asyncio leaks a connection that was accepted, but is not set up, when its server closes.
        """
        loop = asyncio.get_running_loop()
        for server in self.servers:
            for sock in server.sockets:
                loop.remove_reader(sock)
        await asyncio.sleep(0)
        for server in self.servers:
            server.close()

    async def _wait_for_responses(self, seconds: float) -> None:
        if tasks := tuple(self.server_state.tasks):
            await asyncio.wait(tasks, timeout=seconds)


class LimitedConnection(HttpToolsProtocol):
    """One connection. uvicorn creates the instances, so the limits are attributes of a subclass per server."""

    limits: ClassVar[ServerLimits]
    tool_peers: ClassVar[ToolPeers | None]
    max_descriptor: ClassVar[int]
    is_stopped: ClassVar[bool] = False
    """Whether the server accepts no connections any more, not even those already in the backlog."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._phase: _Phase = "idle"
        self._peer: ConnectionPeer | None = None
        self._unparsed_bytes = 0
        """Bytes received while a head was incomplete."""
        self._header_bytes = 0
        """Bytes of the headers that the parser has reported."""
        self._deadline: asyncio.TimerHandle | None = None
        self._deadline_phase: _Phase = "idle"
        self._unread_timer: asyncio.TimerHandle | None = None
        self._is_refused = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if self.is_stopped:
            transport.abort()
        else:
            self._is_refused = self._takes_reserved_descriptor(transport)
            self._set_deadline(self.limits.head_seconds)
        if self.tool_peers is not None:
            self._peer = ConnectionPeer(transport, self.tool_peers)

    def _takes_reserved_descriptor(self, transport: asyncio.Transport) -> bool:
        """Whether so many files are open that only the reserve for the work of the server itself is left.

        The kernel gives a new connection the lowest free number, so the number says how many are open.
        """
        connection = transport.get_extra_info("socket")
        return connection is not None and connection.fileno() >= self.max_descriptor

    def pause_writing(self) -> None:
        """The peer does not read. If that lasts, it loses its connection, and with it its stream."""
        super().pause_writing()
        self._unread_timer = self.loop.call_later(self.limits.unread_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stop_unread_timer()

    @property
    def is_unread(self) -> bool:
        """Whether the peer has not read what was sent."""
        return self._unread_timer is not None

    @property
    def is_sending(self) -> bool:
        """Whether a response has begun and is not complete."""
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is not None and cycle.response_started and not cycle.response_complete

    def _stop_unread_timer(self) -> None:
        if self._unread_timer is not None:
            self._unread_timer.cancel()
            self._unread_timer = None

    def connection_lost(self, exc: Exception | None) -> None:
        self._clear_deadline()
        self._stop_unread_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._is_refused:  # not before: a close with unread data would lose the response
            self._refuse(OutOfDescriptors("the server has too many open files; try again later, or close some clients"))
            return
        if self._phase == "idle":
            self._phase = "head"
        if self._phase == "head":
            self._unparsed_bytes += len(data)
        super().data_received(data)
        self._check_limits(self._phase)

    def _check_limits(self, phase: _Phase) -> None:
        """Called after data was parsed; the phase is passed in because the parser changes it."""
        if phase == "idle" or self.transport.is_closing():
            self._clear_deadline()
        elif phase == "head" and self._unparsed_bytes > self.limits.head_bytes:
            self._refuse_head()
        elif self._deadline is None or self._deadline_phase != phase:
            self._set_deadline(self.limits.head_seconds if phase == "head" else self.limits.body_seconds)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope[PEER] = self._peer  # type: ignore[typeddict-unknown-key]
        self.scope[UNFRAMED] = self._set_unframed  # type: ignore[typeddict-unknown-key]
        self._phase = "head"
        self._header_bytes = 0

    def on_header(self, name: bytes, value: bytes) -> None:
        super().on_header(name, value)
        self._header_bytes += len(name) + len(value) + 4
        if self._header_bytes > self.limits.head_bytes:
            raise _HeadTooLarge

    def on_headers_complete(self) -> None:
        self._phase = "body"
        self._unparsed_bytes = 0
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._phase = "idle"

    def _set_unframed(self, *, complete: bool) -> None:
        """Send the body of this response without chunks; it ends with the connection."""
        cycle: RequestResponseCycle = self.cycle
        cycle.chunked_encoding = False
        cycle.keep_alive = False
        cycle.expected_content_length = 0 if complete else _UNFRAMED_BYTES

    def send_400_response(self, msg: str) -> None:
        """Answer bytes that are not HTTP with an error body."""
        if self._header_bytes > self.limits.head_bytes:
            self._refuse_head()
        else:
            self._refuse(BadRequest("this is not a well-formed HTTP request", code="invalid_http"))

    def _set_deadline(self, seconds: float) -> None:
        self._clear_deadline()
        self._deadline = self.loop.call_later(seconds, self._on_deadline)
        self._deadline_phase = self._phase

    def _clear_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _on_deadline(self) -> None:
        self._deadline = None
        if self._phase == "idle":
            self.transport.close()
        elif not self.transport.is_closing():
            self._refuse(RequestTimeout("the request did not arrive in time"))

    def _refuse_head(self) -> None:
        message = f"the head of the request is larger than {self.limits.head_bytes} bytes"
        self._refuse(TooLarge(message), status=431)

    def _refuse(self, error: HoldfastError, *, status: int | None = None) -> None:
        """Send an error, unless a response has started, and close the connection."""
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is None or not cycle.response_started or cycle.response_complete:
            status = status or error.status
            body = error_response(error).body()
            self.transport.write(
                b"HTTP/1.1 %d %b\r\ncontent-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n%b"
                % (status, _REASONS[status], len(body), body)
            )
        self.transport.close()


class _HeadTooLarge(Exception):
    """Raised to stop the parser from inside one of its callbacks."""
