"""Which MCP servers are configured: ``[mcp.NAME]`` in the configuration, and ``.mcp.json`` of a trusted project."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from holdfast.config import Config
from holdfast.config.secrets import is_secret_name
from holdfast.config.setting_types import Headers, Url, Variables, is_name
from holdfast.config.settings import McpServerSettings, McpTransport
from holdfast.files import repository_root
from holdfast.schema.base import Value

PROJECT_FILE = ".mcp.json"
_MAX_FILE = 1 << 20
_REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
_TRANSPORTS: Mapping[str, McpTransport] = {"http": "http", "streamable-http": "http", "sse": "sse"}


class McpServerConfig(Value, frozen=True, kw_only=True):
    """One configured server, with its variables expanded."""

    name: str
    command: tuple[str, ...] = ()
    env: Variables = msgspec.field(default_factory=Variables)
    url: Url | None = None
    headers: Headers = msgspec.field(default_factory=Headers)
    transport: McpTransport | None = None
    start_timeout: float
    timeout: float
    tools: tuple[str, ...] = ("*",)
    disabled_tools: tuple[str, ...] = ()
    sampling: bool = False
    sampling_model: str | None = None
    sampling_tokens: int = 0
    sampling_requests: int = 0
    enabled: bool = True
    source: str = ""
    problem: str = ""
    """Why it cannot be used."""


def configured_servers(
    config: Config, project: Collection[McpServerConfig], *, env: Mapping[str, str]
) -> dict[str, McpServerConfig]:
    """Return the servers by name. The configuration wins over ``project``, the servers of ``.mcp.json``."""
    own = {name: _from_settings(name, config, env) for name in config.settings.mcp}
    return {**{server.name: server for server in project if server.name not in own}, **own}


def _from_settings(name: str, config: Config, env: Mapping[str, str]) -> McpServerConfig:
    settings = config.settings.mcp[name]
    places = [origin.place for key, origin in config.origins.items() if key[:2] == ("mcp", name)]
    return McpServerConfig(
        name=name,
        command=settings.command,
        env=Variables(settings.env.expand(env)),
        url=settings.url,
        headers=Headers(settings.headers.expand(env)),
        transport=settings.transport,
        start_timeout=float(settings.start_timeout),
        timeout=float(settings.timeout),
        tools=settings.tools,
        disabled_tools=settings.disabled_tools,
        sampling=settings.sampling,
        sampling_model=settings.sampling_model,
        sampling_tokens=settings.sampling_tokens,
        sampling_requests=settings.sampling_requests,
        enabled=settings.enabled,
        source=places[0] if places else "",
    )


def project_files(directory: Path) -> tuple[Path, ...]:
    """Each ``.mcp.json`` that exists, from the repository's root down to the directory. Blocking."""
    root = repository_root(directory)
    below = [directory, *directory.parents]
    folders = reversed(below[: below.index(root) + 1] if root in below else [directory])
    return tuple(folder / PROJECT_FILE for folder in folders if os.path.lexists(folder / PROJECT_FILE))


def read_project_file(path: Path, *, env: Mapping[str, str], secret: Collection[str]) -> list[McpServerConfig]:
    """Read the servers of a ``.mcp.json``. What is wrong with one is its ``problem``. Blocking.

    ``${NAME}`` and ``${NAME:-default}`` are expanded, except variables that hold keys (``secret``).
    """
    try:
        with path.open("rb") as file:
            found = msgspec.json.decode(file.read(_MAX_FILE))
    except OSError as error:
        return [_broken(PROJECT_FILE, path, f"it cannot be read: {error.strerror}")]
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return [_broken(PROJECT_FILE, path, f"it is not valid JSON: {error}")]
    servers = found.get("mcpServers") if isinstance(found, dict) else None
    if not isinstance(servers, dict):
        return [_broken(PROJECT_FILE, path, "it has no object 'mcpServers'")]
    return [_from_json(name, value, path, _Expansion(env, secret)) for name, value in servers.items()]


