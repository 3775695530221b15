"""Live state: the open parts of messages, and notices such as progress. None of it is stored.

There is no queue of deltas. A part is a growing text, and a subscriber has an offset into it. A fast subscriber gets
each piece as it arrives. A slow one gets larger pieces that continue at its offset. So a subscriber costs one number
per open part, however far behind it is (`E4`).
"""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Collection
from typing import TypeAlias

import msgspec

from holdfast.events.stream_item import StreamItem
from holdfast.schema import events
from holdfast.schema.base import encode
from holdfast.schema.events import DeltaKind

MAX_DELTA_LENGTH = 64 * 1024
"""Maximum code points of one delta."""
_JOIN_AFTER_PIECES = 1024
"""Pieces are joined when there are this many, because each one costs memory."""
_MAX_NOTICES = 1024

Timestamp: TypeAlias = Callable[[], str]
"""Return the current time in the format of events."""


class PartText:
    """A growing text that can be sliced at any code point."""

    __slots__ = ("_joined", "_pieces", "_starts", "length")

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._starts: list[int] = []
        self._joined = 0
        """How many pieces at the front are joined already."""
        self.length = 0

    def append(self, text: str) -> None:
        self._pieces.append(text)
        self._starts.append(self.length)
        self.length += len(text)
        if len(self._pieces) - self._joined >= _JOIN_AFTER_PIECES:
            start = self._starts[self._joined]
            self._pieces[self._joined :] = ["".join(self._pieces[self._joined :])]
            self._starts[self._joined :] = [start]
            self._joined += 1

    def slice(self, start: int, end: int) -> str:
        if start >= end:
            return ""
        first = bisect_right(self._starts, start) - 1
        last = bisect_right(self._starts, end - 1)
        joined = "".join(self._pieces[first:last])
        offset = self._starts[first]
        return joined[start - offset : end - offset]

    def __str__(self) -> str:
        return "".join(self._pieces)


class LivePart:
    __slots__ = ("attempt", "call_id", "last_delta", "name", "of", "text")

    def __init__(self, *, attempt: int, of: DeltaKind, call_id: str | None, name: str | None) -> None:
        self.attempt = attempt
        self.of = of
        self.call_id = call_id
        self.name = name
        self.text = PartText()
        self.last_delta: tuple[int, int, StreamItem] | None = None
        """Start, end and encoding of the latest delta. Most subscribers need the same one."""


class LiveMessage:
    """The open parts of one message, and the offsets of each subscriber in them."""

    __slots__ = (
        "_attempt",
        "_generation",
        "_positions",
        "_snapshot",
        "_stored_parts",
        "id",
        "opened_at",
        "parts",
        "revision",
        "session_id",
    )

    def __init__(self, message_id: str, *, session_id: str, revision: int) -> None:
        self.id = message_id
        self.session_id = session_id
        self.parts: dict[int, LivePart] = {}
        self.opened_at = revision
        self.revision = revision
        """The revision of the live state in which this message last changed."""
        self._attempt = 0
        self._stored_parts = 0
        """How many parts a durable event has contained. They are not open any more."""
        self._generation = 0
        """Grows when text is withdrawn. A subscriber of an older generation needs a snapshot."""
        self._positions: dict[object, tuple[int, dict[int, int]]] = {}
        """By subscriber: its generation, and its offset in each part."""
        self._snapshot: StreamItem | None = None

    def append(
        self, part: int, text: str, *, attempt: int, of: DeltaKind, call_id: str | None, name: str | None
    ) -> bool:
        """Add text to a part. Return False if the part is stored already or the attempt was replaced."""
        if attempt != self._attempt and of != "output":
            if attempt < self._attempt:
                return False
            self.restart(attempt)
        live = self.parts.get(part)
        if live is None:
            if part < self._stored_parts and of != "output":
                return False
            live = self.parts[part] = LivePart(attempt=attempt, of=of, call_id=call_id, name=name)
        live.text.append(text)
        live.last_delta = None
        self._snapshot = None
        return True

    def restart(self, attempt: int) -> None:
        """Withdraw the text of the previous attempt (`R13`). Do nothing if the attempt is not newer."""
        if attempt <= self._attempt:
            return
        self._attempt = attempt
        self._stored_parts = 0
        withdrawn = [number for number, part in self.parts.items() if part.of != "output"]
        if withdrawn:
            self._drop(withdrawn)
            self._generation += 1

    def mark_stored(self, count: int) -> None:
        """Close the first `count` parts: a durable event contains them whole."""
        self._stored_parts = count
        self._drop([number for number, part in self.parts.items() if number < count and part.of != "output"])

    def close_outputs(self, call_ids: Collection[str]) -> None:
        """Close the live output of these calls: a durable event contains their results."""
        self._drop([n for n, part in self.parts.items() if part.of == "output" and part.call_id in call_ids])

    @property
    def is_finished_output(self) -> bool:
        """Whether the message only ever had live output of calls, and all of it is closed."""
        return not self.parts and self._attempt == 0

    def _drop(self, numbers: list[int]) -> None:
        for number in numbers:
            del self.parts[number]
            for _, offsets in self._positions.values():
                offsets.pop(number, None)
        if numbers:
            self._snapshot = None

    def forget(self, subscriber: object) -> None:
        """Drop the subscriber's position. It gets a snapshot next."""
        self._positions.pop(subscriber, None)

    def next_item_for(self, subscriber: object, *, synced_at: int, timestamp: Timestamp) -> StreamItem | None:
        """Return a snapshot, or a delta that continues at the subscriber's offset; None if it is up to date.

        ``synced_at`` is the revision at which the subscriber had everything. A message opened later needs no snapshot.
        """
        position = self._positions.get(subscriber)
        if position is None and self.opened_at > synced_at:
            position = self._positions[subscriber] = (self._generation, {})
        if position is None or position[0] != self._generation:
            return self._snapshot_for(subscriber, timestamp) if self.parts or position is not None else None
        offsets = position[1]
        for number, part in self.parts.items():
            offset = offsets.get(number)
            if offset is None and (part.call_id or part.name):  # deltas do not carry these, snapshots do
                return self._snapshot_for(subscriber, timestamp)
            start = offset or 0
            if start < part.text.length:
                end = offsets[number] = min(part.text.length, start + MAX_DELTA_LENGTH)
                return self._encode_delta(number, part, start, end, timestamp)
        return None

    def _snapshot_for(self, subscriber: object, timestamp: Timestamp) -> StreamItem:
        self._positions[subscriber] = (self._generation, {n: part.text.length for n, part in self.parts.items()})
        if self._snapshot is None:
            parts = tuple(
                events.OpenPart(
                    part=number,
                    attempt=part.attempt,
                    of=part.of,
                    text=str(part.text),
                    call_id=part.call_id,
                    name=part.name,
                )
                for number, part in sorted(self.parts.items())
            )
            self._snapshot = encode_snapshot(self.session_id, self.id, parts, timestamp)
        return self._snapshot

    def _encode_delta(self, number: int, part: LivePart, start: int, end: int, timestamp: Timestamp) -> StreamItem:
        if part.last_delta is not None and part.last_delta[:2] == (start, end):
            return part.last_delta[2]
        delta = events.Delta(
            at=timestamp(),
            session_id=self.session_id,
            message_id=self.id,
            part=number,
            attempt=part.attempt,
            of=part.of,
            offset=start,
            text=part.text.slice(start, end),
        )
        item = StreamItem("delta", encode(delta))
        part.last_delta = (start, end, item)
        return item


