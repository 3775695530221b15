"""Rules that types cannot express: between settings, and what each layer may contain.

Trusting a project lets it run its code and choose its rules. It never gives the project access to the user's keys: a
project's file may not name a key, send an existing provider's key elsewhere, or change the network and the server.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Any

from holdfast.config.provider_catalogue import PROVIDERS, SEARCH_VARIABLES
from holdfast.config.secrets import key_sources, secret_variables
from holdfast.config.setting_decoder import SettingProblem, decode
from holdfast.config.setting_layers import Layer
from holdfast.config.settings import Settings
from holdfast.config.toml_document import format_key

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*", re.ASCII)
_USER_TABLES = ("server", "network")


def check_layer(layer: Layer, *, user: Settings) -> tuple[list[SettingProblem], list[str]]:
    """Return the problems and the warnings of one layer by itself. `user`: the settings of the user's lower layers."""
    settings, problems = decode(layer.data)
    if layer.kind == "project":
        providers = {*PROVIDERS, *SEARCH_VARIABLES, *user.providers}
        problems += _refused_in_project(layer.data, providers=providers, variables=secret_variables(user))
    warnings = [] if problems or layer.kind not in ("user", "extra") else list(_literal_keys(layer, settings))
    return problems, warnings


def check_settings(settings: Settings) -> list[SettingProblem]:
    """Return the problems of all layers together."""
    return [*_check_names(settings), *_check_providers(settings), *_check_mcp(settings)]


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
    search = data.get("web_search")
    for key in ("api_key", "url"):
        if isinstance(search, dict) and key in search:
            yield SettingProblem(("web_search", key), "can only be set in your own configuration, not by a project")


def _tables(value: object) -> Iterator[tuple[str, dict[str, Any]]]:
    if isinstance(value, dict):
        yield from ((name, table) for name, table in value.items() if isinstance(table, dict))


def _texts(value: object) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        yield from ((name, text) for name, text in value.items() if isinstance(text, str))


def _literal_keys(layer: Layer, settings: Settings) -> Iterator[str]:
    for path, source in key_sources(settings):
        if source.literal:
            name = settings.web_search.provider if path[0] == "web_search" else path[1]
            line = layer.origin(path).line
            where = layer.source if line is None else f"{layer.source}:{line}"
            yield (
                f"{where}: {format_key(path)} is a key in plain text; run 'holdfast key set {name}' to store it in a "
                "file that only you can read"
            )


def _check_names(settings: Settings) -> Iterator[SettingProblem]:
    for table in ("providers", "agents", "mcp"):
        for name in getattr(settings, table):
            if not _NAME.fullmatch(name):
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
