"""Tools that clients attach to sessions, and the results of their calls."""

from __future__ import annotations

import msgspec

from holdfast.agent.schema_check import validate_schema
from holdfast.errors import BadRequest, Conflict, SubagentSession
from holdfast.extend.client_calls import check_names
from holdfast.schema.api.request_bodies import ClientResultBody, ClientToolsBody
from holdfast.schema.api.response_bodies import PageView
from holdfast.schema.client_tools import ClientCall, ClientResult, ClientTool, ClientTools
from holdfast.services.api_values import check_depth
from holdfast.services.presence import Caller, Presence
from holdfast.tools.registry import BUILT_IN_NAMES
from holdfast.workspace.shared_parts import SharedParts

_EXTENSION_NAMES = frozenset(
    {"skill", "mcp_resource", "mcp_search", "mcp_call", "diagnostics", "definition", "references", "symbols", "rename"}
)
"""Tools of ours that not every run has."""


class ClientToolService:
    def __init__(self, shared: SharedParts, presence: Presence) -> None:
        self._shared = shared
        self._presence = presence

    async def attach(self, session_id: str, body: ClientToolsBody, *, caller: Caller) -> ClientTools:
        """Replace the tools that the caller executes for a session."""
        session = await self._shared.store.session(session_id)
        if session.parent_id is not None:
            raise SubagentSession("this is a sub-agent's session; attach tools to the session of its user")
        if not caller.id:
            raise BadRequest("tools belong to a client; send X-Holdfast-Client with a name and an id")
        tools = tuple(msgspec.convert(msgspec.to_builtins(tool), ClientTool) for tool in body.tools)
        check_names(tools, taken=BUILT_IN_NAMES | _EXTENSION_NAMES)
        await _check_schemas(tools)
        if tools and not self._presence.streams_of(caller.id):
            raise Conflict(
                "open an event stream with the same X-Holdfast-Client first: tools stay only while it is open",
                code="no_stream",
            )
        return self._shared.client_calls.attach(session_id, tools, client_id=caller.id, client=str(caller))

    async def list_tools(self, session_id: str) -> PageView[ClientTools]:
        cursor = self._shared.hub.cursor
        session = await self._shared.store.session(session_id)
        return PageView(self._shared.client_calls.attached(session.id), cursor)

    def workspace_of(self, client_call_id: str) -> str | None:
        """The id of the workspace that a call belongs to."""
        return self._shared.client_calls.workspace_of(client_call_id)

    def answer(self, client_call_id: str, body: ClientResultBody, *, caller: Caller) -> ClientCall:
        """Give the result of a call. Raises `Conflict` if the call is closed."""
        result = msgspec.convert(msgspec.to_builtins(body), ClientResult)
        return self._shared.client_calls.answer(client_call_id, result, client_id=caller.id)


async def _check_schemas(tools: tuple[ClientTool, ...]) -> None:
    for index, tool in enumerate(tools):
        field = f"tools[{index}].parameters"
        check_depth(tool.parameters, name=field)
        if tool.parameters.get("type", "object") != "object":
            raise BadRequest(f"{field} must describe an object", detail={"field": field})
        if tool.parameters:
            await validate_schema(tool.parameters, field=field)
