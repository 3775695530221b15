"""One connection, with bounds: a head that is too large or does not arrive, and a body that stops coming, end it.

httptools and uvicorn read what comes for as long as it comes; the bounds are ours. A request that arrives in one piece
costs no timer.
"""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar, Literal, TypeAlias

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from holdfast.errors import BadRequest, HoldfastError, RequestTimeout, TooLarge
from holdfast.server.http.responses import error_reply

_Phase: TypeAlias = Literal["idle", "head", "body"]

_REASONS = {400: b"Bad Request", 408: b"Request Timeout", 431: b"Request Header Fields Too Large"}


class _HeadTooLarge(Exception):
    """The parser's callbacks have no other way to say it."""


class BoundedConnection(HttpToolsProtocol):
    """Settings are of the class: uvicorn makes the instances (`bounded`)."""

    head_bytes: ClassVar[int]
    head_seconds: ClassVar[float]
    body_seconds: ClassVar[float]
    is_stopped: ClassVar[bool] = False
    """The server takes no connections any more, also none that the kernel had taken for it already."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._phase: _Phase = "idle"
        self._unread_head = 0
        """Bytes that came while a head was incomplete."""
        self._headers = 0
        """Bytes of the headers that the parser has told."""
        self._deadline: asyncio.TimerHandle | None = None
        self._deadline_of: _Phase = "idle"

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if self.is_stopped:
            transport.abort()
        else:
            self._arm(self.head_seconds)

    def connection_lost(self, exc: Exception | None) -> None:
        self._disarm()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._phase == "idle":
            self._phase = "head"
        if self._phase == "head":
            self._unread_head += len(data)
        super().data_received(data)
        self._bound(self._phase)

    def _bound(self, phase: _Phase) -> None:
        """After more has come: what must arrive by when."""
        if phase == "idle" or self.transport.is_closing():
            self._disarm()
        elif phase == "head" and self._unread_head > self.head_bytes:
            self._refuse_head()
        elif self._deadline is None or self._deadline_of != phase:
            self._arm(self.head_seconds if phase == "head" else self.body_seconds)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._phase = "head"
        self._headers = 0

    def on_header(self, name: bytes, value: bytes) -> None:
        super().on_header(name, value)
        self._headers += len(name) + len(value) + 4
        if self._headers > self.head_bytes:
            raise _HeadTooLarge

    def on_headers_complete(self) -> None:
        self._phase = "body"
        self._unread_head = 0
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._phase = "idle"

    def send_400_response(self, msg: str) -> None:
        """What is no HTTP gets an answer in our shape."""
        if self._headers > self.head_bytes:
            self._refuse_head()
        else:
            self._refuse(BadRequest("this is not a well-formed HTTP request", code="invalid_http"))

    def _arm(self, seconds: float) -> None:
        self._disarm()
        self._deadline = self.loop.call_later(seconds, self._too_slow)
        self._deadline_of = self._phase

    def _disarm(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _too_slow(self) -> None:
        self._deadline = None
        if self._phase == "idle":
            self.transport.close()
        elif not self.transport.is_closing():
            self._refuse(RequestTimeout("the request did not arrive in time"))

    def _refuse_head(self) -> None:
        self._refuse(TooLarge(f"the head of the request is larger than {self.head_bytes} bytes"), status=431)

    def _refuse(self, error: HoldfastError, *, status: int | None = None) -> None:
        """The last word on this connection. Where an answer has begun, there is nothing left to say."""
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is None or not cycle.response_started or cycle.response_complete:
            status = status or error.status
            body = error_reply(error).body()
            self.transport.write(
                b"HTTP/1.1 %d %b\r\ncontent-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n%b"
                % (status, _REASONS[status], len(body), body)
            )
        self.transport.close()


def bounded(*, head_bytes: int, head_seconds: float, body_seconds: float) -> type[BoundedConnection]:
    """The protocol for one server's connections."""
    return type(
        "Connection",
        (BoundedConnection,),
        {"head_bytes": head_bytes, "head_seconds": head_seconds, "body_seconds": body_seconds},
    )
