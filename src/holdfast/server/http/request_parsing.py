"""Strict reading of requests: bodies within a limit, JSON of the declared type, known parameters and headers."""

from __future__ import annotations

import math
import re
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Generic, TypeAlias, TypeVar, get_origin
from urllib.parse import parse_qsl

import msgspec

from holdfast.digests import sha256_hex
from holdfast.errors import BadRequest, TooLarge
from holdfast.schema.base import repair_text
from holdfast.schema.validation_errors import invalid_value
from holdfast.services.presence import Caller

T = TypeVar("T")
S = TypeVar("S", bound=msgspec.Struct)

Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]

HEADERS = "holdfast.headers"
"""The key in the ASGI scope of the request's headers, as a dictionary with lower-case names."""

CLIENT_HEADER = "X-Holdfast-Client"
CLIENT_PATTERN = r"^[!-~]{1,64}( [!-~]{1,64})?$"
CLIENT_WITH_ID_PATTERN = r"^[!-~]{1,64} [!-~]{1,64}$"
_CLIENT = re.compile(rb"[!-~]{1,64}( [!-~]{1,64})?")

KEY_HEADER = "Idempotency-Key"
KEY_PATTERN = r"^[!-~]{1,128}$"
_KEY = re.compile(rb"[!-~]{1,128}")

_MAX_PARAMETERS = 32


class ClientDisconnected(Exception):
    """The client disconnected before its request was complete. There is nothing to answer."""


async def wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def read_body(receive: Receive, *, length: bytes | None, limit: int) -> bytes:
    """Read the whole body. One that is too large is read a little further, so that the client gets the error."""
    if length is not None and length.isdigit() and int(length) > 2 * limit:
        raise _too_large(limit)
    message = await receive()
    if message["type"] == "http.request" and not message.get("more_body") and len(message["body"]) <= limit:
        body: bytes = message["body"]
        return body
    pieces: list[bytes] = []
    size = 0
    while True:
        if message["type"] == "http.disconnect":
            raise ClientDisconnected
        piece = message.get("body", b"")
        size += len(piece)
        if size <= limit:
            pieces.append(piece)
        more = message.get("more_body", False)
        if size > 2 * limit or (not more and size > limit):
            raise _too_large(limit)
        if not more:
            return b"".join(pieces)
        message = await receive()


def _too_large(limit: int) -> TooLarge:
    return TooLarge(f"the body is larger than {limit} bytes; send less", detail={"limit": limit})


def decode_body(body: bytes, decoder: msgspec.json.Decoder[T], *, content_type: bytes | None) -> T:
    """Decode JSON of exactly this type; `BadRequest` names the wrong field. An empty body is an empty object."""
    if not body:
        body = b"{}"
    elif content_type is not None and content_type.split(b";")[0].strip().lower() != b"application/json":
        raise BadRequest(f"the body must be application/json, not {content_type[:80].decode('latin-1')!r}")
    try:
        return decoder.decode(body)
    except msgspec.ValidationError:
        return _decode_leniently(body, decoder.type)
    except UnicodeDecodeError:
        raise BadRequest("the body is not UTF-8") from None
    except msgspec.DecodeError as error:
        if b"\\ud" in body.lower():
            return _decode_leniently(body, decoder.type)
        raise BadRequest(f"the body is not JSON: {error}") from None
    except RecursionError:
        raise BadRequest("the body is nested too deeply") from None


def read_caller(value: bytes | None) -> Caller:
    """The client that the ``X-Holdfast-Client`` header names."""
    if value is None:
        return Caller()
    if _CLIENT.fullmatch(value) is None:
        raise BadRequest(
            f"{CLIENT_HEADER} must be 'name/version id' in printable ASCII, with one space at most; got {value[:80]!r}",
            detail={"field": CLIENT_HEADER},
        )
    name, _, client_id = value.decode("ascii").partition(" ")
    return Caller(name, client_id)


def read_key(value: bytes | None) -> str | None:
    """The key in the ``Idempotency-Key`` header."""
    if value is None:
        return None
    if _KEY.fullmatch(value) is None:
        raise BadRequest(
            f"{KEY_HEADER} must be 1 to 128 printable characters without spaces", detail={"field": KEY_HEADER}
        )
    return value.decode("ascii")


def request_hash(method: str, path: str, query: bytes, body: bytes) -> str:
    """A hash of a request with an idempotency key. It is stored."""
    pieces = (method.encode(), path.encode("utf-8", "surrogateescape"), query, body)
    return sha256_hex(b"".join(b"%d:%b" % (len(piece), piece) for piece in pieces))


class QueryReader(Generic[S]):
    """Reads query parameters. `BadRequest` names one that is unknown, repeated or of a wrong type."""

    def __init__(self, query_type: type[S]) -> None:
        self._type = query_type
        fields = msgspec.structs.fields(query_type)
        self._lists = {field.name for field in fields if (get_origin(field.type) or field.type) in (list, tuple)}
        self._empty = None if any(field.required for field in fields) else query_type()

    def read(self, query: bytes) -> S:
        if not query and self._empty is not None:
            return self._empty
        given = self._given(query)
        try:
            parameters = msgspec.convert(given, self._type, strict=False)
        except msgspec.ValidationError as error:
            raise _invalid("query", error) from None
        for name, text in given.items():
            value = getattr(parameters, name)
            if value is None or (isinstance(value, float) and not math.isfinite(value)):
                raise BadRequest(f"parameter {name!r} cannot be {text!r}", detail={"field": name})
        return parameters

    def _given(self, query: bytes) -> dict[str, Any]:
        given: dict[str, Any] = {}
        for name, value in _parse_query(query):
            if name in self._lists:
                given.setdefault(name, []).append(value)
            elif name in given:
                raise BadRequest(f"parameter {name!r} is given twice", detail={"field": name})
            else:
                given[name] = value
        return given


def _parse_query(query: bytes) -> list[tuple[str, str]]:
    if not query:
        return []
    try:
        text = query.decode("ascii")
        return parse_qsl(
            text, keep_blank_values=True, strict_parsing=True, errors="strict", max_num_fields=_MAX_PARAMETERS
        )
    except (UnicodeDecodeError, ValueError):
        raise BadRequest("the query is not a list of name=value pairs in UTF-8") from None


def _decode_leniently(body: bytes, body_type: type[T]) -> T:
    """Decode with half surrogate pairs replaced, and with ``2.0`` read as an integer as JSON allows."""
    import json  # not above: few bodies need it

    try:
        return msgspec.convert(_repair(json.loads(body, parse_constant=_refuse_constant)), body_type)
    except msgspec.ValidationError as error:
        raise _invalid("request body", error) from None
    except (ValueError, RecursionError):
        raise BadRequest("the body is not JSON, or nested too deeply") from None


def _refuse_constant(name: str) -> object:
    raise ValueError(name)


def _repair(value: Any) -> Any:
    match value:
        case str():
            return repair_text(value)
        case float() if value.is_integer():
            return int(value)
        case list():
            return [_repair(item) for item in value]
        case dict():
            return {repair_text(name): _repair(item) for name, item in value.items()}
        case _:
            return value


def _invalid(what: str, error: msgspec.ValidationError) -> BadRequest:
    field = invalid_value(error).field
    return BadRequest(f"invalid {what}: {error}", detail={"field": field} if field else {})
