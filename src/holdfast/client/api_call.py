"""API calls as values: the request, and how its answer is read. Pure except for the keys that are generated."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Generic, Literal, TypeAlias, TypeVar

from holdfast import __version__
from holdfast.client.response_decoding import read_as
from holdfast.errors import BadRequest, ConfigError
from holdfast.ids import Ids
from holdfast.schema.base import Value, encode

T = TypeVar("T")

Method: TypeAlias = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
NO_ANSWER = type(None)
QueryValue: TypeAlias = str | int | float | bool | None

_PLAIN = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")


class ApiCall(Value, Generic[T], frozen=True):
    """A request and how its answer is read."""

    method: Method
    target: str
    """Path and query."""
    read: Callable[[bytes], T]
    body: bytes | None = None
    wait: float = 0.0
    """Seconds that the server may wait before it answers."""
    key: str | None = None
    """Sent as ``Idempotency-Key``: a call that is sent twice is done once."""

    @property
    def headers(self) -> dict[str, str]:
        return {} if self.key is None else {"Idempotency-Key": self.key}


def api_call(
    method: Method,
    target: str,
    body: object = None,
    *,
    answer: type[T],
    query: Mapping[str, QueryValue] | None = None,
    wait: float = 0.0,
) -> ApiCall[T]:
    """A call of any route; ``answer`` is the type of its answer, ``NoneType`` to ignore it."""
    content = None if body is None else encode_body(body)
    key = None if method == "GET" else Ids().new("key")
    return ApiCall(method, with_query(target, query or {}), body_reader(answer), content, wait, key)


def encode_body(body: object) -> bytes:
    try:
        return encode(body)
    except UnicodeEncodeError:
        raise _not_text() from None


def body_reader(answer: type[T]) -> Callable[[bytes], T]:
    """Reads a body of this type; for `NO_ANSWER`, whatever the body is."""

    def read(raw: bytes) -> T:
        return read_as(b"null" if answer is NO_ANSWER else raw, answer)

    return read


def api_path(*steps: str) -> str:
    """``/v1/…`` with each step percent-encoded."""
    return "/v1/" + "/".join(quote(step) for step in steps)


def quote(text: str) -> str:
    try:
        return "".join(chr(byte) if byte in _PLAIN else f"%{byte:02X}" for byte in text.encode())
    except UnicodeEncodeError:
        raise _not_text() from None


def _not_text() -> BadRequest:
    """Arguments and file names of a process may be bytes that are not valid text."""
    return BadRequest("the request contains text that is not valid UTF-8; it cannot be sent")


def with_query(target: str, query: Mapping[str, QueryValue]) -> str:
    """Parameters that are ``None`` are left out."""
    pairs = [f"{name}={quote(_query_text(value))}" for name, value in query.items() if value is not None]
    return f"{target}?{'&'.join(pairs)}" if pairs else target


def _query_text(value: QueryValue) -> str:
    return str(value).lower() if isinstance(value, bool) else f"{value}"


def identity_headers(name: str, *, token: str | None) -> dict[str, str]:
    """Sent with every request: ``name/version id``, by which others see who asked (`W7`), and the token."""
    headers = {"X-Holdfast-Client": f"{name}/{__version__} {Ids().new('cli')}"}
    if token:
        if not token.isascii() or not token.isprintable() or " " in token:
            raise ConfigError("the server's token must be printable and without spaces; check HOLDFAST_TOKEN")
        headers["Authorization"] = f"Bearer {token}"
    return headers
