"""How the words are written: frozen structs, defaults left out, unknown things kept."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

T = TypeVar("T")


class Value(msgspec.Struct, frozen=True):
    """Base of every value in the system. Unknown fields are ignored when read."""


class Unknown:
    """Something a newer version wrote: kept as its bytes, and written back unchanged."""

    __slots__ = ("raw", "tag")

    def __init__(self, tag: str, raw: bytes) -> None:
        self.tag = tag
        self.raw = raw

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Unknown) and self.raw == other.raw

    def __hash__(self) -> int:
        return hash(self.raw)

    def __repr__(self) -> str:
        return f"Unknown({self.tag!r})"


def _write_unknown(value: Any) -> Any:
    if isinstance(value, Unknown):
        return msgspec.Raw(value.raw)
    raise NotImplementedError(f"cannot encode {type(value).__name__}")


_encoder = msgspec.json.Encoder(enc_hook=_write_unknown)


def encode(value: object) -> bytes:
    """Any word (or plain value) as JSON bytes. Text must have been repaired where it entered."""
    return _encoder.encode(value)


def to_builtins(value: object) -> Any:
    """The same as plain dicts and lists."""
    return msgspec.json.decode(encode(value))


def repair_text(text: str) -> str:
    """Join surrogate pairs that arrived split, and replace lone surrogates with U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


class TaggedReader:
    """Reads one tagged union, falling back to `Unknown` for a tag or shape this version does not know."""

    def __init__(self, union: Any, tag_field: str) -> None:
        self._decoder = msgspec.json.Decoder(union)
        self._tag_field = tag_field

    def read(self, raw: bytes | msgspec.Raw) -> Any:
        try:
            return self._decoder.decode(raw)
        except msgspec.ValidationError:
            data = bytes(raw)
            found = msgspec.json.decode(data)
            tag = found.get(self._tag_field) if isinstance(found, dict) else None
            return Unknown(str(tag), data)
