"""The base of all values, their JSON encoding, and readers that keep what this version does not know."""

from __future__ import annotations

from _thread import allocate_lock
from typing import Any, Generic, TypeVar, get_args

import msgspec

T = TypeVar("T")


class Value(msgspec.Struct, frozen=True):
    """Base of all values. Unknown fields are ignored when a value is decoded."""


class Unknown:
    """A value of a newer version. Its bytes are kept and encoded unchanged."""

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


def _encode_unknown(value: Any) -> Any:
    if isinstance(value, Unknown):
        return msgspec.Raw(value.raw)
    raise NotImplementedError(f"cannot encode {type(value).__name__}")


_encoder = msgspec.json.Encoder(enc_hook=_encode_unknown)


def encode(value: object) -> bytes:
    """Encode a value as JSON. All text must have passed `repair_text` where it entered the program."""
    return _encoder.encode(value)


def to_builtins(value: object) -> Any:
    """Convert a value to dicts, lists and scalars, as JSON has them."""
    return msgspec.json.decode(encode(value))


def repair_text(text: str) -> str:
    """Join surrogate pairs that arrived split, and replace lone surrogates with U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


MAX_DEPTH = 64
"""Levels of nesting that a free-form JSON value may have. Deeper ones could not be encoded or walked everywhere."""


def is_nested_deeper(value: object, depth: int) -> bool:
    """Return whether a JSON value has more than so many levels. Does not recurse."""
    level: list[object] = [value]
    for _ in range(depth + 1):
        below: list[object] = []
        for item in level:
            if isinstance(item, dict):
                below.extend(item.values())
            elif isinstance(item, list):
                below.extend(item)
        if not below:
            return False
        level = below
    return True


_making = allocate_lock()


def make_decoder(kind: type[T], *, strict: bool = True) -> msgspec.json.Decoder[T]:
    """Make a JSON decoder; one thread at a time.

    While `msgspec` reads the fields of a class, another thread that needs the same class gets the unfinished list, and
    decoding with it crashes the process.
    """
    with _making:
        return msgspec.json.Decoder(kind, strict=strict)


_LONGEST_TAG = 64
"""Bytes at the beginning of a value in which its tag is looked for."""


class LateDecoder(Generic[T]):
    """A JSON decoder that is made at its first use: making one costs more than most programs decode with it."""

    __slots__ = ("_decoder", "_kind")

    def __init__(self, kind: type[T]) -> None:
        self._kind = kind
        self._decoder: msgspec.json.Decoder[T] | None = None

    def decode(self, raw: bytes | str | msgspec.Raw) -> T:
        if self._decoder is None:
            self._decoder = make_decoder(self._kind)
        return self._decoder.decode(raw)


class TaggedReader:
    """Decodes a tagged union. A tag or shape that this version does not know becomes `Unknown`.

    The tag comes first in what this package encodes. It chooses the decoder, so that only decoders of types that occur
    are made: one for a whole union takes milliseconds.
    """

    def __init__(self, union: Any, tag_field: str) -> None:
        self._decoder: LateDecoder[Any] = LateDecoder(union)
        self._by_tag = {_encoded_tag(kind): LateDecoder(kind) for kind in get_args(union)}
        self._tag_field = tag_field
        self._start = f'{{"{tag_field}":"'.encode()

    def read(self, raw: bytes | msgspec.Raw) -> Any:
        try:
            return self._decoder_for(raw).decode(raw)
        except msgspec.ValidationError:
            data = bytes(raw)
            found = msgspec.json.decode(data)
            tag = found.get(self._tag_field) if isinstance(found, dict) else None
            return Unknown(str(tag), data)

    def _decoder_for(self, raw: bytes | msgspec.Raw) -> LateDecoder[Any]:
        head = bytes(memoryview(raw)[:_LONGEST_TAG])
        if not head.startswith(self._start):
            return self._decoder
        begin = len(self._start)
        return self._by_tag.get(head[begin : head.find(b'"', begin)], self._decoder)


def _encoded_tag(kind: Any) -> bytes:
    return str(kind.__struct_config__.tag).encode()
