"""The reference of the configuration, made from its types: JSON Schema for editors, a Markdown table for people."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any, Literal, get_args, get_origin

import msgspec

from holdfast.config.config_layers import plain_values
from holdfast.config.setting_types import Duration, KeySource, Leaf, Url
from holdfast.config.setting_validation import SettingField, fields_of, is_table, table_in
from holdfast.config.settings import Settings, Table
from holdfast.config.toml_document import KeyPath, format_key


class SettingRow(msgspec.Struct, frozen=True):
    """One key of the reference."""

    key: str
    kind: str
    default: str
    description: str


def config_schema() -> dict[str, Any]:
    """One JSON Schema (2020-12) for every configuration file."""
    definitions: dict[str, Any] = {}
    root = _table_schema(Settings, definitions)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Holdfast configuration",
        **root,
        "$defs": dict(sorted(definitions.items())),
    }


def reference() -> tuple[SettingRow, ...]:
    """Every key in order. ``NAME`` stands for a free name (a provider, a model, an agent, a server)."""
    return tuple(_rows(Settings, ()))


def reference_table() -> str:
    """The reference in Markdown, one section per table, as in docs/configuration.md."""
    sections = []
    for name, field in fields_of(Settings).items():
        table = field.bare if is_table(field.bare) else table_in(field.bare)
        prefix = (name,) if table is field.bare else (name, "NAME")
        lines = [f"### `[{'.'.join(prefix)}]`", "", _document(table), "", "| key | type | default | meaning |"]
        lines.append("|---|---|---|---|")
        lines += [
            f"| `{row.key}` | {_cell(row.kind)} | {f'`{_cell(row.default)}`' if row.default else '–'} "
            f"| {_cell(row.description)} |"
            for row in _rows(table, prefix)
        ]
        sections.append("\n".join(lines))
    return "\n\n".join(sections) + "\n"


def _table_schema(table: type[Table], definitions: dict[str, Any]) -> dict[str, Any]:
    fields = fields_of(table)
    schema: dict[str, Any] = {"type": "object", "description": _document(table)}
    schema["properties"] = {name: _field_schema(field, definitions) for name, field in fields.items()}
    if required := [name for name, field in fields.items() if field.default is msgspec.NODEFAULT]:
        schema["required"] = required
    return {**schema, "additionalProperties": False}


def _field_schema(field: SettingField, definitions: dict[str, Any]) -> dict[str, Any]:
    described = {"description": field.description} if field.description else {}
    if is_table(field.bare):
        return {**described, "$ref": _define(field.bare, definitions)}
    if inner := table_in(field.bare):
        return {**described, "type": "object", "additionalProperties": {"$ref": _define(inner, definitions)}}
    if isinstance(field.bare, type) and issubclass(field.bare, Leaf):
        schema = dict(field.bare.json_schema)
    else:
        schema = msgspec.json.schema(field.full)
        if "anyOf" in schema:
            [schema] = [option for option in schema["anyOf"] if option != {"type": "null"}]
    if field.default is not None and field.default is not msgspec.NODEFAULT:
        schema = {**schema, "default": plain_values(field.default)}
    return {**schema, **described}


def _define(table: type[Table], definitions: dict[str, Any]) -> str:
    if table.__name__ not in definitions:
        definitions[table.__name__] = {}
        definitions[table.__name__] = _table_schema(table, definitions)
    return f"#/$defs/{table.__name__}"


def _rows(table: Any, path: KeyPath) -> Iterator[SettingRow]:
    for name, field in fields_of(table).items():
        here = (*path, name)
        if is_table(field.bare):
            yield from _rows(field.bare, here)
        elif inner := table_in(field.bare):
            yield from _rows(inner, (*here, "NAME"))
        else:
            yield SettingRow(format_key(here), _kind(field.bare), _default(field), field.description)


def _kind(kind: Any) -> str:
    if get_origin(kind) is Literal:
        return " or ".join(f'`"{option}"`' for option in get_args(kind))
    if isinstance(kind, type) and issubclass(kind, Duration):
        return "duration"
    if isinstance(kind, type) and issubclass(kind, KeySource):
        return "key source"
    if isinstance(kind, type) and issubclass(kind, Url):
        return "address"
    names = {int: "whole number", float: "number", bool: "true or false", str: "text", tuple: "list of texts"}
    return names.get(get_origin(kind) or kind, "table")


def _default(field: SettingField) -> str:
    if field.default is None or field.default is msgspec.NODEFAULT:
        return ""
    return msgspec.json.encode(plain_values(field.default)).decode()


def _document(table: Any) -> str:
    return inspect.cleandoc(table.__doc__ or "")


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
