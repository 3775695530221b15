"""Responses: a value as JSON, bytes as they are, an error as its JSON body."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from typing import Any, Final, Protocol, TypeAlias

from holdfast.errors import HoldfastError
from holdfast.schema.base import encode
from holdfast.server.http.request_parsing import Receive
from holdfast.services.api_values import error_body

Scope: TypeAlias = MutableMapping[str, Any]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Header: TypeAlias = tuple[bytes, bytes]

UNFRAMED: Final = "holdfast.unframed"
"""The key of a request's scope for a function that leaves out the chunks of its response's body."""

JSON: Header = (b"content-type", b"application/json")
_ALWAYS: tuple[Header, ...] = ((b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff"))


_REASONS: Final = {
    200: b"OK",
    201: b"Created",
    202: b"Accepted",
    206: b"Partial Content",
    304: b"Not Modified",
    400: b"Bad Request",
    401: b"Unauthorized",
    403: b"Forbidden",
    404: b"Not Found",
    405: b"Method Not Allowed",
    408: b"Request Timeout",
    409: b"Conflict",
    410: b"Gone",
    413: b"Content Too Large",
    429: b"Too Many Requests",
    431: b"Request Header Fields Too Large",
    500: b"Internal Server Error",
    502: b"Bad Gateway",
    503: b"Service Unavailable",
    507: b"Insufficient Storage",
}
"""For people who look at the bytes; a response with another status has none."""


def status_line(status: int) -> bytes:
    return b"HTTP/1.1 %d %b\r\n" % (status, _REASONS.get(status, b""))


class AsgiApp(Protocol):
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None: ...


class JsonResponse:
    """A value that is sent as JSON."""

    __slots__ = ("headers", "status", "value")

    def __init__(self, value: object, *, status: int = 200, headers: Sequence[Header] = ()) -> None:
        self.value = value
        self.status = status
        self.headers = (JSON, *headers)

    def body(self) -> bytes:
        return encode(self.value)


class RawResponse:
    """Bytes that are sent as they are."""

    __slots__ = ("_body", "headers", "status")

    def __init__(self, body: bytes, *, status: int = 200, media_type: bytes = b"application/json") -> None:
        self._body = body
        self.status = status
        self.headers: tuple[Header, ...] = ((b"content-type", media_type),)

    def body(self) -> bytes:
        return self._body


ApiResponse: TypeAlias = JsonResponse | RawResponse


def error_response(error: HoldfastError, *, headers: Sequence[Header] = ()) -> JsonResponse:
    return JsonResponse(error_body(error), status=error.status, headers=headers)


async def send_response(send: Send, response: ApiResponse, *, redact: Callable[[bytes], bytes]) -> None:
    body = redact(response.body())
    headers = [*response.headers, (b"content-length", b"%d" % len(body)), *_ALWAYS]
    await send({"type": "http.response.start", "status": response.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
