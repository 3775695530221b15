"""Fits the arguments of a call to the struct of its tool. Pure.

Valid arguments are converted at once. Otherwise small slips are corrected: unknown arguments are ignored with a note,
numbers outside their range become the nearest allowed one with a note, and JSON in a text, one item instead of a list,
numbers in texts and ``null`` for an optional argument are understood.
"""

from __future__ import annotations

import json
import types
from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

import msgspec

from holdfast.errors import ToolError

_MAX_NAMES = 10
_MAX_NAME = 60


class DecodedArguments(NamedTuple):
    arguments: Any
    notes: tuple[str, ...] = ()


def field_names(arguments: type[Any]) -> tuple[str, ...]:
    """Return the names of a struct's fields; none for a tool with an external schema."""
    return () if arguments is dict else tuple(arguments.__struct_fields__)


def decode_arguments(tool: str, arguments: type[Any], given: Mapping[str, Any]) -> DecodedArguments:
    """Return the validated struct, or a dict if that is the type. Raises `ToolError` if the arguments are invalid."""
    if arguments is dict:
        return DecodedArguments(dict(given))
    try:
        return DecodedArguments(msgspec.convert(given, arguments, strict=False))
    except msgspec.ValidationError:
        pass
    fitter = _Fitter()
    fitted = fitter.fit(given, arguments, "")
    try:
        found = msgspec.convert(fitted, arguments, strict=False)
    except msgspec.ValidationError as error:
        fields = {field.name: field.required for field in msgspec.structs.fields(arguments)}
        known = ", ".join(f"{name} (required)" if required else name for name, required in fields.items())
        ignored = f" Unknown: {_listed(fitter.ignored)}." if fitter.ignored else ""
        message = f"invalid arguments for {tool!r}: {error}.{ignored} Parameters: {known or 'none'}."
        raise ToolError(message) from None
    notes = list(fitter.notes)
    if fitter.ignored:
        known = ", ".join(field_names(arguments)) or "no arguments"
        notes.insert(0, f"ignored unknown arguments: {_listed(fitter.ignored)}; {tool} has: {known}")
    return DecodedArguments(found, tuple(notes))


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
    return ", ".join(name if len(name) <= _MAX_NAME else f"{name[:_MAX_NAME]}…" for name in names[:_MAX_NAMES]) + more


class _Fitter:
    """Corrects values by the types of the fields that they are for."""

    def __init__(self) -> None:
        self.ignored: list[str] = []
        self.notes: list[str] = []

    def fit(self, value: Any, wanted: Any, where: str) -> Any:
        wanted, meta = _plain_type(wanted)
        if isinstance(wanted, type) and issubclass(wanted, msgspec.Struct):
            return self._fit_struct(embedded_json(value), wanted, where)
        if get_origin(wanted) is tuple:
            return self._fit_list(embedded_json(value), get_args(wanted)[0], where)
        if get_origin(wanted) is Literal and isinstance(value, str):
            return _choice(value, get_args(wanted))
        if wanted is bool:
            return _truth(value)
        if wanted in (int, float):
            return self._fit_number(value, wanted, meta, where)
        return str(value) if wanted is str and isinstance(value, int | float) and not isinstance(value, bool) else value

    def _fit_struct(self, value: Any, wanted: type[msgspec.Struct], where: str) -> Any:
        if not isinstance(value, Mapping):
            return value
        hints = _hints(wanted)
        required = {field.name for field in msgspec.structs.fields(wanted) if field.required}
        done = {}
        for key, item in value.items():
            place = f"{where}.{key}" if where else str(key)
            if key not in hints:
                self.ignored += [repr(place)] if item is not None else []
            elif item is not None or key in required:
                done[key] = self.fit(item, hints[key], place)
        return done

    def _fit_list(self, value: Any, wanted: Any, where: str) -> Any:
        items = value if isinstance(value, list | tuple) else [value] if isinstance(value, str | dict) else None
        if items is None:
            return value
        return [self.fit(item, wanted, f"{where}[{number}]") for number, item in enumerate(items)]

    def _fit_number(self, value: Any, wanted: Any, meta: msgspec.Meta | None, where: str) -> Any:
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            return value
        try:
            number = float(value)
        except ValueError:
            return value
        low, high = (meta.ge, meta.le) if meta else (None, None)
        if high is not None and number > high:
            self.notes.append(f"{where} was {number:g}; the maximum {high:g} was used")
            return wanted(high)
        if number == 0 and low == 1:
            return wanted(low)
        return int(number) if wanted is int and number.is_integer() else value


@cache
def _hints(struct: type[msgspec.Struct]) -> dict[str, Any]:
    return get_type_hints(struct, include_extras=True)


def _plain_type(wanted: Any) -> tuple[Any, msgspec.Meta | None]:
    """Return a type without its annotation and without ``None``."""
    meta = None
    if get_origin(wanted) is Annotated:
        wanted, *more = get_args(wanted)
        meta = next((item for item in more if isinstance(item, msgspec.Meta)), None)
    if get_origin(wanted) in (Union, types.UnionType):
        options = [option for option in get_args(wanted) if option is not type(None)]
        if len(options) == 1:
            return _plain_type(options[0])
    return wanted, meta


def embedded_json(value: Any) -> Any:
    """Return the list or object that a text contains as JSON, else the value itself."""
    if isinstance(value, str) and value.lstrip()[:1] in ("[", "{"):
        try:
            return json.loads(value, strict=False)
        except (ValueError, RecursionError):
            return value
    return value


def _choice(value: str, allowed: tuple[Any, ...]) -> str:
    plain = value.strip().lower().replace("-", "_").replace(" ", "_")
    return plain if plain in allowed else value


def _truth(value: Any) -> Any:
    if isinstance(value, str):
        return {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False, "": False}.get(
            value.strip().lower(), value
        )
    return value
