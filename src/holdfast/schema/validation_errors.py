"""The fields of a msgspec validation error.

msgspec reports the place of an error only in its message. This is the only module that reads that message.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from holdfast.schema.base import Value

_PLACE: Final = re.compile(r" - at `\$([^`]*)`$")
_STEPS: Final = re.compile(r"(?:\.\w+|\[\d+\])+")
_STEP: Final = re.compile(r"\.(\w+)|\[(\d+)\]")
_FIELD: Final = re.compile(r"(?:unknown|missing required) field `([^`]*)`")
_GOT: Final = re.compile(r", got `(\w+)`")


class InvalidValue(Value, frozen=True):
    """Where the invalid value is, and what it is."""

    path: tuple[str | int, ...] | None
    """The way from the document to the value; ``None`` for the document itself, and inside a table with free keys."""
    field: str
    """The dotted name of the invalid, unknown or missing field; empty for the document itself."""
    got: str
    """The type of the value, as msgspec names it; empty if the type is not the problem."""


def invalid_value(error: msgspec.ValidationError) -> InvalidValue:
    """Read the fields of an error from its message."""
    message = str(error)
    place = found[1] if (found := _PLACE.search(message)) else ""
    field = found[1] if (found := _FIELD.search(message)) else ""
    got = found[1] if (found := _GOT.search(message)) else ""
    path = tuple(int(index) if index else name for name, index in _STEP.findall(place))
    return InvalidValue(
        path=path if _STEPS.fullmatch(place) else None,
        field=".".join(part for part in (place.removeprefix("."), field) if part),
        got=got,
    )
