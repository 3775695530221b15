"""What a subscription yields: encoded once, shared by all subscribers."""

from __future__ import annotations


class StreamItem:
    """One event of a stream. Durable events, heartbeats and resets have an ``id``, the cursor to come back with."""

    __slots__ = ("_frame", "body", "id", "kind")

    def __init__(self, kind: str, body: bytes, *, id: str | None = None) -> None:  # noqa: A002 - the stream's own word
        self.kind = kind
        self.body = body
        self.id = id
        self._frame: bytes | None = None

    @property
    def frame(self) -> bytes:
        """The event as server-sent bytes, made once for everybody."""
        if self._frame is None:
            head = f"event: {self.kind}\n" if self.id is None else f"event: {self.kind}\nid: {self.id}\n"
            self._frame = b"%bdata: %b\n\n" % (head.encode(), self.body)
        return self._frame

    def __repr__(self) -> str:
        return f"StreamItem({self.kind!r}, {self.body!r}, id={self.id!r})"
