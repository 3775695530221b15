"""An incremental parser of server-sent events. Chunks may be split anywhere. No I/O."""

from __future__ import annotations

from holdfast.schema.base import Value

DEFAULT_LIMIT = 8 * 1024 * 1024
"""Maximum bytes of one event."""

_BOM = b"\xef\xbb\xbf"


class SseTooLong(ValueError):
    """An event or a line exceeds the limit."""


class SseEvent(Value, frozen=True, gc=False):
    data: bytes
    """The data lines, joined by newlines. Bytes, so that JSON is decoded once."""
    event: str = "message"
    id: str = ""
    """The last id of the stream, sent with this event or before it."""


class SseParser:
    """Takes chunks and returns the events they complete.

    Lines end with LF, CR or CRLF, even if a chunk ends between CR and LF. A byte order mark, comments, unknown fields
    and events without data are ignored.
    """

    __slots__ = ("_after_cr", "_data", "_event", "_head", "_limit", "_rest", "_rest_size", "_size", "id", "retry")

    def __init__(self, *, limit: int = DEFAULT_LIMIT) -> None:
        self._limit = limit
        self._head: bytes | None = b""
        """The first bytes of the stream, while they may be a byte order mark."""
        self._rest: list[bytes] = []
        """Pieces of the incomplete line."""
        self._rest_size = 0
        self._after_cr = False
        self._data: list[bytes] = []
        self._size = 0
        self._event = "message"
        self.id = ""
        self.retry: int | None = None
        """Milliseconds to wait before reconnecting, if the server sent them."""

    def feed(self, chunk: bytes) -> list[SseEvent]:
        """Return the events that this chunk completes. Raises `SseTooLong`."""
        if self._head is not None:
            chunk = self._without_bom(chunk)
        if self._after_cr and chunk:
            self._after_cr = False
            if chunk.startswith(b"\n"):
                chunk = chunk[1:]
        if b"\r" in chunk:
            self._after_cr = chunk.endswith(b"\r")
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        if b"\n" not in chunk:
            self._keep(chunk)
            return []
        lines = chunk.split(b"\n")
        if self._rest:
            lines[0] = b"".join((*self._rest, lines[0]))
            self._rest = []
        self._rest_size = 0
        last = lines.pop()
        events = self._read(lines)
        if last:
            self._keep(last)
        return events

    def end(self) -> list[SseEvent]:
        """Return the last event if its blank line is missing. Some servers omit it; a broken stream looks the same."""
        lines = [self._head or b"".join(self._rest), b""]
        self._head, self._rest, self._rest_size = None, [], 0
        return self._read(lines)

    def _read(self, lines: list[bytes]) -> list[SseEvent]:
        events: list[SseEvent] = []
        data = self._data
        for line in lines:
            if not line:
                if data:
                    joined = data[0] if len(data) == 1 else b"\n".join(data)
                    if joined:
                        events.append(SseEvent(joined, self._event, self.id))
                    data.clear()
                    self._size = 0
                self._event = "message"
            elif line.startswith(b"data:"):
                value = line[6:] if line[5:6] == b" " else line[5:]
                self._size += len(value) + 1
                if self._size > self._limit:
                    raise SseTooLong(f"an event is larger than {self._limit} bytes")
                data.append(value)
            else:
                self._read_other(line)
        return events

    def _read_other(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        match name:
            case b"event":
                self._event = value.decode("utf-8", "replace") or "message"
            case b"id" if b"\0" not in value:
                self.id = value.decode("utf-8", "replace")
            case b"retry" if value.isdigit() and len(value) < 16:
                self.retry = int(value)
            case b"data":
                self._data.append(b"")

    def _keep(self, piece: bytes) -> None:
        self._rest_size += len(piece)
        if self._rest_size + self._size > self._limit:
            raise SseTooLong(f"a line is longer than {self._limit} bytes")
        if piece:
            self._rest.append(piece)

    def _without_bom(self, chunk: bytes) -> bytes:
        head = (self._head or b"") + chunk
        if len(head) < len(_BOM) and _BOM.startswith(head):
            self._head = head
            return b""
        self._head = None
        return head.removeprefix(_BOM)
