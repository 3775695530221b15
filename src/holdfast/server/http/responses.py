"""What goes out: values as JSON, errors in one shape, and the few answers that are no JSON."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from typing import Any, TypeAlias

from holdfast.errors import HoldfastError
from holdfast.schema.api.response_bodies import ErrorBody, ErrorDetail
from holdfast.schema.base import encode

Scope: TypeAlias = MutableMapping[str, Any]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Header: TypeAlias = tuple[bytes, bytes]

JSON: Header = (b"content-type", b"application/json")
_FIXED: tuple[Header, ...] = ((b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff"))


class Reply:
    """A value and how it is answered."""

    __slots__ = ("headers", "status", "value")

    def __init__(self, value: object, *, status: int = 200, headers: Sequence[Header] = ()) -> None:
        self.value = value
        self.status = status
        self.headers = tuple(headers)

    def body(self) -> bytes:
        return encode(self.value)


class Raw(Reply):
    """Bytes that are an answer already."""

    __slots__ = ("kind",)

    def __init__(self, body: bytes, *, status: int = 200, kind: bytes = b"application/json") -> None:
        super().__init__(body, status=status)
        self.kind = kind

    def body(self) -> bytes:
        return bytes(self.value)  # type: ignore[call-overload, no-any-return]


def error_reply(error: HoldfastError, *, headers: Sequence[Header] = ()) -> Reply:
    detail = ErrorDetail(error.error_code, error.message, error.detail)
    return Reply(ErrorBody(detail), status=error.status, headers=headers)


async def send_bytes(send: Send, status: int, body: bytes, *, headers: Sequence[Header] = (JSON,)) -> None:
    length = (b"content-length", b"%d" % len(body))
    await send({"type": "http.response.start", "status": status, "headers": [*headers, length, *_FIXED]})
    await send({"type": "http.response.body", "body": body})
