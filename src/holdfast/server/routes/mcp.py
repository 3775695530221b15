"""The MCP servers of a workspace."""

from __future__ import annotations

from holdfast.errors import BadRequest, ConfigError, NotFound
from holdfast.schema.api.request_bodies import EmptyBody, ExtensionsQuery, McpLoginBody, NoParameters
from holdfast.schema.extensions import McpLoginView, McpServerView
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
    Endpoint("POST", f"{_SERVER}/login", log_in, body=EmptyBody, response=McpLoginView, errors=_ERRORS),
    Endpoint(
        "POST", f"{_SERVER}/login/answer", finish_login, body=McpLoginBody, response=McpServerView, errors=_ERRORS
    ),
    Endpoint("DELETE", f"{_SERVER}/login", log_out, body=EmptyBody, response=McpServerView, errors=_ERRORS),
)
