"""The MCP servers of a workspace."""

from __future__ import annotations

import msgspec

from holdfast.errors import BadRequest, ConfigError, Conflict, Gone, NotFound
from holdfast.schema.api.request_bodies import EmptyBody, ExtensionsQuery, McpLoginBody, NoParameters, SessionMcpBody
from holdfast.schema.api.response_bodies import PageView
from holdfast.schema.extensions import ExtensionStatus, McpLoginView, McpServerView, SessionMcpServer
from holdfast.server.http.endpoint import ApiRequest, Endpoint


async def get_server(request: ApiRequest[None, ExtensionsQuery]) -> McpServerView:
    """Get an MCP server with its tools and the end of its log; starts it if it is not running."""
    path = request.path
    return await request.services.mcp.view(path["workspace_id"], path["name"], wait=request.query.wait)


async def restart_server(request: ApiRequest[EmptyBody, ExtensionsQuery]) -> McpServerView:
    """End an MCP server and start it again."""
    path = request.path
    return await request.services.mcp.restart(path["workspace_id"], path["name"], wait=request.query.wait)


async def log_in(request: ApiRequest[EmptyBody, NoParameters]) -> McpLoginView:
    """Begin a login to an MCP server: show the address to a person, then wait until the server is ready."""
    path = request.path
    return await request.services.mcp.log_in(path["workspace_id"], path["name"])


async def finish_login(request: ApiRequest[McpLoginBody, NoParameters]) -> McpServerView:
    """Finish a login whose browser is on another machine: send the address to which it was redirected."""
    path = request.path
    return await request.services.mcp.finish_login(path["workspace_id"], path["name"], request.body.url)


async def log_out(request: ApiRequest[EmptyBody, NoParameters]) -> McpServerView:
    """Forget the login to an MCP server."""
    path = request.path
    return await request.services.mcp.log_out(path["workspace_id"], path["name"])


async def use_session_servers(request: ApiRequest[SessionMcpBody, NoParameters]) -> PageView[ExtensionStatus]:
    """Use these MCP servers for one session, beside those of its workspace; they replace those passed before."""
    servers = [msgspec.convert(msgspec.to_builtins(one), SessionMcpServer) for one in request.body.servers]
    return await request.services.mcp.use_for_session(request.path["session_id"], servers)


async def list_session_servers(request: ApiRequest[None, ExtensionsQuery]) -> PageView[ExtensionStatus]:
    """List the MCP servers that clients passed for a session, with their states."""
    return await request.services.mcp.session_servers(request.path["session_id"], wait=request.query.wait)


_SESSION = "/v1/sessions/{session_id}/mcp"
_SERVER = "/v1/workspaces/{workspace_id}/mcp/{name}"
_ERRORS = (NotFound, BadRequest, ConfigError)

ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint("GET", _SERVER, get_server, query=ExtensionsQuery, response=McpServerView, errors=_ERRORS),
    Endpoint(
        *("POST", f"{_SERVER}/restart", restart_server),
        query=ExtensionsQuery,
        body=EmptyBody,
        response=McpServerView,
        errors=_ERRORS,
    ),
    Endpoint(
        *("PUT", _SESSION, use_session_servers),
        body=SessionMcpBody,
        response=PageView[ExtensionStatus],
        errors=(*_ERRORS, Gone, Conflict),
        stores_answer=False,  # a server that was started again must do it again
    ),
    Endpoint(
        *("GET", _SESSION, list_session_servers),
        query=ExtensionsQuery,
        response=PageView[ExtensionStatus],
        errors=(*_ERRORS, Gone, Conflict),
    ),
    Endpoint("POST", f"{_SERVER}/login", log_in, body=EmptyBody, response=McpLoginView, errors=_ERRORS),
    Endpoint(
        "POST", f"{_SERVER}/login/answer", finish_login, body=McpLoginBody, response=McpServerView, errors=_ERRORS
    ),
    Endpoint("DELETE", f"{_SERVER}/login", log_out, body=EmptyBody, response=McpServerView, errors=_ERRORS),
)
