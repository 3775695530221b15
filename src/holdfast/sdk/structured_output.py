"""Typed answers: the JSON Schema of a Python type, and an answer as a value of that type.

The server compares the answer with the schema and has the model correct it once. Here it is only converted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, get_args

import msgspec

from holdfast.errors import BadRequest, RunNotCompleted


class OutputShape:
    """What the answer of a run must look like. ``kind`` is a type, a JSON Schema, or ``None`` for plain text."""

    def __init__(self, kind: Any) -> None:
        self.schema: dict[str, Any] | None = None
        self._convert: Callable[[Any], Any] = _same
        if kind is None:
            return
        if isinstance(kind, Mapping):
            self.schema = dict(kind)
        elif hasattr(kind, "model_json_schema") and hasattr(kind, "model_validate"):  # a pydantic model
            self.schema = kind.model_json_schema()
            self._convert = kind.model_validate
        elif _has_model(kind):
            from pydantic import TypeAdapter

            adapter: Any = TypeAdapter(kind)
            self.schema = adapter.json_schema()
            self._convert = adapter.validate_python
        else:
            self.schema = type_schema(kind)
            self._convert = lambda value: msgspec.convert(value, kind)

    def read(self, value: Any) -> Any:
        """Return the answer as a value of the type."""
        try:
            return self._convert(value)
        except ValueError as error:  # msgspec's and pydantic's errors are ValueErrors
            raise RunNotCompleted(
                f"the answer matches the schema, but is not a valid value of its type: {error}"
            ) from None


def _has_model(kind: Any) -> bool:
    """Whether a type such as ``list[Model]`` has a pydantic model in it."""
    return hasattr(kind, "model_json_schema") or any(_has_model(part) for part in get_args(kind))


def _same(value: Any) -> Any:
    return value


def type_schema(kind: Any) -> dict[str, Any]:
    """The JSON Schema of a type, without a reference at its top. Raises `BadRequest` if it has none."""
    try:
        schema = msgspec.json.schema(kind)
    except (TypeError, NameError) as error:
        why = str(error).splitlines()[-1]
        raise BadRequest(f"{kind!r} cannot be described by a JSON Schema: {why}") from None
    definitions: dict[str, Any] = dict(schema.pop("$defs", {}))
    if reference := schema.pop("$ref", None):
        name = reference.rpartition("/")[2]
        is_recursive = f'"#/$defs/{name}"'.encode() in msgspec.json.encode(definitions)
        schema |= definitions[name] if is_recursive else definitions.pop(name)
    return {**schema, "$defs": definitions} if definitions else schema
