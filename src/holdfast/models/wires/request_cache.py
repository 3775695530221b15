"""Keeps the converted messages of a conversation, so that a request costs only what it adds.

The requests of a conversation grow at their end: the earlier messages are the same objects. Their converted items are
kept, the older ones as encoded JSON. If a request does not continue the cached one, or goes to another model, all
messages are converted again.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from operator import is_
from typing import Any, Protocol, TypeVar

import msgspec

from holdfast.schema.base import repair_text
from holdfast.schema.messages import Message

_NOT_ENCODED = 8
"""The number of items at the end that are never encoded, because wires extend and mark them."""


class RequestItems(Protocol):
    """The messages of a request in a wire's form, added one at a time."""

    items: list[Any]
    """Settled items may be replaced by their JSON, from the first on."""

    def add(self, message: Message) -> None: ...

    @property
    def settled(self) -> int:
        """The number of items that will not change."""


Items = TypeVar("Items", bound=RequestItems)


class RequestCache:
    """The converted messages of one conversation."""

    def __init__(self) -> None:
        self._owner: object = None
        self._messages: tuple[Message, ...] = ()
        self._items: Any = None
        self._encoded = 0

    def use_for(self, owner: object) -> RequestCache:
        """Use it for requests of this kind, which equals itself. What was converted for another kind is forgotten."""
        if self._owner != owner:
            self._owner, self._items = owner, None
        return self

    def update(self, messages: tuple[Message, ...], create: Callable[[], Items]) -> Items:
        """Return the items of these messages. ``create`` makes an empty conversation."""
        known = self._messages
        if self._items is None or len(known) > len(messages) or not all(map(is_, known, messages)):
            self._items, self._encoded, known = create(), 0, ()
        built: Items = self._items
        for message in messages[len(known) :]:
            built.add(message)
        self._messages = messages
        self._encode_settled(built)
        return built

    def _encode_settled(self, built: RequestItems) -> None:
        end = min(len(built.items) - _NOT_ENCODED, built.settled)
        for index in range(self._encoded, end):
            built.items[index] = msgspec.Raw(encode_body(built.items[index]))
        self._encoded = max(self._encoded, end)


def build_items(messages: tuple[Message, ...], cache: RequestCache | None, create: Callable[[], Items]) -> Items:
    """Convert messages to items, through the cache if there is one. Without a cache no item is encoded."""
    if cache is not None:
        return cache.update(messages, create)
    built = create()
    for message in messages:
        built.add(message)
    return built


def encode_body(body: Any) -> bytes:
    """Encode as JSON. Lone surrogates are replaced; text should be repaired where it enters."""
    try:
        return msgspec.json.encode(body)
    except UnicodeEncodeError:
        return repair_text(json.dumps(body, ensure_ascii=False, separators=(",", ":"), default=_decode_raw)).encode()


def _decode_raw(value: Any) -> Any:
    if isinstance(value, msgspec.Raw):
        return msgspec.json.decode(value)
    raise TypeError(f"a request cannot contain {type(value).__name__}")
