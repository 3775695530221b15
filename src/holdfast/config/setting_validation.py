"""Check the values of a configuration: the type of each value, the rules between settings, the limits of a project.

`decode` turns plain values into typed settings. It collects all problems of a document, each with its key, so that a
file can be fixed in one go. Messages show keys and types, not values: a value may be a secret.

Trusting a project lets it run its code and choose its rules. It never gives the project access to the user's keys: a
project's file may not name a key, send an existing provider's key elsewhere, or change the network and the server.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Collection, Iterator
from functools import cache
from types import UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, cast, get_args, get_origin

import msgspec

from holdfast.config.provider_catalogue import PROVIDERS, SEARCH_VARIABLES
from holdfast.config.secrets import secret_variables
from holdfast.config.setting_types import Leaf, is_name, shown, type_name
from holdfast.config.settings import Settings, Table
from holdfast.config.toml_document import KeyPath, format_key

T = TypeVar("T", bound=Table)

_USER_TABLES = ("server", "network", "store")
_EVENTS_OF_TOOLS = frozenset({"before_tool", "after_tool", "approval"})


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
    return decode_table(Settings, data)


def decode_table(kind: type[T], data: dict[str, Any]) -> tuple[T, list[SettingProblem]]:
    """Decode a document of this type, all of whose keys have a default."""
    problems: list[SettingProblem] = []
    return _table(kind, data, (), problems) or kind(), problems


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
    except msgspec.ValidationError:
        problems.append(SettingProblem(path, _explain(field, value)))
    except ValueError as error:
        problems.append(SettingProblem(path, str(error)))
    return None


def _explain(field: SettingField, value: object) -> str:
    """Why a value does not fit its key, found from the types and not from `msgspec`'s message."""
    kind = get_origin(field.bare) or field.bare
    if kind is Literal and isinstance(value, str):
        return unknown(value, cast("tuple[str, ...]", get_args(field.bare)), what="value")
    expected, types = _EXPECTED[kind]
    if not isinstance(value, types) or (isinstance(value, bool) and kind is not bool):
        return f"expected {expected}, got {type_name(value)}"
    if isinstance(value, int | float):
        minimum = _minimum(field.full)
        too_small = minimum is not None and value < minimum
        return f"expected at least {minimum}, got {shown(value)}" if too_small else "the number is out of range"
    if isinstance(value, list | tuple) and (known := _literals_in(field.bare)):
        wrong = next((item for item in value if item not in known), "")
        return unknown(str(wrong), known, what="value")
    return (
        "expected text that is not empty"
        if isinstance(value, str)
        else "each value in it must be text that is not empty"
    )


def _literals_in(kind: Any) -> tuple[str, ...]:
    """The values that a list of literals may contain."""
    inner = get_args(kind)[0] if get_origin(kind) is tuple else None
    return get_args(inner) if get_origin(inner) is Literal else ()


_EXPECTED: dict[Any, tuple[str, tuple[type, ...]]] = {
    int: ("a whole number", (int,)),
    float: ("a number", (int, float)),
    bool: ("true or false", (bool,)),
    str: ("text", (str,)),
    tuple: ("a list", (list, tuple)),
    dict: ("a table", (dict,)),
    Literal: ("text", (str,)),
}


def _minimum(kind: Any) -> float | None:
    """The smallest number that an annotation allows."""
    for meta in getattr(kind, "__metadata__", ()):
        if isinstance(meta, msgspec.Meta) and meta.ge is not None:
            return meta.ge
    found = (_minimum(option) for option in get_args(kind))
    return next((minimum for minimum in found if minimum is not None), None)


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


def check_project(data: dict[str, Any], *, user: Settings) -> list[SettingProblem]:
    """Return the keys that a project's file sets and may not set. `user`: the settings of the user's own layers."""
    providers = {*PROVIDERS, *SEARCH_VARIABLES, *user.providers}
    refused = _refused_in_project(data, providers=providers, variables=secret_variables(user))
    return [*refused, *_refused_hooks(data, user=user)]


def check_settings(settings: Settings) -> list[SettingProblem]:
    """Return the problems of all layers together: those that no single key shows."""
    return [*_check_names(settings), *_check_providers(settings), *_check_mcp(settings), *_check_hooks(settings)]


