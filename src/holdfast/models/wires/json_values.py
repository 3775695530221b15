"""Reads JSON as providers send it: broken encodings, and values of another kind than documented.

A wire declares a field whose kind varies as `object`. The type checker then rejects every use that does not go through
`text_in`, `object_in`, `objects_in`, `count_in` or `json_tree`. A value of another kind counts as missing.
"""

from __future__ import annotations

import json
import re
from typing import Any, Generic, TypeVar

import msgspec

from holdfast.errors import ModelMalformed
from holdfast.schema.base import make_decoder, repair_text

T = TypeVar("T")

_MAX_DEPTH = 100
_TOO_DEEP = b'"(nested too deeply)"'
_MAX_COUNT = 1e15


class JsonReader(Generic[T]):
    """Decodes one type from JSON. Accepts lone surrogates, broken UTF-8 and NaN, but decodes valid JSON faster."""

    __slots__ = ("_decoder", "_type")

    def __init__(self, type_: type[T]) -> None:
        self._type = type_
        self._decoder = make_decoder(type_, strict=False)

    def read(self, data: bytes) -> T:
        """Raises `ModelMalformed`, which names the place of an error but does not quote the data."""
        try:
            return self._decoder.decode(data)
        except RecursionError:
            return self._read_slowly(_without_depths(data))
        except (msgspec.DecodeError, UnicodeDecodeError):
            return self._read_slowly(data)

    def _read_slowly(self, data: bytes) -> T:
        try:
            return msgspec.convert(json.loads(_decode(data)), self._type, strict=False)
        except msgspec.ValidationError as error:
            reason = str(error)
        except (ValueError, RecursionError):
            reason = "not JSON"
        raise ModelMalformed(f"the provider sent an invalid event: {reason}")


_DEPTH_OR_STRING = re.compile(rb'"(?:[^"\\\\]|\\\\.)*"|[\[\]{}]', re.DOTALL)


def _without_depths(data: bytes) -> bytes:
    """Replace what is nested too deeply to be decoded with a text, so that the rest of the event can be read."""
    kept: list[bytes] = []
    depth = copied = 0
    for found in _DEPTH_OR_STRING.finditer(data):
        token = found[0]
        if token in (b"[", b"{"):
            depth += 1
            if depth == _MAX_DEPTH + 1:
                kept += [data[copied : found.start()], _TOO_DEEP]
        elif token in (b"]", b"}"):
            depth -= 1
            if depth == _MAX_DEPTH:
                copied = found.end()
    if depth <= _MAX_DEPTH:
        kept.append(data[copied:])
    return b"".join(kept)


def _decode(data: bytes) -> str:
    try:
        return data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return data.decode("utf-8", "replace")


def json_tree(value: object) -> Any:
    """Return a JSON value with all its text repaired, so that it can be stored and sent back.

    Raises `ModelMalformed` for a value that is nested too deep, because later code walks it recursively.
    """
    return _tree(value, _MAX_DEPTH)


def _tree(value: object, depth: int) -> Any:
    if isinstance(value, str):
        return repair_text(value)
    if not isinstance(value, list | dict):
        return value
    if depth == 0:
        raise ModelMalformed(f"the provider sent a value nested more than {_MAX_DEPTH} levels deep")
    if isinstance(value, list):
        return [_tree(item, depth - 1) for item in value]
    return {repair_text(str(key)): _tree(item, depth - 1) for key, item in value.items()}


def text_in(value: object, *path: str) -> str:
    """The string at a path inside a JSON value, or an empty one."""
    found = _find(value, path)
    return found if isinstance(found, str) else ""


def object_in(value: object, *path: str) -> dict[str, object]:
    """The object at a path, or an empty one."""
    found = _find(value, path)
    return found if isinstance(found, dict) else {}


def objects_in(value: object, *path: str) -> list[dict[str, object]]:
    """The objects in the list at a path, or an empty list."""
    found = _find(value, path)
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []


def count_in(value: object, *path: str) -> int:
    """The number of tokens at a path; 0 if it is missing, not a number, or out of range."""
    found = _find(value, path)
    if isinstance(found, bool) or not isinstance(found, int | float):
        return 0
    return int(found) if 0 <= found < _MAX_COUNT else 0


def _find(value: object, path: tuple[str, ...]) -> object:
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def arguments_json(value: object) -> str:
    """Return the arguments of a call that a provider sent as a JSON value. Those nested too deeply become no object."""
    try:
        return compact_json(json_tree(value))
    except ModelMalformed as error:
        return compact_json(error.message)


def compact_json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
