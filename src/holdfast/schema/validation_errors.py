"""The fields of a msgspec validation error.

msgspec reports the place of an error only in its message. This is the only module that reads that message.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from holdfast.schema.base import Value

_PLACE: Final = r" - at `\$([^`]*)`$"  # these are compiled when a value is refused
_STEPS: Final = r"(?:\.\w+|\[\d+\])+"
_STEP: Final = r"\.(\w+)|\[(\d+)\]"
_FIELD: Final = r"(?:unknown|missing required) field `([^`]*)`"
_GOT: Final = r", got `(\w+)`"


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
    place = found[1] if (found := re.search(_PLACE, message)) else ""
    field = found[1] if (found := re.search(_FIELD, message)) else ""
    got = found[1] if (found := re.search(_GOT, message)) else ""
    path = tuple(int(index) if index else name for name, index in re.findall(_STEP, place))
    return InvalidValue(
        path=path if re.fullmatch(_STEPS, place) else None,
        field=".".join(part for part in (place.removeprefix("."), field) if part),
        got=got,
    )
