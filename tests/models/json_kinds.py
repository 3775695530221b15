"""JSON values of every kind, and JSON texts in which one value is replaced by each of them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from tests.models.streams import Stream

KINDS: dict[str, bytes] = {
    "null": b"null",
    "true": b"true",
    "false": b"false",
    "zero": b"0",
    "an integer": b"7",
    "a negative integer": b"-1",
    "a huge integer": b"9" * 30,
    "an integer of 5000 digits": b"9" * 5000,
    "a float": b"1.5",
    "a float out of range": b"1e999",
    "not a number": b"NaN",
    "an empty text": b'""',
    "a text": b'"text"',
    "a lone surrogate": b'"\\ud83d"',
    "an empty list": b"[]",
    "a list of numbers": b"[5, 1.5]",
    "a list of texts": b'["text"]',
    "a list of objects": b'[{}, {"text": 5, "type": 5}, {"text": ["x"]}]',
    "an empty object": b"{}",
    "an object": b'{"text": 5, "type": "thinking", "thinking": [{"text": 5}], "message": 5, "code": []}',
    "an object with a lone surrogate as its key": b'{"\\ud83d": "\\ude00"}',
    "lists 50 deep": b"[" * 50 + b"]" * 50,
    "lists 400 deep": b"[" * 400 + b"]" * 400,
    "objects 400 deep": b'{"text":' * 400 + b"1" + b"}" * 400,
    "lists 5000 deep": b"[" * 5000 + b"]" * 5000,
}

Path = tuple[str | int, ...]
_EVENT = re.compile(rb"^(data: ?)(.*)$|\A(\{.*)\Z", re.MULTILINE)
_PLACEHOLDER = "placeholder"


def replacements(stream: Stream) -> Iterator[tuple[str, Path, bytes]]:
    """For each value in a stream: the type of its event, its path, and the body with a placeholder instead of it."""
    for found in _EVENT.finditer(stream.body):
        text = found[2] if found[1] else found[3]
        try:
            event = json.loads(text)
        except ValueError:
            continue  # not JSON: [DONE], or one line of several
        start = found.start(2) if found[1] else found.start(3)
        before, after = stream.body[:start], stream.body[start + len(text.rstrip(b"\r")) :]
        for path in paths(event):
            yield str(event.get("type", "")), path, before + json.dumps(replaced(event, path)).encode() + after


def with_kind(body: bytes, kind: str) -> bytes:
    """Put a value of this kind in the place of the placeholder."""
    return body.replace(json.dumps(_PLACEHOLDER).encode(), KINDS[kind])


def shape(path: Path) -> str:
    """A path without list indices: values at the same shape are read by the same code."""
    return ".".join("[]" if isinstance(key, int) else key for key in path)


def paths(value: Any, path: Path = ()) -> Iterator[Path]:
    yield path
    if isinstance(value, dict):
        for key, item in value.items():
            yield from paths(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from paths(item, (*path, index))


def replaced(value: Any, path: Path) -> Any:
    """Copy a value and put the placeholder at this path."""
    if not path:
        return _PLACEHOLDER
    copied = value.copy()
    copied[path[0]] = replaced(value[path[0]], path[1:])
    return copied
