"""One request and its response, as an ASGI application sees them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import MutableMapping, Sequence
from typing import Any, Protocol

from holdfast.server.http.responses import AsgiApp, Header, Scope, status_line

_logger = logging.getLogger(__name__)

_WITHOUT_BODY = frozenset({204, 304})
_MAX_BUFFERED_BYTES = 1 << 16
"""Bytes of a body that wait for the application; the connection is not read meanwhile."""


class ExchangeConnection(Protocol):
    """The connection of an exchange."""

    def write(self, data: bytes) -> None: ...

    def close(self) -> None:
        """Close when what was written is sent."""

    async def drain(self) -> None:
        """Wait until the peer has read enough, or the connection is lost."""

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def on_response_complete(self) -> None: ...


class HttpExchange:
    """The response has the length that its head declares, or is sent in chunks, or ends with the connection.

    The head of a response with a length is sent together with the first piece of its body.
    """

    __slots__ = (
        *("_awaits_continue", "_body", "_changed", "_connection", "_has_chunks", "_has_more", "_head", "_is_told"),
        *("_left", "_may_chunk", "is_complete", "is_disconnected", "is_started", "keeps_alive", "scope"),
    )

    def __init__(
        self,
        connection: ExchangeConnection,
        scope: Scope,
        *,
        keeps_alive: bool,
        may_chunk: bool,
        awaits_continue: bool,
    ) -> None:
        """``may_chunk``: the client understands a response in chunks. ``awaits_continue``: it sends no body unasked."""
        self.scope = scope
        self.keeps_alive = keeps_alive
        """Whether the connection stays open after the response."""
        self.is_started = False
        self.is_complete = False
        self.is_disconnected = False
        self._connection = connection
        self._changed = asyncio.Event()
        self._body = bytearray()
        self._has_more = True
        """Whether more of the request's body is to come."""
        self._is_told = False
        """Whether the application was told the end of the body."""
        self._awaits_continue = awaits_continue
        self._may_chunk = may_chunk
        self._has_chunks = False
        self._head = b""
        """The head of the response, if it is not sent yet."""
        self._left: int | None = None
        """Bytes of the declared length that are still to be sent."""

    # The request

    def add_body(self, piece: bytes) -> None:
        if self.is_complete:
            return
        self._body += piece
        if len(self._body) > _MAX_BUFFERED_BYTES:
            self._connection.pause_reading()
        self._changed.set()

    def end_body(self) -> None:
        self._has_more = False
        self._changed.set()

    def disconnect(self) -> None:
        """The connection is lost."""
        self.is_disconnected = True
        self._changed.set()

    async def receive(self) -> MutableMapping[str, Any]:
        """The next piece of the body; after its end, waits until the client has disconnected or has its response."""
        if self._awaits_continue:
            self._awaits_continue = False
            self._connection.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        while not self.is_disconnected and not self.is_complete:
            if self._body or not (self._has_more or self._is_told):
                body, self._body = bytes(self._body), bytearray()
                self._is_told = not self._has_more
                return {"type": "http.request", "body": body, "more_body": self._has_more}
            self._connection.resume_reading()
            self._changed.clear()
            await self._changed.wait()
        return {"type": "http.disconnect"}

    # The response

    def leave_unframed(self) -> None:
        """Send the body of this response without chunks; it ends with the connection."""
        self._may_chunk = False

    async def run(self, app: AsgiApp) -> None:
        """Let an application answer. A response that it leaves incomplete ends with the connection."""
        try:
            await app(self.scope, self.receive, self.send)
        except ConnectionAbortedError:  # the error boundary has logged why
            pass
        except Exception:
            _logger.exception("%s %s failed", self.scope["method"], self.scope["path"])
        finally:
            if not self.is_complete:
                self._connection.close()

    async def send(self, message: MutableMapping[str, Any]) -> None:
        await self._connection.drain()
        if self.is_disconnected:
            return
        if message["type"] == "http.response.start":
            self._start(message["status"], message["headers"])
        else:
            self._send_body(message["body"], is_last=not message.get("more_body", False))

    def _start(self, status: int, headers: Sequence[Header]) -> None:
        if self.is_started:
            raise RuntimeError("the response has started already")
        self.is_started = True
        self._awaits_continue = False
        lines = [status_line(status)]
        for name, value in headers:
            lines.append(b"%b: %b\r\n" % (name, value))
            if name == b"content-length":
                self._left = int(value)
            elif name == b"connection" and value == b"close":
                self.keeps_alive = False
        if self._left is None and status not in _WITHOUT_BODY and self.scope["method"] != "HEAD":
            if self._may_chunk:
                self._has_chunks = True
                lines.append(b"transfer-encoding: chunked\r\n")
            else:
                self.keeps_alive = False
        if not self.keeps_alive and b"connection: close\r\n" not in lines:
            lines.append(b"connection: close\r\n")
        head = b"".join((*lines, b"\r\n"))
        if head.count(b"\n") != len(lines) + 1 or head.count(b"\r") != len(lines) + 1:
            raise RuntimeError("a header of the response has a line break")
        if self._left is None:
            self._connection.write(head)
        else:
            self._head = head

    def _send_body(self, body: bytes, *, is_last: bool) -> None:
        if not self.is_started or self.is_complete:
            raise RuntimeError("a body without a head, or after its end")
        if self.scope["method"] == "HEAD":
            body = b""
        elif self._has_chunks:
            body = b"%x\r\n%b\r\n" % (len(body), body) if body else b""
            body += b"0\r\n\r\n" if is_last else b""
        elif self._left is not None:
            self._left -= len(body)
            if self._left < 0 or (is_last and self._left):
                raise RuntimeError("the body has not the declared length")
        if self._head:
            body, self._head = self._head + body, b""
        if body:
            self._connection.write(body)
        if is_last:
            self.is_complete = True
            self._changed.set()
            self._connection.on_response_complete()
