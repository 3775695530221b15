"""What all readers of a wire share: JSON as providers really send it, text whose surrogates may be split, counts."""

from __future__ import annotations

import json
from typing import Any, Generic, TypeVar

import msgspec

from holdfast.errors import ModelGarbage, ModelNetwork
from holdfast.schema.text_repair import repaired

T = TypeVar("T")


class JsonReader(Generic[T]):
    """Reads one type from JSON. Fast for JSON as it should be; lone surrogates, broken UTF-8 and NaN are let pass."""

    __slots__ = ("_decoder", "_type")

    def __init__(self, type_: type[T]) -> None:
        self._type = type_
        self._decoder = msgspec.json.Decoder(type_, strict=False)

    def read(self, data: bytes) -> T:
        """Raises `ModelGarbage`, which names the place but never quotes the bytes."""
        try:
            return self._decoder.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return self._read_slowly(data)

    def _read_slowly(self, data: bytes) -> T:
        try:
            return msgspec.convert(json.loads(_text(data)), self._type, strict=False)
        except msgspec.ValidationError as error:
            reason = str(error)
        except (ValueError, RecursionError):
            reason = "no JSON"
        raise ModelGarbage(f"the provider sent an event that is not of its wire ({reason})")


def _text(data: bytes) -> str:
    try:
        return data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return data.decode("utf-8", "replace")


class Mender:
    """Text that comes in pieces, made encodable: a surrogate pair cut in two is joined, a lone one replaced."""

    __slots__ = ("_held",)

    def __init__(self) -> None:
        self._held = ""

    def mend(self, piece: str) -> str:
        """What can be passed on; a high surrogate at the end waits for its other half."""
        if piece.isascii() and not self._held:
            return piece
        piece = self._held + piece
        self._held = ""
        if piece and "\ud800" <= piece[-1] <= "\udbff":
            self._held = piece[-1]
            piece = piece[:-1]
        return repaired(piece)

    def flush(self) -> str:
        """What still waited when the text ended."""
        held, self._held = self._held, ""
        return repaired(held)


def repaired_tree(value: Any) -> Any:
    """A JSON value with every text in it made encodable."""
    match value:
        case str():
            return repaired(value)
        case list():
            return [repaired_tree(item) for item in value]
        case dict():
            return {repaired(str(key)): repaired_tree(item) for key, item in value.items()}
    return value


def count(table: Any, *path: str) -> int:
    """A token count somewhere in a provider's usage; 0 where it is missing or makes no sense."""
    for key in path:
        table = table.get(key) if isinstance(table, dict) else None
    if isinstance(table, bool) or not isinstance(table, int | float):
        return 0
    return int(table) if 0 <= table < 1e15 else 0


def cut_off(host: str) -> ModelNetwork:
    """A stream that ended before its answer did."""
    return ModelNetwork(f"the answer of {host or 'the provider'} was cut off before it was complete")


def as_json(value: Any) -> str:
    """A value as compact JSON text."""
    return msgspec.json.encode(value).decode()
