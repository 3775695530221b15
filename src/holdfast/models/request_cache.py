"""Remembers what a wire made of a conversation, so that the next request costs what it adds.

A turn's requests grow at their end: the messages before are the very same objects. What they became is kept, the older
part of it already as JSON. A conversation that goes on differently is made anew.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from operator import is_
from typing import Any, Protocol, TypeVar

import msgspec

from holdfast.schema.base import repair_text
from holdfast.schema.messages import Message

_LOOSE = 8
"""Items at the end that stay as they are: wires still add to them and mark them."""


class RequestItems(Protocol):
    """A conversation in a wire's own terms, made message by message."""

    said: list[Any]
    """The items of the request; from the first on they may be replaced by their JSON."""

    def add(self, message: Message) -> None: ...

    @property
    def settled(self) -> int:
        """How many of the items will not be looked at again."""


S = TypeVar("S", bound=RequestItems)


class RequestCache:
    """Of one conversation with one model."""

    def __init__(self) -> None:
        self._messages: tuple[Message, ...] = ()
        self._spoken: Any = None
        self._written = 0

    def recall(self, messages: tuple[Message, ...], begin: Callable[[], S]) -> S:
        """What these messages are on a wire. ``begin`` makes an empty conversation."""
        known = self._messages
        if self._spoken is None or len(known) > len(messages) or not all(map(is_, known, messages)):
            self._spoken, self._written, known = begin(), 0, ()
        spoken: S = self._spoken
        for message in messages[len(known) :]:
            spoken.add(message)
        self._messages = messages
        self._write(spoken)
        return spoken

    def _write(self, spoken: RequestItems) -> None:
        said = spoken.said
        upto = min(len(said) - _LOOSE, spoken.settled)
        for place in range(self._written, upto):
            said[place] = msgspec.Raw(encoded(said[place]))
        self._written = max(self._written, upto)


def request_items(messages: tuple[Message, ...], memory: RequestCache | None, begin: Callable[[], S]) -> S:
    """With a memory what is new is added to it; without one everything is made now and stays readable."""
    if memory is not None:
        return memory.recall(messages, begin)
    spoken = begin()
    for message in messages:
        spoken.add(message)
    return spoken


def encoded(body: Any) -> bytes:
    """JSON. Text was repaired where it entered; should some have slipped by, it is repaired here, not fatal."""
    try:
        return msgspec.json.encode(body)
    except UnicodeEncodeError:
        return repair_text(json.dumps(body, ensure_ascii=False, separators=(",", ":"), default=_read)).encode()


def _read(value: Any) -> Any:
    if isinstance(value, msgspec.Raw):
        return msgspec.json.decode(value)
    raise TypeError(f"a request cannot hold {type(value).__name__}")
