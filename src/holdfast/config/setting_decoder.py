"""Decode plain values into typed settings; every problem is named by its key.

All problems of a document are collected, so that a person fixes a file once. Messages show keys and types, not values:
a value may be a secret.
"""

from __future__ import annotations

import datetime
import math
import re
from functools import cache
from types import UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, cast, get_args, get_origin

import msgspec

from holdfast.config.settings import Settings, Table
from holdfast.config.toml_document import KeyPath, format_key
from holdfast.config.value_types import Leaf, shown, type_name

T = TypeVar("T", bound=Table)

_AT_LEAST = re.compile(r">= (\d+)")


class SettingProblem(msgspec.Struct, frozen=True):
    """One problem of a document."""

    key: KeyPath
    message: str

    def __str__(self) -> str:
        return f"{format_key(self.key)}: {self.message}" if self.key else self.message


class SettingField(msgspec.Struct, frozen=True):
    """One key of a table."""

    name: str
    full: Any
    """The whole annotation, for `msgspec`."""
    bare: Any
    """The annotation without its description and without ``None``."""
    description: str
    default: Any
    """The default, or `msgspec.NODEFAULT` for a required key."""


def decode(data: dict[str, Any]) -> tuple[Settings, list[SettingProblem]]:
    """Decode a whole document. Returns the settings and the problems; do not use the settings if there are problems."""
    problems: list[SettingProblem] = []
    return _table(Settings, data, (), problems) or Settings(), problems


@cache
def fields_of(table: type[Table]) -> dict[str, SettingField]:
    """A table's keys in order."""
    return {
        field.name: SettingField(
            field.name,
            field.type,
            _bare(field.type),
            _description(field.type),
            field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory(),
        )
        for field in msgspec.structs.fields(table)
    }


def is_table(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Table)


def table_in(kind: Any) -> type[Table] | None:
    """The inner table of a table with free names, such as ``providers``."""
    arguments = get_args(kind)
    return arguments[1] if get_origin(kind) is dict and is_table(arguments[1]) else None


def _table(kind: type[T], data: object, path: KeyPath, problems: list[SettingProblem]) -> T | None:
    if not isinstance(data, dict):
        problems.append(SettingProblem(path, f"expected a table, got {type_name(data)}"))
        return None
    fields = fields_of(kind)
    before = len(problems)
    values = {}
    for name, value in data.items():
        if field := fields.get(name):
            values[name] = _value(field, value, (*path, name), problems)
        else:
            problems.append(SettingProblem((*path, name), unknown(name, fields, what="key")))
    for name, field in fields.items():
        if field.default is msgspec.NODEFAULT and name not in data:
            problems.append(SettingProblem(path, f"{name!r} is missing"))
    return kind(**values) if len(problems) == before else None


def _value(field: SettingField, value: object, path: KeyPath, problems: list[SettingProblem]) -> Any:
    if is_table(field.bare):
        return _table(field.bare, value, path, problems)
    if inner := table_in(field.bare):
        if isinstance(value, dict):
            return {name: _table(inner, item, (*path, name), problems) for name, item in value.items()}
        problems.append(SettingProblem(path, f"expected a table, got {type_name(value)}"))
        return None
    try:
        if isinstance(field.bare, type) and issubclass(field.bare, Leaf):
            return field.bare.from_config(value)
        _check_plain(value)
        return msgspec.convert(value, field.full)
    except msgspec.ValidationError as error:
        problems.append(SettingProblem(path, _explain(field.bare, value, error)))
    except ValueError as error:
        problems.append(SettingProblem(path, str(error)))
    return None


def _explain(kind: Any, value: object, error: msgspec.ValidationError) -> str:
    """Describe what `msgspec` found in terms of TOML."""
    reason, _, inside = str(error).partition(" - at `")
    if get_origin(kind) is Literal and isinstance(value, str):
        return unknown(value, cast("tuple[str, ...]", get_args(kind)), what="value")
    if inside:
        return "each value in it must be text that is not empty"
    if "length" in reason:
        return "expected text that is not empty"
    if found := _AT_LEAST.search(reason):
        return f"expected at least {found[1]}, got {shown(value)}"
    return f"expected {_EXPECTED.get(get_origin(kind) or kind, 'another value')}, got {type_name(value)}"


_EXPECTED: dict[Any, str] = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "text",
    tuple: "a list",
    dict: "a table",
    Literal: "text",
}


def unknown(name: str, known: Any, *, what: str) -> str:
    """``unknown key 'max_step'; did you mean 'max_steps'?``"""
    import difflib

    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    hint = f"did you mean {close[0]!r}?" if close else f"known here: {', '.join(known)}"
    return f"unknown {what} {shown(name)}; {hint}"


def _check_plain(value: object) -> None:
    """Refuse TOML values that JSON cannot express; they would fail later, in a request to a model."""
    match value:
        case float() if not math.isfinite(value):
            raise ValueError("expected a finite number")
        case datetime.date() | datetime.time():
            raise ValueError("dates and times are not supported; write text in quotes")
        case list():
            for item in value:
                _check_plain(item)
        case dict():
            for item in value.values():
                _check_plain(item)


def _bare(kind: Any) -> Any:
    if get_origin(kind) is Annotated:
        return _bare(get_args(kind)[0])
    if get_origin(kind) in (Union, UnionType):
        options = [option for option in get_args(kind) if option is not type(None)]
        if len(options) == 1:
            return _bare(options[0])
    return kind


def _description(kind: Any) -> str:
    if get_origin(kind) is Annotated:
        for meta in kind.__metadata__:
            if isinstance(meta, msgspec.Meta) and meta.description:
                return meta.description
    return ""
