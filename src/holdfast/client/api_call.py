"""A call is a value: what is asked, and how the answer is read. Pure but for the keys it makes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Generic, Literal, TypeAlias, TypeVar

from holdfast.client.response_decoding import read_as
from holdfast.errors import BadRequest
from holdfast.ids import Ids
from holdfast.schema.base import Value, encode

T = TypeVar("T")

Method: TypeAlias = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
NOTHING = type(None)
QueryValue: TypeAlias = str | int | float | bool | None

_PLAIN = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")


class Call(Value, Generic[T], frozen=True):
    """A request and how its answer is read."""

    method: Method
    target: str
    """Path and query."""
    read: Callable[[bytes], T]
    body: bytes | None = None
    wait: float = 0.0
    """Seconds the server was asked to wait before it answers."""
    key: str | None = None
    """Sent as ``Idempotency-Key``: the same call sent twice is done once."""

    @property
    def headers(self) -> dict[str, str]:
        return {} if self.key is None else {"Idempotency-Key": self.key}


def call(
    method: Method,
    target: str,
    body: object = None,
    *,
    answer: type[T],
    query: Mapping[str, QueryValue] | None = None,
    wait: float = 0.0,
) -> Call[T]:
    """Any route; ``answer`` is the type of what it answers, ``NoneType`` where that does not matter."""
    content = None if body is None else encoded(body)
    key = None if method == "GET" else Ids().new("key")
    return Call(method, with_query(target, query or {}), reader(answer), content, wait, key)


def encoded(body: object) -> bytes:
    try:
        return encode(body)
    except UnicodeEncodeError:
        raise _no_text() from None


def reader(answer: type[T]) -> Callable[[bytes], T]:
    """Reads a body of this type; whatever comes is nothing where nothing is wanted."""

    def read(raw: bytes) -> T:
        return read_as(b"null" if answer is NOTHING else raw, answer)

    return read


def path(*steps: str) -> str:
    """``/v1/…`` with ids made safe."""
    return "/v1/" + "/".join(quoted(step) for step in steps)


def quoted(text: str) -> str:
    try:
        return "".join(chr(byte) if byte in _PLAIN else f"%{byte:02X}" for byte in text.encode())
    except UnicodeEncodeError:
        raise _no_text() from None


def _no_text() -> BadRequest:
    """A program's arguments and file names may be bytes that are no text."""
    return BadRequest("what was given is not text in UTF-8, and cannot be sent")


def with_query(target: str, query: Mapping[str, QueryValue]) -> str:
    """What is ``None`` is not asked for."""
    pairs = [f"{name}={quoted(_shown(value))}" for name, value in query.items() if value is not None]
    return f"{target}?{'&'.join(pairs)}" if pairs else target


def _shown(value: QueryValue) -> str:
    return str(value).lower() if isinstance(value, bool) else f"{value}"
