"""Open parts: the text of messages on its way, before it is stored.

There is no queue of deltas. A part is a growing text, and a subscriber is an offset into it: a fast one gets each
piece as it comes, a slow one gets what it missed as larger pieces that continue exactly where it stopped. So a
subscriber costs one number per open part, however far it is behind (`E4`).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection
from typing import Protocol

from holdfast.events.stream_item import StreamItem
from holdfast.schema import events
from holdfast.schema.base import encode
from holdfast.schema.events import DeltaKind

PIECE = 64 * 1024
"""Code points that one delta carries at most."""
_LOOSE = 1024
"""Pieces kept as they came before they are joined, so that many small ones do not cost memory each."""


class Stamp(Protocol):
    """The present time as it is written in events."""

    def __call__(self) -> str: ...


class PartText:
    """A text that only grows, cut at any offset in code points."""

    __slots__ = ("_loose_from", "_pieces", "_starts", "length")

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._starts: list[int] = []
        self._loose_from = 0
        self.length = 0

    def append(self, text: str) -> None:
        self._pieces.append(text)
        self._starts.append(self.length)
        self.length += len(text)
        if len(self._pieces) - self._loose_from >= _LOOSE:
            start = self._starts[self._loose_from]
            self._pieces[self._loose_from :] = ["".join(self._pieces[self._loose_from :])]
            self._starts[self._loose_from :] = [start]
            self._loose_from += 1

    def cut(self, start: int, end: int) -> str:
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
    __slots__ = ("attempt", "call_id", "encoded", "name", "of", "text")

    def __init__(self, *, attempt: int, of: DeltaKind, call_id: str | None, name: str | None) -> None:
        self.attempt = attempt
        self.of = of
        self.call_id = call_id
        self.name = name
        self.text = PartText()
        self.encoded: tuple[int, int, StreamItem] | None = None
        """The delta that was made last, and from where to where: most subscribers want the same."""


class LiveMessage:
    """The open parts of one message, and how far each subscriber has them."""

    __slots__ = (
        "_attempt",
        "_seen",
        "_snapshot",
        "_told_parts",
        "_version",
        "id",
        "opened",
        "parts",
        "session_id",
        "tick",
    )

    def __init__(self, message_id: str, *, session_id: str, tick: int) -> None:
        self.id = message_id
        self.session_id = session_id
        self.parts: dict[int, LivePart] = {}
        self.opened = tick
        self.tick = tick
        """When it changed last, on the hub's count."""
        self._attempt = 0
        self._told_parts = 0
        """Parts that a durable event has told; they are not open any more."""
        self._version = 0
        self._seen: dict[object, tuple[int, dict[int, int]]] = {}
        self._snapshot: StreamItem | None = None

    def append(
        self, part: int, text: str, *, attempt: int, of: DeltaKind, call_id: str | None, name: str | None
    ) -> bool:
        """False where there is nothing to tell: a part that is stored already, or an attempt that was given up."""
        if attempt != self._attempt and of != "output":
            if attempt < self._attempt:
                return False
            self.restart(attempt)
        live = self.parts.get(part)
        if live is None:
            if part < self._told_parts and of != "output":
                return False
            live = self.parts[part] = LivePart(attempt=attempt, of=of, call_id=call_id, name=name)
        live.text.append(text)
        live.encoded = None
        self._snapshot = None
        return True

    def restart(self, attempt: int) -> None:
        """A new attempt, if it is one: what the one before said is replaced (`R13`)."""
        if attempt <= self._attempt:
            return
        self._attempt = attempt
        self._told_parts = 0
        given_up = [number for number, part in self.parts.items() if part.of != "output"]
        if given_up:
            self._drop(given_up)
            self._version += 1

    def told(self, parts: int) -> None:
        """A durable event told so many whole parts."""
        self._told_parts = parts
        self._drop([number for number, part in self.parts.items() if number < parts and part.of != "output"])

    def answered(self, call_ids: Collection[str]) -> None:
        """A durable event told the results of these calls: their live output is over."""
        self._drop([n for n, part in self.parts.items() if part.of == "output" and part.call_id in call_ids])

    @property
    def is_spent(self) -> bool:
        """Nothing is open, and nothing but the live output of calls was: its text was told before."""
        return not self.parts and self._attempt == 0

    def _drop(self, numbers: list[int]) -> None:
        for number in numbers:
            del self.parts[number]
            for _, offsets in self._seen.values():
                offsets.pop(number, None)
        if numbers:
            self._snapshot = None

    def forget(self, subscriber: object) -> None:
        """It gets a snapshot next."""
        self._seen.pop(subscriber, None)

    def next_for(self, subscriber: object, *, synced: int, stamp: Stamp) -> StreamItem | None:
        """The next thing that brings the subscriber up to date: a snapshot, or a delta that continues at its offset.

        ``synced`` is the count at which it last had everything: a message that opened later is new to it as a whole.
        """
        seen = self._seen.get(subscriber)
        if seen is None and self.opened > synced:
            seen = self._seen[subscriber] = (self._version, {})
        if seen is None or seen[0] != self._version:
            return self._whole_for(subscriber, stamp) if self.parts or seen is not None else None
        offsets = seen[1]
        for number, part in self.parts.items():
            offset = offsets.get(number)
            if offset is None and (part.call_id or part.name):
                return self._whole_for(subscriber, stamp)
            start = offset or 0
            if start < part.text.length:
                end = offsets[number] = min(part.text.length, start + PIECE)
                return self._delta(number, part, start, end, stamp)
        return None

    def _whole_for(self, subscriber: object, stamp: Stamp) -> StreamItem:
        """Also where a part has a name to tell, which deltas do not carry."""
        self._seen[subscriber] = (self._version, {n: part.text.length for n, part in self.parts.items()})
        return self._whole(stamp)

    def _delta(self, number: int, part: LivePart, start: int, end: int, stamp: Stamp) -> StreamItem:
        if part.encoded is not None and part.encoded[:2] == (start, end):
            return part.encoded[2]
        delta = events.Delta(
            at=stamp(),
            session_id=self.session_id,
            message_id=self.id,
            part=number,
            attempt=part.attempt,
            of=part.of,
            offset=start,
            text=part.text.cut(start, end),
        )
        item = StreamItem("delta", encode(delta))
        part.encoded = (start, end, item)
        return item

    def _whole(self, stamp: Stamp) -> StreamItem:
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
            self._snapshot = snapshot(self.session_id, self.id, parts, stamp)
        return self._snapshot


def snapshot(session_id: str, message_id: str, parts: tuple[events.OpenPart, ...], stamp: Stamp) -> StreamItem:
    """The open parts of a message as they stand; none of them once it is closed."""
    told = events.Snapshot(at=stamp(), session_id=session_id, message_id=message_id, parts=parts)
    return StreamItem("snapshot", encode(told))
