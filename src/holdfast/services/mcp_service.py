"""The MCP servers of a workspace: look at one, start one again."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from holdfast.errors import BadRequest, SubagentSession
from holdfast.extend.mcp.mcp_server import McpServer
from holdfast.extend.mcp.mcp_servers import McpServers
from holdfast.extend.mcp.session_servers import session_server_configs
from holdfast.extend.mcp.tool_definitions import shown_name
from holdfast.schema.api.response_bodies import PageView
from holdfast.schema.extensions import ExtensionStatus, McpLoginView, McpServerView, McpToolView, SessionMcpServer
from holdfast.services.workspace_service import WorkspaceService
from holdfast.store import Store

_LOGIN_SECONDS = 60.0
"""How long the address of a login may take."""


class McpService:
    def __init__(self, workspaces: WorkspaceService, store: Store) -> None:
        self._workspaces = workspaces
        self._store = store

    async def view(self, workspace_id: str, name: str, *, wait: float) -> McpServerView:
        """Return a server; starts it if needed, and waits so many seconds while it is starting."""
        server = (await self._servers(workspace_id)).server(name)
        return await _settled_view(server, wait=wait)

    async def restart(self, workspace_id: str, name: str, *, wait: float) -> McpServerView:
        """End a server and start it again."""
        server = (await self._servers(workspace_id)).restart(name)
        return await _settled_view(server, wait=wait)

    async def log_in(self, workspace_id: str, name: str) -> McpLoginView:
        """Begin a login. The server becomes ready when the person has finished it in a browser."""
        server = (await self._servers(workspace_id)).restart(name, is_login=True)
        if server.config.url is None:
            raise BadRequest(f"the MCP server {name!r} is a command; only servers with an address have a login")
        await server.wait_login(seconds=_LOGIN_SECONDS)
        return McpLoginView(server.status, server.login_address)

    async def finish_login(self, workspace_id: str, name: str, address: str) -> McpServerView:
        """Finish a login with the address to which a browser on another machine was sent."""
        server = (await self._servers(workspace_id)).server(name)
        server.finish_login(address)
        return await _settled_view(server, wait=_LOGIN_SECONDS)

    async def log_out(self, workspace_id: str, name: str) -> McpServerView:
        """Forget the login to a server."""
        servers = await self._servers(workspace_id)
        _ = await servers.log_out(name)
        return await _settled_view(servers.server(name), wait=0.0)

    async def use_for_session(self, session_id: str, servers: Iterable[SessionMcpServer]) -> PageView[ExtensionStatus]:
        """Start the servers that a client passes for a session, beside those of its workspace."""
        opened = await self._workspaces.open_known(await self._workspace_of(session_id))
        own = await opened.use_session_servers(session_id, session_server_configs(servers))
        return PageView(tuple(own.statuses()))

    async def session_servers(self, session_id: str, *, wait: float) -> PageView[ExtensionStatus]:
        """List the servers that clients passed for a session; waits so many seconds while they start."""
        opened = await self._workspaces.open_known(await self._workspace_of(session_id))
        own = opened.session_servers(session_id)
        if own is None:
            return PageView()
        try:
            async with asyncio.timeout(wait):
                await own.wait_started()
        except TimeoutError:
            pass
        return PageView(tuple(own.statuses()))

    async def _workspace_of(self, session_id: str) -> str:
        session = await self._store.session(session_id)
        if session.parent_id is not None:
            raise SubagentSession("this is a sub-agent's session; pass MCP servers to the session of its user")
        return session.workspace_id

    async def _servers(self, workspace_id: str) -> McpServers:
        opened = await self._workspaces.open_known(workspace_id)
        await opened.refresh_extensions(await opened.setup())
        return opened.mcp


async def _settled_view(server: McpServer, *, wait: float) -> McpServerView:
    try:
        async with asyncio.timeout(wait):
            await server.wait_settled()
    except TimeoutError:
        pass
    return McpServerView(
        status=server.status,
        tools=tuple(McpToolView(one.name, one.description, one.is_reading) for one in server.tools.definitions),
        prompts=tuple(shown_name(str(prompt.get("name"))) for prompt in server.prompts),
        resources=tuple(shown_name(str(resource.get("uri"))) for resource in server.resources),
        instructions=server.instructions,
        log=server.log.lines,
    )
