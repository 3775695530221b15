"""The answers of the test provider: their content, and the faults in their delivery."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

WireName = Literal["openai-chat", "openai-responses", "anthropic", "gemini"]
WIRES: tuple[WireName, ...] = ("openai-chat", "openai-responses", "anthropic", "gemini")


class Say(msgspec.Struct, frozen=True, tag="say"):
    """Text, streamed in chunks of ``chunk`` characters, or as exactly these ``deltas``."""

    text: str = ""
    chunk: int = 8
    deltas: tuple[str, ...] = ()

    def chunks(self) -> tuple[str, ...]:
        return self.deltas or _split(self.text, self.chunk)


class Think(msgspec.Struct, frozen=True, tag="think"):
    """Reasoning, with the opaque data (signature, encrypted content) that the client must send back."""

    text: str = ""
    chunk: int = 8
    opaque: str = "sig-1"

    def chunks(self) -> tuple[str, ...]:
        return _split(self.text, self.chunk)


class Call(msgspec.Struct, frozen=True, tag="call"):
    """A tool call. ``raw`` is sent instead of the arguments' JSON, and may be invalid."""

    name: str
    arguments: dict[str, Any] = {}
    id: str = ""
    raw: str | None = None
    chunk: int = 8

    def json(self) -> str:
        return msgspec.json.encode(self.arguments).decode() if self.raw is None else self.raw

    def chunks(self) -> tuple[str, ...]:
        return _split(self.json(), self.chunk)


class Refuse(msgspec.Struct, frozen=True, tag="refuse"):
    """A refusal, in the form of the wire if it has one."""

    text: str = "I cannot help with that."


class Fail(msgspec.Struct, frozen=True, tag="fail"):
    """An error in mid-stream, in the form of the wire."""

    code: str = "overloaded"
    message: str = "Overloaded"


class Hang(msgspec.Struct, frozen=True, tag="hang"):
    """Send nothing more until the client disconnects."""


class Gate(msgspec.Struct, frozen=True, tag="gate"):
    """Wait until the test opens the gate of this name with `TestProvider.open`."""

    name: str


class RawBytes(msgspec.Struct, frozen=True, tag="bytes"):
    """Bytes that are sent unchanged: invalid data, half a line, a comment."""

    data: bytes


Piece: TypeAlias = Say | Think | Call | Refuse | Fail | Hang | Gate | RawBytes


class TokenCounts(msgspec.Struct, frozen=True):
    """The usage that the provider reports."""

    input: int = 100
    output: int = 20
    cache_read: int = 0
    cache_write: int = 0


class Answer(msgspec.Struct, frozen=True):
    """The answer to one request."""

    pieces: tuple[Piece, ...] = ()
    usage: TokenCounts | None = TokenCounts()
    finish: str | None = None
    """The finish reason of the wire. None: chosen from the pieces. Empty: left out."""
    status: int = 200
    error: dict[str, Any] | None = None
    """The JSON body if the status is not 200. None: the vendor's usual one."""
    body: bytes | None = None
    """The body with any status. Replaces pieces and error."""
    headers: dict[str, str] = {}
    content_type: str | None = None
    pace: float = 0.0
    """Seconds after each event."""
    split: int = 0
    """Write this many bytes at a time; 0 writes one event at a time."""
    drop_after: int | None = None
    """Drop the connection after this many bytes of the body."""
    delay: float = 0.0
    """Seconds before the status line."""
    hang_first: bool = False
    """Accept the request and never answer."""
    endless_line: bool = False
    """After the pieces, send one line without an end until the client disconnects."""
    done: bool = True
    """Whether the last events of the wire (``[DONE]``, ``message_stop`` …) are sent."""


def text(*texts: str, **options: Any) -> Answer:
    """An answer with text only."""
    return Answer(pieces=tuple(Say(each) for each in texts), **options)


def calls(*tool_calls: Call, **options: Any) -> Answer:
    """An answer with tool calls only."""
    return Answer(pieces=tool_calls, **options)


def _split(text: str, size: int) -> tuple[str, ...]:
    if not text:
        return ("",)
    return tuple(text[start : start + size] for start in range(0, len(text), size))
