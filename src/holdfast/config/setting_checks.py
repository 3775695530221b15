"""What types cannot say: rules between settings, and what a layer may not contain."""

from __future__ import annotations

import re
from collections.abc import Iterator

from holdfast.config.project_settings import refused_in_project
from holdfast.config.provider_catalogue import PROVIDERS, SEARCH_VARIABLES
from holdfast.config.setting_decoding import Problem, decode
from holdfast.config.setting_sources import Layer
from holdfast.config.settings import Settings
from holdfast.config.toml_document import KeyPath, format_key
from holdfast.config.value_types import KeySource, Secret

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*", re.ASCII)


def check_layer(layer: Layer, *, own: Settings) -> tuple[list[Problem], list[str]]:
    """What is wrong with one layer by itself, and what is unwise. `own`: what the user's lower layers say."""
    settings, problems = decode(layer.data)
    if layer.kind == "project":
        providers = {*PROVIDERS, *SEARCH_VARIABLES, *own.providers}
        problems += refused_in_project(layer.data, providers=providers, variables=secret_variables(own))
    warnings = [] if problems or layer.kind not in ("user", "extra") else list(_keys_in_plain_sight(layer, settings))
    return problems, warnings


def check_settings(settings: Settings) -> list[Problem]:
    """What is wrong with all layers together."""
    return [*_check_names(settings), *_check_providers(settings), *_check_mcp(settings)]


def key_sources(settings: Settings) -> Iterator[tuple[KeyPath, KeySource]]:
    """Every configured key, with its place."""
    for name, provider in settings.providers.items():
        if provider.api_key:
            yield ("providers", name, "api_key"), provider.api_key
    if settings.web_search.api_key:
        yield ("web_search", "api_key"), settings.web_search.api_key


def secret_variables(settings: Settings) -> frozenset[str]:
    """Names of variables that hold keys. Tools, hooks and extensions must not have them in their environment (W8)."""
    names = {"HOLDFAST_TOKEN"}
    names.update(variable for provider in PROVIDERS.values() for variable in provider.key_env)
    names.update(variable for variables in SEARCH_VARIABLES.values() for variable in variables)
    names.update(source.argument for _, source in key_sources(settings) if source.kind == "env")
    for header, value in _headers(settings):
        if value.startswith("env:") and _is_secret_name(f"{header} {value}"):
            names.add(value.removeprefix("env:"))
    return frozenset(names)


def configured_secrets(settings: Settings) -> Iterator[Secret]:
    """Secrets that stand in the configuration itself, for redaction."""
    for _, source in key_sources(settings):
        if source.literal:
            yield source.literal
    addresses = [settings.network.proxy, settings.web_search.url]
    addresses += [provider.base_url for provider in settings.providers.values()]
    addresses += [server.url for server in settings.mcp.values()]
    for address in addresses:
        if address and (password := address.password):
            yield password
    for header, value in _headers(settings):
        if _is_secret_name(header) and not value.startswith("env:"):
            yield from {Secret(value), Secret(value.rpartition(" ")[2])}  # also without its "Bearer"


def _headers(settings: Settings) -> Iterator[tuple[str, str]]:
    for provider in settings.providers.values():
        yield from provider.headers.items()
    for server in settings.mcp.values():
        yield from (*server.headers.items(), *server.env.items())


def _is_secret_name(name: str) -> bool:
    return re.search(r"auth|key|token|secret|password|cookie|credential", name, re.IGNORECASE) is not None


def _keys_in_plain_sight(layer: Layer, settings: Settings) -> Iterator[str]:
    for path, source in key_sources(settings):
        if source.literal:
            name = settings.web_search.provider if path[0] == "web_search" else path[1]
            line = layer.origin(path).line
            where = layer.source if line is None else f"{layer.source}:{line}"
            yield (
                f"{where}: {format_key(path)} is a key in plain sight; 'holdfast key set {name}' keeps it apart, "
                "in a file that only you can read"
            )


def _check_names(settings: Settings) -> Iterator[Problem]:
    for table in ("providers", "agents", "mcp"):
        for name in getattr(settings, table):
            if not _NAME.fullmatch(name):
                yield Problem((table, name), "a name has letters, digits, '.', '_' and '-' only")
    for name in settings.providers:
        for model in settings.providers[name].models:
            if not model.strip() or not model.isprintable():
                yield Problem(("providers", name, "models", model), "is no model id")


def _check_providers(settings: Settings) -> Iterator[Problem]:
    for name, provider in settings.providers.items():
        if name in PROVIDERS or not provider.enabled:
            continue
        for key in ("wire", "base_url"):
            if getattr(provider, key) is None:
                yield Problem(("providers", name), f"{key!r} is missing, and {name!r} is not a built-in provider")


def _check_mcp(settings: Settings) -> Iterator[Problem]:
    for name, server in settings.mcp.items():
        if bool(server.command) == bool(server.url):
            yield Problem(("mcp", name), "needs either 'command' or 'url'")
