"""Decode responses of older and newer servers as far as possible. Pure.

The schema ignores unknown fields. A value that only newer versions know (a reason, a state, a kind of part) is left
out, and the rest is decoded.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

import msgspec

from holdfast import errors
from holdfast.schema.base import make_decoder
from holdfast.schema.validation_errors import invalid_value

T = TypeVar("T")

UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_PROXY_STATUSES = frozenset({502, 503, 504})


def read_as(raw: bytes, shape: type[T]) -> T:
    """Decode a body of this type; raises `NotHoldfast` if even the lenient decoding fails."""
    known: Any = shape
    try:
        try:
            found: T = _decoder(known).decode(raw)
        except msgspec.ValidationError:
            found = convert_leniently(msgspec.json.decode(raw), shape)
    except msgspec.ValidationError as error:
        raise errors.NotHoldfast(f"the server's response does not have the expected fields: {error}") from None
    except UNREADABLE:
        raise errors.NotHoldfast("the server's response is not JSON; is this a Holdfast server?") from None
    return found


def read_error(status: int, raw: bytes) -> errors.HoldfastError:
    """The error in a response. The text of a response from another program is not repeated."""
    try:
        body = msgspec.json.decode(raw)["error"]
        code, message = body["code"], body["message"]
        detail = body.get("detail") or {}
    except (*UNREADABLE, TypeError, KeyError, AttributeError):
        return _foreign_response(status)
    if not isinstance(code, str) or not isinstance(detail, dict) or not _is_error_code(code):
        return _foreign_response(status)
    return _error_class(status, code)(str(message), code=code, detail=detail)


def _is_error_code(text: str) -> bool:
    """Words of lower-case letters, joined by underscores."""
    return all(word.isascii() and word.isalpha() and word.islower() for word in text.split("_"))


def _foreign_response(status: int) -> errors.HoldfastError:
    if status in _PROXY_STATUSES:
        return errors.Unreachable(f"a proxy answered with status {status}: it cannot reach the server")
    return errors.NotHoldfast(f"the response (status {status}) is not from a Holdfast server; check the address")


@cache
def _decoder(shape: Any) -> msgspec.json.Decoder[Any]:
    return make_decoder(shape)


def convert_leniently(value: Any, shape: Any) -> Any:
    """Remove each invalid value that the decoder names, until the rest is valid or the whole is invalid."""
    while True:
        try:
            return msgspec.convert(value, shape)
        except msgspec.ValidationError as error:
            path = invalid_value(error).path
            if path is None:
                raise
            *parents, last = path
            container = value
            for step in parents:
                container = container[step]
            del container[last]


_BY_STATUS: dict[int, type[errors.HoldfastError]] = {
    400: errors.BadRequest,
    401: errors.Unauthorized,
    403: errors.Forbidden,
    404: errors.NotFound,
    405: errors.BadRequest,
    409: errors.Conflict,
    410: errors.Gone,
    413: errors.TooLarge,
    415: errors.BadRequest,
    429: errors.TooMany,
    503: errors.ServerStopping,
    507: errors.StoreUnwritable,
}
"""For codes that refine an error (``session_not_found``), or that this version does not know."""


def _error_class(status: int, code: str) -> Callable[..., errors.HoldfastError]:
    if code in _error_classes():
        return _error_classes()[code]
    return _BY_STATUS.get(status, errors.BadRequest if 400 <= status < 500 else errors.InternalError)


@cache
def _error_classes() -> dict[str, type[errors.HoldfastError]]:
    found: dict[str, type[errors.HoldfastError]] = {}
    waiting: list[type[errors.HoldfastError]] = [errors.CallerError, errors.ServerError, errors.StoreError]
    waiting.append(errors.ModelError)
    while waiting:
        leaf = waiting.pop()
        waiting.extend(leaf.__subclasses__())
        if "code" in vars(leaf):
            found[leaf.code] = leaf
    return found