def _refused_in_project(
    data: dict[str, Any], *, providers: Collection[str], variables: Collection[str]
) -> Iterator[SettingProblem]:
    """Keys that a project's file may not set.

    `providers` exist without the project; `variables` hold the user's keys.
    """
    for table in _USER_TABLES:
        if table in data:
            yield SettingProblem((table,), "can only be set in your own configuration, not by a project")
    for name, provider in _tables(data.get("providers")):
        path = ("providers", name)
        if name in providers:
            for key in ("base_url", "wire", "headers"):
                if key in provider:
                    yield SettingProblem((*path, key), f"a project cannot change where the key of {name!r} is sent")
        if "api_key" in provider:
            message = f"a project cannot name a key; run 'holdfast key set {name}' instead"
            yield SettingProblem((*path, "api_key"), message)
        for header, value in _texts(provider.get("headers")):
            if value.startswith("env:"):
                yield SettingProblem((*path, "headers", header), "a project cannot send your variables to a provider")
    for name, server in _tables(data.get("mcp")):
        for key in ("env", "headers"):
            for item, value in _texts(server.get(key)):
                if value.startswith("env:") and value.removeprefix("env:") in variables:
                    message = "a project cannot pass on a variable that holds a key"
                    yield SettingProblem(("mcp", name, key, item), message)
    tools = data.get("tools")
    if isinstance(tools, dict) and "variables" in tools:
        yield SettingProblem(("tools", "variables"), "can only be set in your own configuration, not by a project")
    search = data.get("web_search")
    for key in ("api_key", "url"):
        if isinstance(search, dict) and key in search:
            yield SettingProblem(("web_search", key), "can only be set in your own configuration, not by a project")


def _refused_hooks(data: dict[str, Any], *, user: Settings) -> Iterator[SettingProblem]:
    for name, _ in _tables(data.get("hooks")):
        if name in user.hooks:
            message = "a project cannot change a hook of your own configuration; it must use another name"
            yield SettingProblem(("hooks", name), message)
    tools = data.get("tools")
    if isinstance(tools, dict) and "claude_hooks" in tools:
        yield SettingProblem(("tools", "claude_hooks"), "can only be set in your own configuration, not by a project")


def _tables(value: object) -> Iterator[tuple[str, dict[str, Any]]]:
    if isinstance(value, dict):
        yield from ((name, table) for name, table in value.items() if isinstance(table, dict))


def _texts(value: object) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        yield from ((name, text) for name, text in value.items() if isinstance(text, str))


def _check_names(settings: Settings) -> Iterator[SettingProblem]:
    for table in ("providers", "agents", "mcp", "formatters", "hooks", "lsp"):
        for name in getattr(settings, table):
            if not is_name(name):
                yield SettingProblem((table, name), "a name may contain only letters, digits, '.', '_' and '-'")
    for name in settings.providers:
        for model in settings.providers[name].models:
            if not model.strip() or not model.isprintable():
                yield SettingProblem(("providers", name, "models", model), "is not a model id")


def _check_providers(settings: Settings) -> Iterator[SettingProblem]:
    for name, provider in settings.providers.items():
        if name in PROVIDERS or not provider.enabled:
            continue
        for key in ("wire", "base_url"):
            if getattr(provider, key) is None:
                message = f"{key!r} is missing, and {name!r} is not a built-in provider"
                yield SettingProblem(("providers", name), message)


def _check_mcp(settings: Settings) -> Iterator[SettingProblem]:
    for name, server in settings.mcp.items():
        if bool(server.command) == bool(server.url):
            yield SettingProblem(("mcp", name), "needs either 'command' or 'url'")


def _check_hooks(settings: Settings) -> Iterator[SettingProblem]:
    for name, hook in settings.hooks.items():
        for key in ("events", "command"):
            if not getattr(hook, key):
                yield SettingProblem(("hooks", name), f"{key!r} is missing")
        if hook.tools and not _EVENTS_OF_TOOLS.intersection(hook.events):
            message = f"is only for the events {', '.join(sorted(_EVENTS_OF_TOOLS))}"
            yield SettingProblem(("hooks", name, "tools"), message)
