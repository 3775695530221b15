"""What the test provider is told to say, and how badly it may behave while saying it."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

WireName = Literal["openai-chat", "openai-responses", "anthropic", "gemini"]
WIRES: tuple[WireName, ...] = ("openai-chat", "openai-responses", "anthropic", "gemini")


class Say(msgspec.Struct, frozen=True, tag="say"):
    """Text, streamed in pieces of ``chunk`` code points, or in exactly these ``deltas``."""

    text: str = ""
    chunk: int = 8
    deltas: tuple[str, ...] = ()

    def pieces(self) -> tuple[str, ...]:
        return self.deltas or _cut(self.text, self.chunk)


class Think(msgspec.Struct, frozen=True, tag="think"):
    """Reasoning, with the opaque data (signature, encrypted content) that must come back."""

    text: str = ""
    chunk: int = 8
    opaque: str = "sig-1"

    def pieces(self) -> tuple[str, ...]:
        return _cut(self.text, self.chunk)


class Call(msgspec.Struct, frozen=True, tag="call"):
    """A tool call; ``raw`` replaces the arguments' JSON, to send rubbish."""

    name: str
    arguments: dict[str, Any] = {}
    id: str = ""
    raw: str | None = None
    chunk: int = 8

    def json(self) -> str:
        return msgspec.json.encode(self.arguments).decode() if self.raw is None else self.raw

    def pieces(self) -> tuple[str, ...]:
        return _cut(self.json(), self.chunk)


class Refuse(msgspec.Struct, frozen=True, tag="refuse"):
    """The provider's own refusal, where the wire has one."""

    text: str = "I cannot help with that."


class Fail(msgspec.Struct, frozen=True, tag="fail"):
    """An error in mid-stream, in the wire's own form."""

    code: str = "overloaded"
    message: str = "Overloaded"


class Hang(msgspec.Struct, frozen=True, tag="hang"):
    """Say nothing more until the client leaves."""


class Gate(msgspec.Struct, frozen=True, tag="gate"):
    """Wait until the test opens the gate of this name (`TestProvider.open`)."""

    name: str


class RawBytes(msgspec.Struct, frozen=True, tag="bytes"):
    """These bytes as they are: garbage, half a line, a comment."""

    data: bytes


Piece: TypeAlias = Say | Think | Call | Refuse | Fail | Hang | Gate | RawBytes


class TokenCounts(msgspec.Struct, frozen=True):
    """The usage the provider claims."""

    input: int = 100
    output: int = 20
    cache_read: int = 0
    cache_write: int = 0


class Answer(msgspec.Struct, frozen=True):
    """One answer to one request."""

    pieces: tuple[Piece, ...] = ()
    usage: TokenCounts | None = TokenCounts()
    finish: str | None = None
    """The wire's own finish reason; chosen from the pieces when None, left out when empty."""
    status: int = 200
    error: dict[str, Any] | None = None
    """With a status that is no success: the JSON body; the vendor's usual one when None."""
    body: bytes | None = None
    """With any status: exactly this body instead."""
    headers: dict[str, str] = {}
    content_type: str | None = None
    pace: float = 0.0
    """Seconds between two events."""
    split: int = 0
    """Cut the byte stream into writes of this many bytes; 0 writes event by event."""
    drop_after: int | None = None
    """Cut the connection after this many bytes of the body."""
    delay: float = 0.0
    """Seconds before the status line."""
    hang_first: bool = False
    """Accept the request and never answer."""
    endless_line: bool = False
    """After the pieces, one line that never ends, until the client leaves."""
    done: bool = True
    """Whether the stream is closed as the wire closes it (``[DONE]``, ``message_stop`` …)."""


def text(*words: str, **options: Any) -> Answer:
    """An answer in plain text."""
    return Answer(pieces=tuple(Say(word) for word in words), **options)


def calls(*wanted: Call, **options: Any) -> Answer:
    """An answer that asks for tools."""
    return Answer(pieces=wanted, **options)


def _cut(text: str, size: int) -> tuple[str, ...]:
    if not text:
        return ("",)
    return tuple(text[start : start + size] for start in range(0, len(text), size))
