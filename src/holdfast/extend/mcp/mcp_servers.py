"""The MCP servers of one workspace. Follows the configuration, and knows the tools of all servers."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from pathlib import Path

import msgspec
from msgspec.structs import replace

from holdfast.config import Config, Policy, Secret
from holdfast.config.secrets import secret_variables
from holdfast.config.settings import NetworkSettings
from holdfast.errors import NotFound
from holdfast.extend.mcp.login_store import LoginStore, SecretFile
from holdfast.extend.mcp.mcp_server import McpServer, McpTimes, ServerSurroundings
from holdfast.extend.mcp.server_config import (
    McpServerConfig,
    configured_servers,
    project_files,
    read_project_file,
    secrets_of,
)
from holdfast.extend.mcp.tool_definitions import McpToolDefinition
from holdfast.schema.extensions import ExtensionStatus
from holdfast.tasks import OwnedTasks
from holdfast.tools.process.command_process import CommandLauncher

_CLOSE_SECONDS = 8.0


class McpParts(msgspec.Struct, frozen=True, kw_only=True):
    """What the servers of a workspace use of it."""

    directory: Path
    env: Mapping[str, str]
    launcher: CommandLauncher
    announce: Callable[[ExtensionStatus], Awaitable[None]]
    is_trusted: Callable[[Path], bool]
    """Blocking."""
    remember: Callable[[Iterable[Secret]], None]
    """Redacts secrets from now on."""
    secrets: SecretFile
    """Where logins are stored."""
    new_id: Callable[[], str]
    now: Callable[[], str]
    times: McpTimes = McpTimes()


class McpServers:
    """An `ExtensionProvider`."""

    def __init__(self, parts: McpParts) -> None:
        self._parts = parts
        self._servers: dict[str, McpServer] = {}
        self._config: Config | None = None
        self._secret: frozenset[str] = frozenset()
        self._stamps: tuple[object, ...] = ()
        self._refreshing = asyncio.Lock()
        self._closing = OwnedTasks()
        self._is_closed = False

    async def refresh(self, config: Config, *, trusted: bool) -> None:
        """Start, stop and replace servers as they are configured now."""
        async with self._refreshing:
            files, stamps = await asyncio.to_thread(self._find_files) if trusted else ((), ())
            if (config is self._config and stamps == self._stamps) or self._is_closed:
                return
            self._secret = secret_variables(config.settings)
            project = await asyncio.to_thread(self._read_files, files) if files else []
            found = configured_servers(config, project, env=self._parts.env)
            wanted = {name: _checked(server, config.policy) for name, server in found.items()}
            self._parts.remember(Secret(value) for value in secrets_of(wanted.values()))
            self._config, self._stamps = config, stamps
            self._follow(wanted, config.settings.network)

    async def use(self, servers: Mapping[str, McpServerConfig], config: Config) -> None:
        """Use exactly these servers, which no configuration names, and start them now."""
        async with self._refreshing:
            if self._is_closed:
                return
            self._secret = secret_variables(config.settings)
            wanted = {name: _checked(server, config.policy) for name, server in servers.items()}
            self._parts.remember(Secret(value) for value in secrets_of(wanted.values()))
            self._follow(wanted, config.settings.network)
            self.hurry()

    def statuses(self) -> list[ExtensionStatus]:
        return [server.status for server in self._servers.values()]

    async def close(self) -> None:
        self._is_closed = True
        servers, self._servers = self._servers, {}
        await asyncio.gather(*(server.close() for server in servers.values()))
        await self._closing.finish(seconds=_CLOSE_SECONDS)

    @property
    def servers(self) -> tuple[McpServer, ...]:
        """All servers, in the order of the configuration."""
        return tuple(self._servers.values())

    def server(self, name: str) -> McpServer:
        """Return a server by its name. Raises `NotFound`."""
        found = self._servers.get(name)
        if found is None:
            known = ", ".join(self._servers) or "none"
            message = f"the MCP server {name!r} is not configured; configured: {known}"
            raise NotFound(message, code="mcp_server_not_found")
        return found

    async def log_out(self, name: str) -> bool:
        """Forget the login to a server, and connect to it again. Returns whether there was a login."""
        config = self.server(name).config
        if config.url is None:
            return False
        found = await LoginStore(self._parts.secrets, name=name, url=config.url).remove()
        _ = self.restart(name)
        return found

    def restart(self, name: str, *, is_login: bool = False) -> McpServer:
        """Replace a server by a new one with the same configuration. Raises `NotFound`."""
        old = self.server(name)
        _ = self._closing.spawn(old.close(), name=f"mcp:{name}:close")
        new = self._servers[name] = McpServer(old.config, old.surroundings, is_login=is_login)
        new.start()
        return new

    def find(self, name: str) -> tuple[McpServer, McpToolDefinition] | None:
        """Return the tool with this name for models, if its server is ready."""
        for server in self._servers.values():
            if server.is_ready:
                for definition in server.tools.definitions:
                    if definition.name == name:
                        return server, definition
        return None

    def hurry(self) -> None:
        """Start the servers now that wait for the prompt that needs them."""
        for server in self._servers.values():
            server.hurry()

    async def wait_started(self) -> None:
        """Wait until no server is starting. The start time-outs limit that."""
        await asyncio.gather(*(server.wait_settled() for server in self._servers.values()))

    def _follow(self, wanted: Mapping[str, McpServerConfig], network: NetworkSettings) -> None:
        servers: dict[str, McpServer] = {}
        for name, config in wanted.items():
            old = self._servers.pop(name, None)
            if old is not None and old.config == config:
                servers[name] = old
                continue
            if old is not None:
                _ = self._closing.spawn(old.close(), name=f"mcp:{name}:close")
            servers[name] = McpServer(config, self._surroundings(network))
        for name, old in self._servers.items():
            _ = self._closing.spawn(old.close(), name=f"mcp:{name}:close")
        self._servers = servers
        for server in servers.values():
            server.start()

    def _surroundings(self, network: NetworkSettings) -> ServerSurroundings:
        parts = self._parts
        return ServerSurroundings(
            directory=parts.directory,
            env=parts.env,
            secret=lambda: self._secret,
            network=network,
            launcher=parts.launcher,
            announce=parts.announce,
            secrets=parts.secrets,
            new_id=parts.new_id,
            now=parts.now,
            names_of_others=self._names_of_others,
            times=parts.times,
        )

    def _names_of_others(self, name: str) -> Collection[str]:
        return {
            definition.name
            for server in self._servers.values()
            if server.config.name != name
            for definition in server.tools.definitions
        }

    def _find_files(self) -> tuple[tuple[Path, ...], tuple[object, ...]]:
        """Return the ``.mcp.json`` files of trusted directories, and what identifies their state."""
        files = tuple(file for file in project_files(self._parts.directory) if self._parts.is_trusted(file.parent))
        return files, tuple(_stamp(file) for file in files)

    def _read_files(self, files: tuple[Path, ...]) -> list[McpServerConfig]:
        """Read the files. A server of an inner directory replaces one of the same name."""
        found: dict[str, McpServerConfig] = {}
        for file in files:
            for server in read_project_file(file, env=self._parts.env, secret=self._secret):
                found[server.name] = server
        return list(found.values())


def _checked(server: McpServerConfig, policy: Policy) -> McpServerConfig:
    """Refuse a server that the managed policy does not allow."""
    if server.problem:
        return server
    return replace(server, problem=policy.mcp_refusal(server.name, command=server.command, url=server.url) or "")


def _stamp(file: Path) -> object:
    try:
        found = os.stat(file)
    except OSError:
        return str(file)
    return str(file), found.st_ino, found.st_mtime_ns, found.st_size
