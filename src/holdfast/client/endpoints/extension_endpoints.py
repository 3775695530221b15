"""Extensions: MCP servers, language servers, and tools that clients execute."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.client.api_call import ApiCall, api_call, api_path
from holdfast.schema.api.response_bodies import LogView, PageView
from holdfast.schema.client_tools import ClientCall, ClientResult, ClientTool, ClientTools
from holdfast.schema.extensions import ExtensionStatus, McpLoginView, McpServerView, SessionMcpServer


def extensions(workspace_id: str, *, wait: float = 0.0) -> ApiCall[PageView[ExtensionStatus]]:
    """The extensions with their states. ``wait`` seconds for those that are starting."""
    target = api_path("workspaces", workspace_id, "extensions")
    query = {"wait": f"{wait:g}"} if wait else {}
    return api_call("GET", target, returns=PageView[ExtensionStatus], query=query, wait=wait)


def restart_language_server(workspace_id: str, name: str) -> ApiCall[LogView]:
    target = api_path("workspaces", workspace_id, "language-servers", name, "restart")
    return api_call("POST", target, {}, returns=LogView)


def language_server_log(workspace_id: str, name: str) -> ApiCall[LogView]:
    return api_call("GET", api_path("workspaces", workspace_id, "language-servers", name, "log"), returns=LogView)


def mcp_server(workspace_id: str, name: str, *, wait: float = 0.0) -> ApiCall[McpServerView]:
    """An MCP server with its tools and its log. ``wait`` seconds while it is starting."""
    target = api_path("workspaces", workspace_id, "mcp", name)
    query = {"wait": f"{wait:g}"} if wait else {}
    return api_call("GET", target, returns=McpServerView, query=query, wait=wait)


def log_in_to_mcp_server(workspace_id: str, name: str) -> ApiCall[McpLoginView]:
    target = api_path("workspaces", workspace_id, "mcp", name, "login")
    return api_call("POST", target, {}, returns=McpLoginView, wait=60.0)


def finish_mcp_login(workspace_id: str, name: str, url: str) -> ApiCall[McpServerView]:
    """``url``: where the browser was sent after the login."""
    target = api_path("workspaces", workspace_id, "mcp", name, "login", "answer")
    return api_call("POST", target, {"url": url}, returns=McpServerView, wait=60.0)


def log_out_of_mcp_server(workspace_id: str, name: str) -> ApiCall[McpServerView]:
    target = api_path("workspaces", workspace_id, "mcp", name, "login")
    return api_call("DELETE", target, {}, returns=McpServerView)


def restart_mcp_server(workspace_id: str, name: str, *, wait: float = 0.0) -> ApiCall[McpServerView]:
    target = api_path("workspaces", workspace_id, "mcp", name, "restart")
    query = {"wait": f"{wait:g}"} if wait else {}
    return api_call("POST", target, {}, returns=McpServerView, query=query, wait=wait)


def use_session_servers(session_id: str, servers: Sequence[SessionMcpServer]) -> ApiCall[PageView[ExtensionStatus]]:
    """Use these MCP servers for one session, beside those of its workspace. They replace those passed before."""
    body = {"servers": list(servers)}
    return api_call("PUT", api_path("sessions", session_id, "mcp"), body, returns=PageView[ExtensionStatus])


def session_servers(session_id: str, *, wait: float = 0.0) -> ApiCall[PageView[ExtensionStatus]]:
    """The MCP servers that clients passed for a session."""
    target = api_path("sessions", session_id, "mcp")
    return api_call("GET", target, returns=PageView[ExtensionStatus], query={"wait": wait or None}, wait=wait)


def attach_tools(session_id: str, tools: Sequence[ClientTool]) -> ApiCall[ClientTools]:
    """Attach all tools that this client executes for a session; none: detach them.

    They stay while this client has an open event stream (see `events`), which also brings the calls.
    """
    return api_call("PUT", api_path("sessions", session_id, "tools"), {"tools": list(tools)}, returns=ClientTools)


def attached_tools(session_id: str) -> ApiCall[PageView[ClientTools]]:
    return api_call("GET", api_path("sessions", session_id, "tools"), returns=PageView[ClientTools])


def answer_call(client_call_id: str, result: ClientResult) -> ApiCall[ClientCall]:
    """Send the result of a call that this client has executed."""
    return api_call("POST", api_path("client-calls", client_call_id), result, returns=ClientCall)
