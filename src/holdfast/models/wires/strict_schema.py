"""Whether a JSON Schema is of the narrow kind that providers can enforce to the letter."""

from __future__ import annotations

from typing import Any


def is_strict(schema: Any) -> bool:
    """Every object in it names all its properties as required and allows no others."""
    match schema:
        case dict():
            properties = schema.get("properties")
            is_object = schema.get("type") == "object" or isinstance(properties, dict)
            if is_object and (
                schema.get("additionalProperties") is not False
                or set(schema.get("required", ())) != set(properties or ())
            ):
                return False
            return all(is_strict(value) for value in schema.values())
        case list():
            return all(is_strict(value) for value in schema)
    return True
