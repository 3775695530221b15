"""What all readers of a wire share: JSON as providers really send it, text whose surrogates may be split, counts."""

from __future__ import annotations

import json
from typing import Any, Generic, TypeVar

import msgspec

from holdfast.errors import ModelMalformed, ModelNetwork
from holdfast.schema.base import repair_text

T = TypeVar("T")

MAX_DEPTH = 100
_MAX_COUNT = 1e15


class JsonReader(Generic[T]):
    """Reads one type from JSON. Fast for JSON as it should be; lone surrogates, broken UTF-8 and NaN are let pass."""

    __slots__ = ("_decoder", "_type")

    def __init__(self, type_: type[T]) -> None:
        self._type = type_
        self._decoder = msgspec.json.Decoder(type_, strict=False)

    def read(self, data: bytes) -> T:
        """Raises `ModelMalformed`, which names the place but never quotes the bytes."""
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
        raise ModelMalformed(f"the provider sent an event that is not of its wire ({reason})")


def _text(data: bytes) -> str:
    try:
        return data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return data.decode("utf-8", "replace")


class SurrogateJoiner:
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
        return repair_text(piece)

    def flush(self) -> str:
        """What still waited when the text ended."""
        held, self._held = self._held, ""
        return repair_text(held)


def json_tree(value: object) -> Any:
    """A JSON value with every text in it made encodable, to be stored and sent back. Raises `ModelMalformed`.

    Values nested deeper than `MAX_DEPTH` are refused: code that walks them later may recurse.
    """
    return _tree(value, MAX_DEPTH)


def _tree(value: object, depth: int) -> Any:
    if isinstance(value, str):
        return repair_text(value)
    if not isinstance(value, list | dict):
        return value
    if depth == 0:
        raise ModelMalformed(f"the provider sent a value nested more than {MAX_DEPTH} levels deep")
    if isinstance(value, list):
        return [_tree(item, depth - 1) for item in value]
    return {repair_text(str(key)): _tree(item, depth - 1) for key, item in value.items()}


# Readers declare a field whose kind varies as `object`: the type checker then refuses every use of it that does not go
# through one of these. A value of another kind counts as missing.


def text_in(value: object, *path: str) -> str:
    """The text at this path inside a JSON value; empty if it is missing or is no text."""
    found = _at(value, path)
    return found if isinstance(found, str) else ""


def object_in(value: object, *path: str) -> dict[str, object]:
    """The object at this path; empty if it is missing or is no object."""
    found = _at(value, path)
    return found if isinstance(found, dict) else {}


def objects_in(value: object, *path: str) -> list[dict[str, object]]:
    """The objects in the list at this path; empty if it is missing or is no list."""
    found = _at(value, path)
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []


def count_in(value: object, *path: str) -> int:
    """The count of tokens at this path; 0 if it is missing, is no number, or is out of range."""
    found = _at(value, path)
    if isinstance(found, bool) or not isinstance(found, int | float):
        return 0
    return int(found) if 0 <= found < _MAX_COUNT else 0


def _at(value: object, path: tuple[str, ...]) -> object:
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def cut_off(host: str) -> ModelNetwork:
    """A stream that ended before its answer did."""
    return ModelNetwork(f"the answer of {host or 'the provider'} was cut off before it was complete")


def as_json(value: Any) -> str:
    """A value as compact JSON text."""
    return msgspec.json.encode(value).decode()
