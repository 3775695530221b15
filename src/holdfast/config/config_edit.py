"""Change single keys of a configuration file; the rest of the file, comments included, stays as it is.

The new text is validated before it is written, and parsed again to prove that only the requested keys changed. If they
are not the only change, the file is left untouched.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping
from pathlib import Path
from typing import Any

from holdfast.config.config_files import exclusive, problem_with, read_text, write_bytes
from holdfast.config.config_layers import Layer, checked_key, join, layer_from_text
from holdfast.config.toml_document import KeyPath, TomlError, format_key, parse_toml


def edit_config(path: Path, changes: Mapping[str, Any]) -> None:
    """Change the user's own file: set values by dotted key, or remove them with ``None``; all or none.

    Blocks: call it in a thread.
    """
    edits = {checked_key(key): value for key, value in changes.items()}
    with exclusive(path):
        text = read_text(path) or ""
        layer_from_text(text, kind="user", path=path)
        edited = _edited(text, edits, path=path)
        data = layer_from_text(edited, kind="user", path=path).data
        join([Layer("user", str(path), data)])  # without lines: they would be those of the new text
        if edited != text:
            write_bytes(path, edited.encode())


def _edited(text: str, edits: Mapping[KeyPath, Any], *, path: Path) -> str:
    from tomlkit import parse
    from tomlkit.exceptions import TOMLKitError

    expected = parse_toml(text)
    document = parse(text)
    try:
        for key, value in edits.items():
            if value is None:
                _remove(expected, key)
                _remove(document, key)
            else:
                _put(expected, key, value, nest=lambda container: {})
                _put(document, key, value, nest=_new_table)
        edited = document.as_string()
        if _without_empty_tables(parse_toml(edited)) == _without_empty_tables(expected):
            return edited
    except (TOMLKitError, TomlError, KeyError, TypeError, AttributeError, ValueError):
        pass
    keys = ", ".join(format_key(key) for key in edits)
    raise problem_with(path, f"{keys} cannot be changed without other changes; edit the file by hand")


def _put(container: MutableMapping[str, Any], key: KeyPath, value: Any, *, nest: Callable[[Any], Any]) -> None:
    for part in key[:-1]:
        if part not in container:
            container[part] = nest(container)
        container = container[part]
    container[key[-1]] = value


def _remove(container: MutableMapping[str, Any], key: KeyPath) -> None:
    for part in key[:-1]:
        if part not in container:
            return
        container = container[part]
    container.pop(key[-1], None)


def _without_empty_tables(value: Any) -> Any:
    """The last table below a header takes the header with it. An empty table means nothing in the settings."""
    if not isinstance(value, dict):
        return value
    kept = {key: _without_empty_tables(item) for key, item in value.items()}
    return {key: item for key, item in kept.items() if item != {}}


def _new_table(container: Any) -> Any:
    """A nested table: inline if its parent is inline."""
    from tomlkit import inline_table, table
    from tomlkit.items import InlineTable

    return inline_table() if isinstance(container, InlineTable) else table(is_super_table=True)