def encode_snapshot(
    session_id: str, message_id: str, parts: tuple[events.OpenPart, ...], timestamp: Timestamp
) -> StreamItem:
    """Encode the open parts of a message; no parts if the message is closed."""
    snapshot = events.Snapshot(at=timestamp(), session_id=session_id, message_id=message_id, parts=parts)
    return StreamItem("snapshot", encode(snapshot))


class LiveNotice(msgspec.Struct, frozen=True):
    """A live event of which only the latest per key matters."""

    revision: int
    workspace_id: str | None
    session_id: str | None
    item: StreamItem
    is_state: bool
    """It tells how something is, not that something happened: a new reader needs it."""


class LiveState:
    """Open messages and notices, both in order of change, so that a reader looks only at what changed."""

    def __init__(self) -> None:
        self.revision = 0
        """Counts the changes."""
        self._messages: OrderedDict[str, LiveMessage] = OrderedDict()
        self._session_messages: dict[str, set[str]] = {}
        self._notices: OrderedDict[tuple[str, str], LiveNotice] = OrderedDict()

    def open_message(self, message_id: str, *, session_id: str) -> LiveMessage:
        """Return the open message; open it if it is not."""
        message = self._messages.get(message_id)
        if message is None:
            message = LiveMessage(message_id, session_id=session_id, revision=self.revision + 1)
            self._messages[message_id] = message
            self._session_messages.setdefault(session_id, set()).add(message_id)
        return message

    def find_message(self, message_id: str) -> LiveMessage | None:
        return self._messages.get(message_id)

    def messages_of(self, session_id: str) -> Collection[str]:
        """Return the ids of the session's open messages."""
        return tuple(self._session_messages.get(session_id, ()))

    def mark_changed(self, message: LiveMessage) -> None:
        self.revision += 1
        message.revision = self.revision
        self._messages.move_to_end(message.id)

    def drop_message(self, message_id: str) -> LiveMessage | None:
        message = self._messages.pop(message_id, None)
        if message is not None:
            siblings = self._session_messages[message.session_id]
            siblings.discard(message_id)
            if not siblings:
                del self._session_messages[message.session_id]
        return message

    def set_notice(
        self,
        key: tuple[str, str],
        item: StreamItem,
        *,
        workspace_id: str | None,
        session_id: str | None,
        is_state: bool,
    ) -> None:
        self.revision += 1
        notice = LiveNotice(self.revision, workspace_id, session_id, item, is_state)
        self._notices[key] = notice
        self._notices.move_to_end(key)
        if len(self._notices) > _MAX_NOTICES:
            oldest = next((key for key, notice in self._notices.items() if not notice.is_state), None)
            del self._notices[oldest or next(iter(self._notices))]

    def drop_notice(self, key: tuple[str, str]) -> None:
        self._notices.pop(key, None)

    def messages_since(self, revision: int) -> list[LiveMessage]:
        """Return the messages changed after the revision, the earliest change first."""
        found = []
        for message in reversed(self._messages.values()):
            if message.revision <= revision:
                break
            found.append(message)
        found.reverse()
        return found

    def notices_since(self, revision: int) -> list[LiveNotice]:
        found = []
        for notice in reversed(self._notices.values()):
            if notice.revision <= revision:
                break
            found.append(notice)
        found.reverse()
        return found

    def forget(self, subscriber: object) -> None:
        """Drop the subscriber's position in every message."""
        for message in self._messages.values():
            message.forget(subscriber)
