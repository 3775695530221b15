"""Decode what a session consists of, messages and events, of older and newer servers as far as possible. Pure."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast import errors
from holdfast.client.response_decoding import UNREADABLE, convert_leniently, read_as
from holdfast.schema.api.response_bodies import PageView
from holdfast.schema.base import Unknown
from holdfast.schema.events import Event, KnownDurable, KnownLive, read_event
from holdfast.schema.messages import Message, read_message

_ANY_EVENT: Any = KnownDurable | KnownLive


def read_messages(raw: bytes) -> PageView[Message]:
    """A page of messages. Parts of unknown types keep their places, because deltas refer to parts by number."""
    page = read_as(raw, PageView[msgspec.Raw])
    try:
        return PageView(tuple(read_message(item) for item in page.items), page.cursor, page.next)
    except msgspec.ValidationError as error:
        raise errors.NotHoldfast(f"the server sent a message that cannot be read: {error}") from None


def read_stream_event(raw: bytes) -> Event:
    """An event of a stream; `Unknown` if this version does not know it. Raises `NotHoldfast` if it is not JSON."""
    try:
        event = read_event(raw)
        return _known_event(event, raw) if isinstance(event, Unknown) else event
    except UNREADABLE:
        raise errors.NotHoldfast("the stream contains an event that is not JSON") from None


def _known_event(event: Unknown, raw: bytes) -> Event:
    try:
        found: Event = convert_leniently(msgspec.json.decode(raw), _ANY_EVENT)
    except msgspec.ValidationError:
        return event
    return found
