"""The framing of the Language Server Protocol: headers with a length, then a JSON body. Pure."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from holdfast.errors import ToolError

MAX_MESSAGE_BYTES = 32 << 20
_MAX_HEADER_BYTES = 4_096
_LENGTH = re.compile(rb"(?:^|\r\n)content-length:[ \t]*([0-9]{1,12})[ \t]*(?:\r\n|$)", re.IGNORECASE)

_encoder = msgspec.json.Encoder()


class LanguageServerError(ToolError):
    """A language server failed or answered with an error."""

    code = "language_server"


class ProtocolViolation(LanguageServerError):
    """A language server does not speak the protocol. Nothing that follows can be understood."""

    code = "language_server_protocol"


def encode_message(message: dict[str, Any]) -> bytes:
    body = _encoder.encode({"jsonrpc": "2.0", **message})
    return b"Content-Length: %d\r\n\r\n%b" % (len(body), body)


class FrameReader:
    """Cuts a stream into message bodies."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._length: int | None = None

    def feed(self, data: bytes) -> list[bytes]:
        """Return the bodies that are complete. Raises `ProtocolViolation`."""
        self._buffer += data
        bodies = []
        while (body := self._next()) is not None:
            bodies.append(body)
        return bodies

    def _next(self) -> bytes | None:
        if self._length is None:
            self._length = self._read_header()
        if self._length is None or len(self._buffer) < self._length:
            return None
        body = bytes(self._buffer[: self._length])
        del self._buffer[: self._length]
        self._length = None
        return body

    def _read_header(self) -> int | None:
        end = self._buffer.find(b"\r\n\r\n", 0, _MAX_HEADER_BYTES)
        if end < 0:
            if len(self._buffer) >= _MAX_HEADER_BYTES:
                raise ProtocolViolation("it sent something that is no message of the protocol")
            return None
        found = _LENGTH.search(self._buffer[:end])
        if found is None:
            raise ProtocolViolation("it sent a message without a length")
        length = int(found[1])
        if length > MAX_MESSAGE_BYTES:
            raise ProtocolViolation(f"it sent a message of {length:,} bytes; the limit is {MAX_MESSAGE_BYTES:,}")
        del self._buffer[: end + 4]
        return length
