"""The reference of all settings in docs/configuration.md, made from the types of the settings.

`HOLDFAST_TEST_UPDATE=1 .venv/bin/pytest tests/dev/test_config_reference.py` rewrites the document.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, get_args, get_origin

import msgspec

from holdfast.config import plain_values
from holdfast.config.config_schema import table_description
from holdfast.config.setting_types import Duration, KeySource, Url
from holdfast.config.setting_validation import SettingField, fields_of, is_table, table_in
from holdfast.config.settings import Settings
from holdfast.config.toml_document import KeyPath, format_key


class SettingRow(msgspec.Struct, frozen=True):
    """One key of the reference."""

    key: str
    kind: str
    default: str
    description: str


def reference() -> tuple[SettingRow, ...]:
    """Every key in order. ``NAME`` stands for a free name (a provider, a model, an agent, a server)."""
    return tuple(_rows(Settings, ()))


def reference_table() -> str:
    """The reference in Markdown, one section per table, as in docs/configuration.md."""
    alone = [row for row in reference() if "." not in row.key]
    sections = [_section("### Outside of tables", "At the top of the file, before the first table.", alone)]
    for name, field in fields_of(Settings).items():
        table = field.bare if is_table(field.bare) else table_in(field.bare)
        if table is not None:
            prefix = (name,) if table is field.bare else (name, "NAME")
            rows = list(_rows(table, prefix))
            sections.append(_section(f"### `[{'.'.join(prefix)}]`", table_description(table), rows))
    return "\n\n".join(sections) + "\n"


def _section(title: str, description: str, rows: list[SettingRow]) -> str:
    lines = [title, "", description, "", "| key | type | default | meaning |", "|---|---|---|---|"]
    lines += [
        f"| `{row.key}` | {_cell(row.kind)} | {f'`{_cell(row.default)}`' if row.default else '–'} "
        f"| {_cell(row.description)} |"
        for row in rows
    ]
    return "\n".join(lines)


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


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
