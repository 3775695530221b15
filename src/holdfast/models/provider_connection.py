"""Connections to providers: HTTP/1.1 on the event loop's own transports, with keep-alive.

This is the direct way, which nearly every request takes; a proxy needs `proxied_connection.py`. It parses with the
parser of the HTTP server and hands on what has arrived in as few pieces as possible, so that a token costs little. A
connection is used by one response at a time. It is used again only if that response was read to its end; otherwise it
is closed at once.
"""

from __future__ import annotations

import asyncio
import re
import socket
import zlib
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote, urlsplit

import httptools

from holdfast.models.tcp_connect import open_socket
from holdfast.schema.base import Value

if TYPE_CHECKING:
    import ssl

MAX_HEAD_BYTES = 256 * 1024
MAX_IDLE = 20
_PIECE_BYTES = 64 * 1024
"""A reader gets at most about this much at once, so that other work of the event loop comes between."""
_PAUSE_BYTES = 512 * 1024
"""Nothing more is received while this much waits for the reader."""
_UNSAFE_VALUE = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_TOKEN = re.compile(r"[-!#$%&'*+.^_`|~0-9A-Za-z]+")
_SAFE_IN_PATH = "/%:@!$&'()*+,;=~-._"
_PORTS = {"http": 80, "https": 443}


class CannotConnect(Exception):
    """There is no connection. The text is of the operating system or the TLS library."""


class ConnectTimeout(CannotConnect):
    """Nothing answered in time."""


class ProxyRefused(CannotConnect):
    """The proxy did not connect."""


class InvalidHttpRequest(Exception):
    """The request cannot be sent. The text does not quote values."""


class BrokenHttpResponse(Exception):
    """The connection ended early, or what arrived is not HTTP."""


class UnreadableContent(Exception):
    """The body has an encoding that was not asked for and cannot be undone."""


class ProviderOrigin(Value, frozen=True):
    """Where to connect."""

    encrypted: bool
    host: str
    port: int


class ProviderEndpoint(Value, frozen=True):
    origin: ProviderOrigin
    target: bytes
    host_header: bytes


@lru_cache(maxsize=64)
def parse_url(url: str) -> ProviderEndpoint:
    parts = urlsplit(url)
    if parts.scheme not in _PORTS or not parts.hostname:
        raise InvalidHttpRequest("the address is not an http or https URL")
    host = parts.hostname if parts.hostname.isascii() else parts.hostname.encode("idna").decode()
    port = parts.port or _PORTS[parts.scheme]
    shown = f"[{host}]" if ":" in host else host
    if port != _PORTS[parts.scheme]:
        shown = f"{shown}:{port}"
    target = quote(parts.path or "/", safe=_SAFE_IN_PATH)
    if parts.query:
        target += "?" + quote(parts.query, safe=_SAFE_IN_PATH + "?")
    return ProviderEndpoint(ProviderOrigin(parts.scheme == "https", host, port), target.encode(), shown.encode())


def request_head(method: str, endpoint: ProviderEndpoint, headers: Mapping[str, str], *, length: int) -> bytes:
    """The head of a request. Raises `InvalidHttpRequest` for headers that would break it."""
    lines = [b"%b %b HTTP/1.1\r\nhost: %b\r\n" % (method.encode(), endpoint.target, endpoint.host_header)]
    for name, value in headers.items():
        if _TOKEN.fullmatch(name) is None or not value.isascii() or _UNSAFE_VALUE.search(value):
            raise InvalidHttpRequest("a header has characters that cannot be sent")
        lines.append(f"{name}: {value}\r\n".encode())
    if length or method != "GET":
        lines.append(b"content-length: %d\r\n" % length)
    return b"".join((*lines, b"\r\n"))


class _Arrival(asyncio.Future[None]):
    """Done when something has arrived. A cancel of the reader closes the connection before the reader learns of it."""

    def __init__(self, connection: ProviderConnection) -> None:
        super().__init__()
        self._connection = connection

    def cancel(self, msg: Any | None = None) -> bool:
        self._connection.close()
        return super().cancel(msg)


