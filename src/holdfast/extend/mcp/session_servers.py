"""MCP servers that a client passes for one session, used beside those of its workspace."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from holdfast.config.setting_types import Headers, Url, Variables, is_name
from holdfast.config.settings import McpServerSettings
from holdfast.errors import BadRequest
from holdfast.extend.mcp.mcp_server import McpServer
from holdfast.extend.mcp.mcp_servers import McpServers
from holdfast.extend.mcp.server_config import McpServerConfig
from holdfast.extend.mcp.tool_definitions import McpToolDefinition
from holdfast.schema.extensions import SessionMcpServer


class McpServerGroup(Protocol):
    """The servers whose tools a run has."""

    @property
    def servers(self) -> tuple[McpServer, ...]: ...

    def server(self, name: str) -> McpServer: ...

    def find(self, name: str) -> tuple[McpServer, McpToolDefinition] | None: ...


class SessionMcpServers:
    """The servers of a workspace, and those of one of its sessions. A name of the workspace is not replaced."""

    def __init__(self, shared: McpServers, own: McpServers) -> None:
        self._shared = shared
        self._own = own

    @property
    def servers(self) -> tuple[McpServer, ...]:
        taken = {server.config.name for server in self._shared.servers}
        return (*self._shared.servers, *(one for one in self._own.servers if one.config.name not in taken))

    def server(self, name: str) -> McpServer:
        return next((one for one in self.servers if one.config.name == name), None) or self._shared.server(name)

    def find(self, name: str) -> tuple[McpServer, McpToolDefinition] | None:
        for server in self.servers:
            if server.is_ready:
                for definition in server.tools.definitions:
                    if definition.name == name:
                        return server, definition
        return None


def session_server_configs(servers: Iterable[SessionMcpServer]) -> dict[str, McpServerConfig]:
    """The servers that a client passes, by name. Raises `BadRequest`."""
    found: dict[str, McpServerConfig] = {}
    for server in servers:
        if not is_name(server.name) or server.name in found:
            raise BadRequest(f"the name {server.name!r} of an MCP server is not usable, or used twice")
        found[server.name] = _config_of(server)
    return found


def _config_of(server: SessionMcpServer) -> McpServerConfig:
    defaults = McpServerSettings()
    if bool(server.command) == bool(server.url) or (server.command and not server.command[0].strip()):
        raise BadRequest(f"the MCP server {server.name!r} needs either a command or an address")
    try:
        return McpServerConfig(
            name=server.name,
            command=server.command,
            env=Variables.from_config(server.env),
            url=Url.from_config(server.url) if server.url else None,
            headers=Headers.from_config(server.headers),
            transport=server.transport,
            start_timeout=float(defaults.start_timeout),
            timeout=float(defaults.timeout),
            source="passed by a client for this session",
        )
    except ValueError as error:
        raise BadRequest(f"the MCP server {server.name!r} cannot be used: {error}") from None
