"""A tool as a model is told of it."""

from __future__ import annotations

from typing import Any

from holdfast.schema.base import Value


class ToolSpec(Value, frozen=True):
    name: str
    description: str
    parameters: dict[str, Any]
    """JSON Schema of an object."""
