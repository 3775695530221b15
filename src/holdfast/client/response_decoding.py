"""Answers and events, read so that an older or newer server is understood as far as possible. Pure.

Unknown fields are ignored by the words themselves. What a newer server says in a field that this version knows (a
reason, a state, a kind of part) is left out rather than making the whole unreadable.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

import msgspec

from holdfast import errors
from holdfast.schema.api.response_bodies import PageView
from holdfast.schema.base import Unknown
from holdfast.schema.events import Event, KnownDurable, KnownLive, read_event
from holdfast.schema.messages import Message, read_message

T = TypeVar("T")

_PLACE = re.compile(r"at `\$((?:\.\w+|\[\d+\])+)`$")
_STEP = re.compile(r"\.(\w+)|\[(\d+)\]")
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_PROXIES_SAY = frozenset({502, 503, 504})
_OURS = re.compile(r"[a-z]+(?:_[a-z]+)*")


def read_as(raw: bytes, shape: type[T]) -> T:
    """A body of this shape; `NotOurs` where even the lenient reading finds none."""
    known: Any = shape
    try:
        try:
            found: T = _decoder(known).decode(raw)
        except msgspec.ValidationError:
            found = _without_the_unknown(msgspec.json.decode(raw), shape)
    except msgspec.ValidationError as error:
        raise errors.NotOurs(f"the server's answer has another shape than expected: {error}") from None
    except _UNREADABLE:
        raise errors.NotOurs("the server's answer is not JSON; is this a Holdfast server?") from None
    return found


def read_messages(raw: bytes) -> PageView[Message]:
    """A page of messages; parts of unknown types stay in their places, since deltas count parts."""
    page = read_as(raw, PageView[msgspec.Raw])
    try:
        return PageView(tuple(read_message(item) for item in page.items), page.cursor, page.next)
    except msgspec.ValidationError as error:
        raise errors.NotOurs(f"the server sent a message that cannot be read: {error}") from None


def read_stream_event(raw: bytes) -> Event:
    """An event of a stream; `Unknown` where this version can make nothing of it, `NotOurs` if it is no JSON."""
    try:
        event = read_event(raw)
        return _known_event(event, raw) if isinstance(event, Unknown) else event
    except _UNREADABLE:
        raise errors.NotOurs("the stream carries something that is not JSON") from None


def _known_event(event: Unknown, raw: bytes) -> Event:
    try:
        found: Event = _without_the_unknown(msgspec.json.decode(raw), _ANY_EVENT)
    except msgspec.ValidationError:
        return event
    return found


def read_error(status: int, raw: bytes) -> errors.HoldfastError:
    """The leaf of our tree that an answer means. What is not in our shape is somebody else's, and not repeated."""
    try:
        said = msgspec.json.decode(raw)["error"]
        code, message = said["code"], said["message"]
        detail = said.get("detail") or {}
    except (*_UNREADABLE, TypeError, KeyError, AttributeError):
        return _foreign(status)
    if not isinstance(code, str) or not isinstance(detail, dict) or not _OURS.fullmatch(code):
        return _foreign(status)
    return _leaf(status, code)(str(message), code=code, detail=detail)


def _foreign(status: int) -> errors.HoldfastError:
    if status in _PROXIES_SAY:
        return errors.Unreachable(f"something before the server answered with status {status}: it cannot reach it")
    return errors.NotOurs(f"the answer has status {status} and is not a Holdfast server's; check the address")


@cache
def _decoder(shape: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(shape)


def _without_the_unknown(value: Any, shape: Any) -> Any:
    """Read again without each thing that the reader objects to, until it objects to nothing or to the whole."""
    while True:
        try:
            return msgspec.convert(value, shape)
        except msgspec.ValidationError as error:
            found = _PLACE.search(str(error))
            if found is None:
                raise
            *way, last = [int(index) if index else name for name, index in _STEP.findall(found[1])]
            holder = value
            for step in way:
                holder = holder[step]
            del holder[last]


_ANY_EVENT: Any = KnownDurable | KnownLive

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
    503: errors.Stopping,
    507: errors.StoreUnwritable,
}
"""For codes that refine a leaf (``session_not_found``), or that this version does not know."""


def _leaf(status: int, code: str) -> Callable[..., errors.HoldfastError]:
    if code in _leaves():
        return _leaves()[code]
    return _BY_STATUS.get(status, errors.BadRequest if 400 <= status < 500 else errors.Internal)


@cache
def _leaves() -> dict[str, type[errors.HoldfastError]]:
    found: dict[str, type[errors.HoldfastError]] = {}
    waiting: list[type[errors.HoldfastError]] = [errors.CallerError, errors.ServerError, errors.StoreError]
    waiting.append(errors.ModelError)
    while waiting:
        leaf = waiting.pop()
        waiting.extend(leaf.__subclasses__())
        if "code" in vars(leaf):
            found[leaf.code] = leaf
    return found