class _Expansion:
    """Expands references to variables in the values of a file."""

    def __init__(self, env: Mapping[str, str], secret: Collection[str]) -> None:
        self._env = env
        self._secret = secret

    def text(self, value: object) -> str:
        if not isinstance(value, str):
            raise ValueError("expected a text")
        return _REFERENCE.sub(self._value, value)

    def table(self, value: object) -> dict[str, str]:
        if not isinstance(value, dict):
            raise ValueError("expected an object")
        return {name: self.text(item) for name, item in value.items()}

    def _value(self, found: re.Match[str]) -> str:
        name, default = found.groups()
        if name in self._secret:
            raise ValueError(f"a project cannot pass on the variable {name!r}, which holds a key")
        value = self._env.get(name, default)
        if value is None:
            raise ValueError(f"the variable {name!r} is not set; set it, then stop the server with 'holdfast stop'")
        return value


def _from_json(name: str, value: object, path: Path, expansion: _Expansion) -> McpServerConfig:
    shown = name if is_name(name) else repr(name)
    if not is_name(name):
        return _broken(shown, path, "a name may contain only letters, digits, '.', '_' and '-'")
    if not isinstance(value, dict):
        return _broken(shown, path, "expected an object with 'command' or 'url'")
    try:
        return _checked(name, value, path, expansion)
    except ValueError as error:
        return _broken(shown, path, str(error))


def _checked(name: str, value: dict[str, Any], path: Path, expansion: _Expansion) -> McpServerConfig:
    defaults = McpServerSettings()
    kind = value.get("type", "stdio" if "command" in value else "http")
    if kind != "stdio" and kind not in _TRANSPORTS:
        raise ValueError(f"the type {kind!r} is not known; known: stdio, http, sse")
    program, url = value.get("command"), value.get("url")
    if (program is None) == (url is None) or (kind == "stdio") != (program is not None):
        raise ValueError("it needs either 'command' or 'url', as its type says")
    arguments = value.get("args", [])
    if not isinstance(arguments, list):
        raise ValueError("'args' must be a list of texts")
    command = () if program is None else (expansion.text(program), *map(expansion.text, arguments))
    if command and not command[0].strip():
        raise ValueError("the command is empty")
    return McpServerConfig(
        name=name,
        command=command,
        env=Variables.from_config(expansion.table(value.get("env", {}))),
        url=None if url is None else Url.from_config(expansion.text(url)),
        headers=Headers.from_config(expansion.table(value.get("headers", {}))),
        transport=_TRANSPORTS[kind] if "type" in value and url is not None else None,
        start_timeout=float(defaults.start_timeout),
        timeout=float(defaults.timeout),
        enabled=value.get("disabled") is not True,
        source=str(path),
    )


def _broken(name: str, path: Path, problem: str) -> McpServerConfig:
    return McpServerConfig(name=name, start_timeout=0.0, timeout=0.0, source=str(path), problem=problem)


_INHERITED = frozenset(
    {
        *("PATH", "HOME", "LOGNAME", "USER", "SHELL", "TERM", "TMPDIR", "TZ", "LANG", "LANGUAGE"),
        *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS"),
    }
)
_INHERITED_PREFIXES = ("LC_", "XDG_")


def server_environment(server: McpServerConfig, env: Mapping[str, str], *, secret: Collection[str]) -> dict[str, str]:
    """Return the environment of a server's process: a few variables of ours, and those that are configured for it."""
    names = (name for name in env if name.upper() in _INHERITED or name.startswith(_INHERITED_PREFIXES))
    inherited = {name: env[name] for name in names if name not in secret and not env[name].startswith("()")}
    return {**inherited, **server.env}


def secrets_of(servers: Collection[McpServerConfig]) -> Iterator[str]:
    """Return the values of headers and variables that may be credentials, for redaction."""
    for server in servers:
        for name, value in (*server.headers.items(), *server.env.items()):
            if is_secret_name(name) and value:
                yield value
                yield value.rpartition(" ")[2]  # without its "Bearer"
