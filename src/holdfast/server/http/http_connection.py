"""One HTTP/1.1 connection: requests are read by httptools, within limits, and answered in order by an ASGI application.

A request that arrives at once sets no timer.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import Any, Literal, TypeAlias
from urllib.parse import unquote

import httptools

from holdfast.errors import BadRequest, HoldfastError, OutOfDescriptors, RequestTimeout, TooLarge
from holdfast.server.http.connection_peer import PEER, ConnectionPeer, FindToolPeers
from holdfast.server.http.http_exchange import HttpExchange
from holdfast.server.http.responses import UNFRAMED, AsgiApp, Header, error_response, status_line
from holdfast.server.server_parts import ServerLimits

_logger = logging.getLogger(__name__)

_Phase: TypeAlias = Literal["idle", "head", "body"]


class ConnectionGroup:
    """The connections of one listener, and what they share."""

    def __init__(
        self, app: AsgiApp, *, limits: ServerLimits, find_tool_peers: FindToolPeers | None, max_descriptor: int
    ) -> None:
        self.app = app
        self.limits = limits
        self.find_tool_peers = find_tool_peers
        self.max_descriptor = max_descriptor
        """The lowest descriptor that a connection may not have."""
        self.connections: set[HttpConnection] = set()
        self.tasks: set[asyncio.Task[None]] = set()
        """The requests that are being answered."""
        self.is_stopped = False
        """Whether connections are accepted no more, not even those already in the backlog."""


class HttpConnection(asyncio.Protocol):
    """Requests that arrive ahead of the response before them wait; no more are read meanwhile."""

    def __init__(self, group: ConnectionGroup, loop: asyncio.AbstractEventLoop) -> None:
        self._group = group
        self._limits = group.limits
        self._loop = loop
        self._transport: asyncio.Transport = None  # type: ignore[assignment]  # set before anything else is called
        self._parser = httptools.HttpRequestParser(self)
        self._parser.set_dangerous_leniencies(lenient_data_after_close=True)  # a request after the last one is ignored
        self._base_scope: dict[str, Any] = {}
        self._peer: ConnectionPeer | None = None
        self._is_refused = False
        # The request that is being received
        self._phase: _Phase = "idle"
        self._url = b""
        self._headers: list[Header] = []
        self._awaits_continue = False
        self._receiving: HttpExchange | None = None
        self._is_reading_paused = False
        self._is_upgrade = False
        """Whether the client has changed the protocol; what it sends then is ignored."""
        self._unparsed_bytes = 0
        """Bytes received while a head was incomplete."""
        self._header_bytes = 0
        """Bytes of the headers that the parser has reported."""
        # The responses
        self._answering: HttpExchange | None = None
        self._waiting: deque[HttpExchange] = deque()
        self._drained: asyncio.Event | None = None
        """Set when the peer has read enough; None if it has."""
        # Timers
        self._deadline: asyncio.TimerHandle | None = None
        self._deadline_phase: _Phase = "idle"
        self._unread_timer: asyncio.TimerHandle | None = None
        self._keep_alive_timer: asyncio.TimerHandle | None = None

    # The transport's callbacks

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._transport = transport
        group = self._group
        group.connections.add(self)
        if group.is_stopped:
            transport.abort()
            return
        peer = transport.get_extra_info("peername")
        self._base_scope = {
            "type": "http",
            "client": tuple(peer[:2]) if isinstance(peer, tuple) else None,
            "scheme": "http" if transport.get_extra_info("sslcontext") is None else "https",
        }
        if group.find_tool_peers is not None:
            self._peer = ConnectionPeer(transport, group.find_tool_peers)
        self._is_refused = self._takes_reserved_descriptor()
        self._set_deadline(self._limits.head_seconds)

    def _takes_reserved_descriptor(self) -> bool:
        """Whether so many files are open that only the reserve for the work of the server itself is left.

        The kernel gives a new connection the lowest free number, so the number says how many are open.
        """
        connection = self._transport.get_extra_info("socket")
        return connection is not None and connection.fileno() >= self._group.max_descriptor

    def connection_lost(self, exc: Exception | None) -> None:
        self._group.connections.discard(self)
        for timer in (self._deadline, self._unread_timer, self._keep_alive_timer):
            if timer is not None:
                timer.cancel()
        for exchange in (self._answering, self._receiving):
            if exchange is not None:
                exchange.disconnect()
        self._waiting.clear()
        if self._drained is not None:
            self._drained.set()

    def pause_writing(self) -> None:
        """The peer does not read. If that lasts, it loses its connection, and with it its stream."""
        self._drained = asyncio.Event()
        self._unread_timer = self._loop.call_later(self._limits.unread_seconds, self._transport.abort)

    def resume_writing(self) -> None:
        if self._drained is not None:
            self._drained.set()
            self._drained = None
        if self._unread_timer is not None:
            self._unread_timer.cancel()
            self._unread_timer = None

    def data_received(self, data: bytes) -> None:
        if self._keep_alive_timer is not None:
            self._keep_alive_timer.cancel()
            self._keep_alive_timer = None
        if self._is_refused:  # not before: a close with unread data would lose the response
            self._refuse(OutOfDescriptors("the server has too many open files; try again later, or close some clients"))
            return
        if self._is_upgrade:
            return
        if self._phase == "idle":
            self._phase = "head"
        if self._phase == "head":
            self._unparsed_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:  # the request itself is answered
            self._is_upgrade = True
        except httptools.HttpParserError as error:
            self._refuse_malformed(error)
            return
        self._check_limits(self._phase)

    # The parser's callbacks

    def on_message_begin(self) -> None:
        self._url = b""
        self._headers = []
        self._awaits_continue = False
        self._phase = "head"
        self._header_bytes = 0

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self._header_bytes += len(name) + len(value) + 4
        if self._header_bytes > self._limits.head_bytes:
            raise _HeadTooLarge
        name = name.lower()
        if name == b"expect" and value.lower() == b"100-continue":
            self._awaits_continue = True
        self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        self._phase = "body"
        self._unparsed_bytes = 0
        parser = self._parser
        url = httptools.parse_url(self._url)
        path = url.path.decode("ascii")
        scope = {
            **self._base_scope,
            "method": parser.get_method().decode("ascii"),
            "path": unquote(path) if "%" in path else path,
            "query_string": url.query or b"",
            "headers": self._headers,
            PEER: self._peer,
        }
        is_current = parser.get_http_version() == "1.1"
        exchange = HttpExchange(
            self,
            scope,
            keeps_alive=is_current and parser.should_keep_alive() and not parser.should_upgrade(),
            may_chunk=is_current,
            awaits_continue=self._awaits_continue,
        )
        scope[UNFRAMED] = exchange.leave_unframed
        self._receiving = exchange
        if self._answering is None:
            self._answer(exchange)
        else:
            self._waiting.append(exchange)
            self.pause_reading()

    def on_body(self, body: bytes) -> None:
        assert self._receiving is not None
        self._receiving.add_body(body)

    def on_message_complete(self) -> None:
        assert self._receiving is not None
        self._receiving.end_body()
        self._phase = "idle"

    # What an exchange needs

    def write(self, data: bytes) -> None:
        self._transport.write(data)

    def close(self) -> None:
        self._transport.close()

    async def drain(self) -> None:
        if self._drained is not None:
            await self._drained.wait()

    def pause_reading(self) -> None:
        if not self._is_reading_paused:
            self._is_reading_paused = True
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        if self._is_reading_paused and not self._waiting:
            self._is_reading_paused = False
            self._transport.resume_reading()

    def on_response_complete(self) -> None:
        """Answer the request that waits, or wait for the next one."""
        assert self._answering is not None
        keeps_alive = self._answering.keeps_alive
        self._answering = None
        if not keeps_alive or self._transport.is_closing():
            self._waiting.clear()
            self._transport.close()
            return
        if self._waiting:
            self._answer(self._waiting.popleft())
        else:
            self._keep_alive_timer = self._loop.call_later(self._limits.keep_alive_seconds, self._transport.close)
        self.resume_reading()

    def _answer(self, exchange: HttpExchange) -> None:
        self._answering = exchange
        task = self._loop.create_task(exchange.run(self._group.app), name="request")
        self._group.tasks.add(task)
        task.add_done_callback(self._group.tasks.discard)

    # What the server needs

    @property
    def is_unread(self) -> bool:
        """Whether the peer has not read what was sent."""
        return self._unread_timer is not None

    @property
    def is_sending(self) -> bool:
        """Whether a response has begun and is not complete."""
        return self._answering is not None and self._answering.is_started

    def shut_down(self) -> None:
        """Close now, or after the responses to the requests that have arrived."""
        if self._answering is None:
            self._transport.close()
        else:
            last = self._waiting[-1] if self._waiting else self._answering
            last.keeps_alive = False

    def abort(self) -> None:
        self._transport.abort()

    # Limits

    def _check_limits(self, phase: _Phase) -> None:
        """Called after data was parsed; the phase is passed in because the parser changes it."""
        if phase == "idle" or self._transport.is_closing():
            self._clear_deadline()
        elif phase == "head" and self._unparsed_bytes > self._limits.head_bytes:
            self._refuse_head()
        elif self._deadline is None or self._deadline_phase != phase:
            self._set_deadline(self._limits.head_seconds if phase == "head" else self._limits.body_seconds)

    def _set_deadline(self, seconds: float) -> None:
        self._clear_deadline()
        self._deadline = self._loop.call_later(seconds, self._on_deadline)
        self._deadline_phase = self._phase

    def _clear_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _on_deadline(self) -> None:
        self._deadline = None
        if self._phase == "idle":
            self._transport.close()
        elif not self._transport.is_closing():
            self._refuse(RequestTimeout("the request did not arrive in time"))

    def _refuse_malformed(self, error: httptools.HttpParserError) -> None:
        """Answer bytes that are not HTTP with an error body."""
        cause = error.__context__ if isinstance(error, httptools.HttpParserCallbackError) else None
        if isinstance(cause, _HeadTooLarge):
            self._refuse_head()
            return
        if cause is not None and not isinstance(cause, httptools.HttpParserInvalidURLError | UnicodeDecodeError):
            _logger.error("a request could not be read", exc_info=cause)
        self._refuse(BadRequest("this is not a well-formed HTTP request", code="invalid_http"))

    def _refuse_head(self) -> None:
        message = f"the head of the request is larger than {self._limits.head_bytes} bytes"
        self._refuse(TooLarge(message), status=431)

    def _refuse(self, error: HoldfastError, *, status: int | None = None) -> None:
        """Send an error, unless a response has started, and close the connection."""
        if not self.is_sending:
            body = error_response(error).body()
            self._transport.write(
                b"%bcontent-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n%b"
                % (status_line(status or error.status), len(body), body)
            )
        self._transport.close()


class _HeadTooLarge(Exception):
    """Raised to stop the parser from inside one of its callbacks."""