class ProviderConnection(asyncio.Protocol):
    """One connection, and the response that is being received on it."""

    def __init__(self) -> None:
        self.is_open = False
        self.socket: socket.socket | None = None
        self.idle_since = 0.0
        self._transport: asyncio.Transport | None = None
        self._lost: BrokenHttpResponse | None = None
        self._waiter: _Arrival | None = None
        self._begin_response()

    def _begin_response(self) -> None:
        self._parser: httptools.HttpResponseParser | None = None
        self._chunks: deque[bytes] = deque()
        self._waiting_bytes = 0
        self._is_paused = False
        self._head_bytes = 0
        self._has_head = False
        self.is_complete = False
        self._is_framed = False
        """Whether the response says where it ends. Otherwise it ends with the connection."""
        self._keeps_open = False
        self.status = 0
        self.headers: dict[str, str] = {}

    async def send(self, head: bytes, content: bytes) -> None:
        """Send a request, and receive the head of its response."""
        self._begin_response()
        self._parser = httptools.HttpResponseParser(self)
        assert self._transport is not None
        self._transport.writelines((head, content) if content else (head,))
        while not self._has_head:
            await self._wait()

    async def read(self) -> bytes | None:
        """Return what has arrived of the body, or None at its end."""
        while not self._chunks:
            if self.is_complete:
                return None
            await self._wait()
        if len(self._chunks) == 1:
            piece = self._chunks.popleft()
        elif self._waiting_bytes <= _PIECE_BYTES:
            piece = b"".join(self._chunks)
            self._chunks.clear()
        else:
            piece = self._take_some()
        self._waiting_bytes -= len(piece)
        if self._chunks:
            await asyncio.sleep(0)
        elif self._is_paused and self._transport is not None and self.is_open:
            self._is_paused = False
            self._transport.resume_reading()
        return piece

    def _take_some(self) -> bytes:
        taken = [self._chunks.popleft()]
        size = len(taken[0])
        while self._chunks and size + len(self._chunks[0]) <= _PIECE_BYTES:
            taken.append(self._chunks.popleft())
            size += len(taken[-1])
        return b"".join(taken)

    @property
    def is_read(self) -> bool:
        return self.is_complete and not self._chunks

    @property
    def can_be_used_again(self) -> bool:
        return self.is_open and self.is_read and self._keeps_open

    def close(self) -> None:
        """Close it at once. An event loop closes the socket only in a later step, so that is not waited for."""
        if self.is_open and self.socket is not None:
            with suppress(OSError):
                self.socket.shutdown(socket.SHUT_RDWR)
        self.is_open = False
        if self._transport is not None:
            self._transport.abort()

    async def _wait(self) -> None:
        if self._lost is not None:
            raise self._lost
        self._waiter = _Arrival(self)
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _fail(self, reason: str) -> None:
        self._lost = BrokenHttpResponse(reason)
        self.close()
        self._wake()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # not a subclass on every event loop
        self.is_open = True

    def data_received(self, data: bytes) -> None:
        if self._parser is None or self.is_complete:
            self.close()  # nobody asked for it
            return
        if not self._has_head:
            self._head_bytes += len(data)
            if self._head_bytes > MAX_HEAD_BYTES:
                self._fail("the head of the response is too long")
                return
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self._fail("this is not a response of HTTP/1.1")
            return
        if self._waiting_bytes > _PAUSE_BYTES and not self._is_paused and self._transport is not None:
            self._is_paused = True
            self._transport.pause_reading()
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_open = False
        if self._has_head and not self._is_framed and exc is None:
            self.is_complete = True
        elif self._lost is None:
            self._lost = BrokenHttpResponse(type(exc).__name__ if exc else "it ended before the response")
        self._wake()

    def on_message_begin(self) -> None:
        """Part of the parser's interface, like the methods below."""
        if self.is_complete:
            self._keeps_open = False  # nobody asked for another response

    def on_header(self, name: bytes, value: bytes) -> None:
        if self.is_complete:
            return
        key = name.decode("latin-1").lower()
        text = value.decode("latin-1")
        self.headers[key] = f"{self.headers[key]}, {text}" if key in self.headers else text

    def on_headers_complete(self) -> None:
        if self._parser is None or self.is_complete:
            return
        self.status = self._parser.get_status_code()
        if self.status >= 200:  # what comes before is not the response yet
            self._has_head = True
            has_no_body = self.status in (204, 304)
            self._is_framed = has_no_body or "content-length" in self.headers or "chunked" in self._encodings
            self._keeps_open = self._parser.should_keep_alive()

    @property
    def _encodings(self) -> str:
        return self.headers.get("transfer-encoding", "").lower()

    def on_body(self, body: bytes) -> None:
        if not self.is_complete:
            self._chunks.append(body)
            self._waiting_bytes += len(body)

    def on_message_complete(self) -> None:
        if self._has_head:
            self.is_complete = True
        else:
            self.headers = {}


