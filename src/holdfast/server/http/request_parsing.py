"""Requests, read strictly: bodies within bounds, JSON of exactly the declared shape, parameters that mean something."""

from __future__ import annotations

import json
import math
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Generic, TypeAlias, TypeVar, get_origin
from urllib.parse import parse_qsl

import msgspec

from holdfast.errors import BadRequest, TooLarge
from holdfast.schema.base import repair_text
from holdfast.schema.validation_errors import invalid_value

T = TypeVar("T")
S = TypeVar("S", bound=msgspec.Struct)

Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]

DEEPEST = 64
"""Levels of nesting that a body may have; no shape of ours comes near."""

_MOST_PARAMETERS = 32


class ClientLeft(Exception):
    """The caller went away before its request was complete. There is nobody to answer."""


async def read_body(receive: Receive, *, length: bytes | None, limit: int) -> bytes:
    """The whole body. One that is too large is read a little further, so that its sender hears why, then refused."""
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
            raise ClientLeft
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
    """Exactly this shape, or `BadRequest` that says where it differs. No body at all counts as an empty object."""
    if not body:
        body = b"{}"
    elif content_type is not None and content_type.split(b";")[0].strip().lower() != b"application/json":
        raise BadRequest(f"the body must be application/json, not {content_type[:80].decode('latin-1')!r}")
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as error:
        if invalid_value(error).got == "float":
            return _decode_again(body, decoder.type)
        raise _invalid("request body", error) from None
    except UnicodeDecodeError:
        raise BadRequest("the body is not UTF-8") from None
    except msgspec.DecodeError as error:
        if b"\\ud" in body.lower():
            return _decode_again(body, decoder.type)
        raise BadRequest(f"the body is not JSON: {error}") from None
    except RecursionError:
        raise BadRequest("the body is nested too deeply") from None


def check_depth(value: object, *, name: str) -> None:
    """For free-form parts of a body: what was read must also be writable later."""
    level: list[object] = [value]
    for _ in range(DEEPEST + 1):
        below: list[object] = []
        for one in level:
            if isinstance(one, dict):
                below.extend(one.values())
            elif isinstance(one, list):
                below.extend(one)
        if not below:
            return
        level = below
    raise BadRequest(f"{name!r} is nested more than {DEEPEST} levels deep", detail={"field": name})


class QueryReader(Generic[S]):
    """Reads the parameters of an address. Unknown ones, repeated ones and those of a wrong type are refused by name."""

    def __init__(self, shape: type[S]) -> None:
        self._shape = shape
        fields = msgspec.structs.fields(shape)
        self._lists = {field.name for field in fields if (get_origin(field.type) or field.type) in (list, tuple)}
        self._empty = None if any(field.required for field in fields) else shape()

    def read(self, query: bytes) -> S:
        if not query and self._empty is not None:
            return self._empty
        given = self._given(query)
        try:
            found = msgspec.convert(given, self._shape, strict=False)
        except msgspec.ValidationError as error:
            raise _invalid("query", error) from None
        for name, text in given.items():
            value = getattr(found, name)
            if value is None or (isinstance(value, float) and not math.isfinite(value)):
                raise BadRequest(f"parameter {name!r} cannot be {text!r}", detail={"field": name})
        return found

    def _given(self, query: bytes) -> dict[str, Any]:
        given: dict[str, Any] = {}
        for name, value in _pairs(query):
            if name in self._lists:
                given.setdefault(name, []).append(value)
            elif name in given:
                raise BadRequest(f"parameter {name!r} is given twice", detail={"field": name})
            else:
                given[name] = value
        return given


def _pairs(query: bytes) -> list[tuple[str, str]]:
    if not query:
        return []
    try:
        text = query.decode("ascii")
        return parse_qsl(
            text, keep_blank_values=True, strict_parsing=True, errors="strict", max_num_fields=_MOST_PARAMETERS
        )
    except (UnicodeDecodeError, ValueError):
        raise BadRequest("the query is not a list of name=value pairs in UTF-8") from None


def _decode_again(body: bytes, shape: type[T]) -> T:
    """Half a surrogate pair is no reason to refuse what somebody typed, and ``2.0`` is an integer in JSON."""
    try:
        found = _repair(json.loads(body, parse_constant=_refuse_constant))
        return msgspec.convert(found, shape)
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
            return [_repair(one) for one in value]
        case dict():
            return {repair_text(name): _repair(one) for name, one in value.items()}
        case _:
            return value


def _invalid(what: str, error: msgspec.ValidationError) -> BadRequest:
    field = invalid_value(error).field
    return BadRequest(f"invalid {what}: {error}", detail={"field": field} if field else {})
