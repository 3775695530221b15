"""How large a JSON Schema is once its references are followed, as far as that is easy to say. Pure.

A schema of a few lines can take a validator for ever: references multiply. The validator cannot be interrupted, so
only schemas with a known size are compared in the server's own process.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

MAX_NODES = 2_000
_MAX_DEPTH = 150

_VALUES = frozenset(
    {
        *("type", "enum", "const", "required", "title", "description", "default", "examples", "format", "nullable"),
        *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "discriminator"),
        *("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"),
        *("deprecated", "readOnly", "writeOnly", "$comment", "$schema"),
    }
)
_SCHEMA = frozenset({"items", "additionalProperties", "additionalItems", "not", "if", "then", "else"})
_SCHEMAS = frozenset({"anyOf", "allOf", "oneOf", "prefixItems"})
_NAMED_SCHEMAS = frozenset({"properties", "$defs", "definitions"})


class _NotKnownError(Exception):
    """The size is not known: it is too large, or the schema has something that is not followed here."""


def unfolded_size(schema: dict[str, Any]) -> int | None:
    """How many schemas there are when each reference is replaced by its target; None if that is not known.

    It is not known for recursive schemas, for patterns, for references other than ``#/…``, for keywords that are not
    listed here, and for more than `MAX_NODES`.
    """
    try:
        return _Unfolding(schema).size(schema, 0)
    except _NotKnownError:
        return None


class _Unfolding:
    def __init__(self, root: dict[str, Any]) -> None:
        self._root = root
        self._sizes: dict[str, int | None] = {}
        """By reference; None while its target is being followed."""

    def size(self, schema: Any, depth: int) -> int:
        if isinstance(schema, bool):
            return 1
        if not isinstance(schema, dict) or depth > _MAX_DEPTH:
            raise _NotKnownError
        total = 1 + sum(len(value) for value in schema.values() if isinstance(value, list))
        for below in self._below(schema):
            total += self.size(below, depth + 1)
        if (reference := schema.get("$ref")) is not None:
            total += self._size_of(reference, depth + 1)
        if total > MAX_NODES:
            raise _NotKnownError
        return total

    def _below(self, schema: dict[str, Any]) -> Iterator[Any]:
        for keyword, value in schema.items():
            if keyword in _SCHEMA:
                yield from value if isinstance(value, list) else (value,)
            elif keyword in _SCHEMAS and isinstance(value, list):
                yield from value
            elif keyword in _NAMED_SCHEMAS and isinstance(value, dict):
                yield from value.values()
            elif keyword not in _VALUES and keyword != "$ref":
                raise _NotKnownError

    def _size_of(self, reference: Any, depth: int) -> int:
        if not isinstance(reference, str) or not reference.startswith("#/"):
            raise _NotKnownError
        if reference not in self._sizes:
            self._sizes[reference] = None
            self._sizes[reference] = self.size(self._target(reference), depth)
        size = self._sizes[reference]
        if size is None:  # it refers to itself
            raise _NotKnownError
        return size

    def _target(self, reference: str) -> Any:
        found: Any = self._root
        for step in reference.split("/")[1:]:
            if not isinstance(found, dict) or step not in found:  # also names that would have to be unescaped
                raise _NotKnownError
            found = found[step]
        return found
