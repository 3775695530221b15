"""A request of the API as a value: what is sent, and how its response is decoded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Generic, Literal, TypeAlias, TypeVar

import msgspec

from holdfast.client.response_decoding import read_as
from holdfast.errors import BadRequest
from holdfast.ids import Ids
from holdfast.schema.base import Value, encode

T = TypeVar("T")

Method: TypeAlias = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
QueryValue: TypeAlias = str | int | float | bool | None

_UNRESERVED = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")


class ApiCall(Value, Generic[T], frozen=True):
    """A request, and how its response is decoded."""

    method: Method
    target: str
    """Path and query."""
    read: Callable[[bytes], T]
    body: bytes | None = None
    wait: float = 0.0
    """Seconds that the server may take in addition to the client's usual time-out."""
    key: str | None = None
    """Sent as ``Idempotency-Key``: a call that is sent twice has its effect once."""

    @property
    def headers(self) -> dict[str, str]:
        return {} if self.key is None else {"Idempotency-Key": self.key}


def api_call(
    method: Method,
    target: str,
    body: object = None,
    *,
    returns: type[T],
    query: Mapping[str, QueryValue] | None = None,
    wait: float = 0.0,
) -> ApiCall[T]:
    """A call of any route. ``returns`` is the type of the response body; ``NoneType`` ignores the body."""
    content = None if body is None else encode_body(body)
    key = None if method == "GET" else Ids().new("key")
    return ApiCall(method, with_query(target, query or {}), body_reader(returns), content, wait, key)


def api_path(*steps: str) -> str:
    """``/v1/…`` with each step percent-encoded."""
    return "/v1/" + "/".join(_quote(step) for step in steps)


def with_query(target: str, query: Mapping[str, QueryValue]) -> str:
    """Parameters that are ``None`` are left out."""
    pairs = [f"{name}={_quote(_query_text(value))}" for name, value in query.items() if value is not None]
    return f"{target}?{'&'.join(pairs)}" if pairs else target


def without_none(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def encode_body(body: object) -> bytes:
    try:
        return encode(body)
    except UnicodeEncodeError:
        raise _invalid_text() from None
    except (TypeError, NotImplementedError) as error:
        raise _not_json(error) from None


def fields_of(body: Value) -> dict[str, Any]:
    """The fields of a body, to add some."""
    try:
        found: dict[str, Any] = msgspec.to_builtins(body)
    except TypeError as error:
        raise _not_json(error) from None
    return found


def body_reader(returns: type[T]) -> Callable[[bytes], T]:
    def read(raw: bytes) -> T:
        return read_as(b"null" if returns is type(None) else raw, returns)

    return read


def read_text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")


def _quote(text: str) -> str:
    try:
        return "".join(chr(byte) if byte in _UNRESERVED else f"%{byte:02X}" for byte in text.encode())
    except UnicodeEncodeError:
        raise _invalid_text() from None


def _query_text(value: QueryValue) -> str:
    return str(value).lower() if isinstance(value, bool) else f"{value}"


def _not_json(error: Exception) -> BadRequest:
    return BadRequest(f"the request cannot be written as JSON: {error}")


def _invalid_text() -> BadRequest:
    """Arguments and file names of a process may contain bytes that are not UTF-8."""
    return BadRequest("the request contains text that is not valid UTF-8; it cannot be sent")
