"""The JSON Schema of the configuration files, made from the types of the settings. Editors use it."""

from __future__ import annotations

import inspect
from typing import Any

import msgspec

from holdfast.config.config_layers import plain_values
from holdfast.config.setting_types import Leaf
from holdfast.config.setting_validation import SettingField, fields_of, is_table, table_in
from holdfast.config.settings import Settings, Table


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


def _table_schema(table: type[Table], definitions: dict[str, Any]) -> dict[str, Any]:
    fields = fields_of(table)
    schema: dict[str, Any] = {"type": "object", "description": table_description(table)}
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


def table_description(table: type[Table]) -> str:
    return inspect.cleandoc(table.__doc__ or "")
