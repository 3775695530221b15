"""What a stream yields: items encoded once for all subscribers, and the cursors that identify them."""

from __future__ import annotations

import re

from holdfast.schema.base import Value

_CURSOR = r"([0-9a-z]{1,64})\.([0-9]{1,18})"


class Cursor(Value, frozen=True):
    """A position in an event log, written as ``a7.1234``. Clients treat the text as opaque."""

    log_id: str
    number: int

    def __str__(self) -> str:
        return f"{self.log_id}.{self.number}"


def parse_cursor(text: str) -> Cursor | None:
    """Return the cursor, or None if the text is not one."""
    found = re.fullmatch(_CURSOR, text)
    return Cursor(found[1], int(found[2])) if found else None


class StreamItem:
    """One event of a stream. Durable events, heartbeats and resets have an ``id``: the cursor to reconnect with."""

    __slots__ = ("_frame", "body", "id", "kind")

    def __init__(self, kind: str, body: bytes, *, id: str | None = None) -> None:  # noqa: A002 - the field of the stream
        self.kind = kind
        self.body = body
        self.id = id
        self._frame: bytes | None = None

    @property
    def frame(self) -> bytes:
        """The event in the format of server-sent events."""
        if self._frame is None:
            head = f"event: {self.kind}\n" if self.id is None else f"event: {self.kind}\nid: {self.id}\n"
            self._frame = b"%bdata: %b\n\n" % (head.encode(), self.body)
        return self._frame

    def __repr__(self) -> str:
        return f"StreamItem({self.kind!r}, {self.body!r}, id={self.id!r})"