class DirectResponse:
    """A response on a connection, read by one task."""

    def __init__(self, connection: ProviderConnection, release: Callable[[ProviderConnection], None]) -> None:
        self.status = connection.status
        self.headers = connection.headers
        self._connection = connection
        self._release = release
        encoding = self.headers.get("content-encoding", "identity").strip().lower()
        self._decoder = None if encoding in ("", "identity") else _decoder(encoding)

    @property
    def is_read(self) -> bool:
        return self._connection.is_read

    async def read(self) -> bytes | None:
        piece = await self._connection.read()
        if self._decoder is None or piece is None:
            return piece
        try:
            return self._decoder.decompress(piece)
        except zlib.error:
            raise UnreadableContent from None

    async def aclose(self) -> None:
        self._release(self._connection)


def _decoder(encoding: str) -> zlib._Decompress:
    if encoding not in ("gzip", "x-gzip", "deflate"):
        raise UnreadableContent
    return zlib.decompressobj(zlib.MAX_WBITS | 32)  # finds out which of the two it is


class DirectConnections:
    """The connections to the hosts of one provider."""

    def __init__(self, *, tls: ssl.SSLContext | None, keep_alive_seconds: float) -> None:
        self._tls = tls
        self._keep_alive_seconds = keep_alive_seconds
        self._idle: dict[ProviderOrigin, list[ProviderConnection]] = {}
        self._used: set[ProviderConnection] = set()

    async def send(
        self, method: str, url: str, *, headers: Mapping[str, str], content: bytes, connect_seconds: float
    ) -> DirectResponse:
        """Send a request and receive the head of its response."""
        endpoint = parse_url(url)
        head = request_head(method, endpoint, headers, length=len(content))
        connection = self._take_idle(endpoint.origin) or await self._connect(endpoint.origin, connect_seconds)
        self._used.add(connection)
        try:
            await connection.send(head, content)
            return DirectResponse(connection, lambda used: self._release(endpoint.origin, used))
        except BaseException:
            self._used.discard(connection)
            connection.close()
            raise

    async def aclose(self) -> None:
        for connection in (*self._used, *(one for idle in self._idle.values() for one in idle)):
            connection.close()
        self._idle.clear()
        self._used.clear()

    def _take_idle(self, origin: ProviderOrigin) -> ProviderConnection | None:
        idle = self._idle.get(origin, [])
        oldest = asyncio.get_running_loop().time() - self._keep_alive_seconds
        while idle:
            connection = idle.pop()
            if connection.is_open and connection.idle_since >= oldest:
                return connection
            connection.close()
        return None

    def _release(self, origin: ProviderOrigin, connection: ProviderConnection) -> None:
        if connection not in self._used:
            return
        self._used.discard(connection)
        idle = self._idle.setdefault(origin, [])
        if not connection.can_be_used_again or len(idle) >= MAX_IDLE:
            connection.close()
            return
        connection.idle_since = asyncio.get_running_loop().time()
        idle.append(connection)

    async def _connect(self, origin: ProviderOrigin, seconds: float) -> ProviderConnection:
        loop = asyncio.get_running_loop()
        tls, server_name = (self._tls, origin.host) if origin.encrypted else (None, None)
        try:
            async with asyncio.timeout(seconds):
                opened = await open_socket(origin.host, origin.port)
                try:
                    _, connection = await loop.create_connection(
                        ProviderConnection, sock=opened, ssl=tls, server_hostname=server_name
                    )
                except BaseException:
                    opened.close()
                    raise
        except TimeoutError:
            raise ConnectTimeout from None
        except (OSError, UnicodeError) as error:
            raise CannotConnect(str(error)) from None
        connection.socket = opened
        return connection
