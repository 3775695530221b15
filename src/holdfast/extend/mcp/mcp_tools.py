"""The tools of MCP servers as tools of a run.

A run gets the tools of the servers that are ready when it starts. A server that becomes ready later joins once, at a
step boundary. Later changes of a server's list wait for the next run, because definitions are at the head of a request
and a provider caches it. If the definitions take more than the configured number of tokens, the tools of the servers
that do not fit are found with `mcp_search` and called with `mcp_call`.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Any, ClassVar, cast

import msgspec
from msgspec import Meta

from holdfast.errors import NotFound, ToolError
from holdfast.extend.mcp.call_results import read_resource_contents, read_result
from holdfast.extend.mcp.elicitations import answer_elicitation
from holdfast.extend.mcp.mcp_server import McpServer
from holdfast.extend.mcp.running_calls import CallHandlers
from holdfast.extend.mcp.sampling_requests import answer_sampling
from holdfast.extend.mcp.session_servers import McpServerGroup
from holdfast.extend.mcp.tool_definitions import McpToolDefinition, shown_name, tool_name
from holdfast.schema.approvals import Effect, Subject
from holdfast.schema.base import encode
from holdfast.tools.long_output import shorten_output
from holdfast.tools.protocol import Tool, ToolContext, ToolOutput, ToolPlan

_MAX_FOUND = 20
_MAX_PROGRESS = 2_000
_MAX_TITLE = 300
_RESOURCES = "resources"
"""Stands for the definition of a tool in rules about resources: `mcp: server__resource`."""


class McpRunTools:
    """The MCP tools of one run."""

    def __init__(
        self, servers: McpServerGroup, *, max_tokens: int, may_call: Callable[[str], bool] = lambda name: True
    ) -> None:
        """``may_call`` says which tools, by name, may be called with `mcp_call`: those that could be offered."""
        self._servers = servers
        self._left = max_tokens
        self._may_call = may_call
        self._joined: set[McpServer] = set()
        self._has_search = self._has_resources = False

    def join(self) -> Sequence[Tool[Any]]:
        """Return the tools of the servers that became ready since the last call."""
        tools: list[Any] = []
        for server in self._servers.servers:
            if not server.is_ready or server in self._joined:
                continue
            self._joined.add(server)
            if (server.resources or server.resource_templates) and not self._has_resources:
                self._has_resources = True
                tools.append(McpResourceTool(self._servers))
            definitions = server.tools.definitions
            size = sum(definition.size for definition in definitions)
            if size <= self._left:
                self._left -= size
                tools += [McpTool(server, definition) for definition in definitions]
            elif not self._has_search:
                self._has_search = True
                tools += [McpSearchTool(self._servers, self._may_call), McpCallTool(self._servers, self._may_call)]
        return cast("Sequence[Tool[Any]]", tools)


class McpTool:
    """One tool of a server, as it was defined when it was offered."""

    arguments: ClassVar[type[Any]] = dict

    def __init__(self, server: McpServer, definition: McpToolDefinition) -> None:
        self._server = server
        self._definition = definition
        self.name = definition.name
        self.description = f"[MCP server {definition.server}] {definition.description}".rstrip()
        self.parameters = definition.parameters
        self.effect: Effect = "network" if definition.is_reading else "runs"
        self.parallel = definition.is_reading

    async def plan(self, arguments: dict[str, Any], context: ToolContext) -> ToolPlan:
        return _plan(self._server, self._definition, arguments)

    async def run(self, arguments: dict[str, Any], context: ToolContext, plan: ToolPlan) -> ToolOutput:
        return await _call(self._server, self._definition, arguments, context, plan)


def _plan(server: McpServer, definition: McpToolDefinition, arguments: dict[str, Any]) -> ToolPlan:
    """Plan with the definition that the server has now: if it changed, approvals of the old one do not count."""
    now = server.definition(definition.tool) if server.is_ready else definition
    if now is None:
        raise ToolError(f"the MCP server {definition.server!r} has no tool {definition.tool!r} any more")
    subject = Subject(
        tool=definition.name,
        effect="network" if now.is_reading and definition.is_reading else "runs",
        title=_title(definition, arguments),
        definition=now.digest,
    )
    return ToolPlan(subject, display={"arguments": arguments, "server": definition.server})


def _title(definition: McpToolDefinition, arguments: dict[str, Any]) -> str:
    shown = encode(arguments).decode() if arguments else ""
    whole = f"{definition.tool} {shown}".rstrip()
    return whole if len(whole) <= _MAX_TITLE else f"{whole[:_MAX_TITLE]}…"


async def _call(
    server: McpServer,
    definition: McpToolDefinition,
    arguments: dict[str, Any],
    context: ToolContext,
    plan: ToolPlan,
) -> ToolOutput:
    now = server.definition(definition.tool)
    if server.is_ready and (now is None or now.digest != plan.subject.definition):
        raise ToolError(f"the tool {definition.name!r} was changed by its server after the approval; call it again")
    redacted = context.redact_stream()

    def progress(text: str) -> None:
        context.emit(redacted.feed(text[:_MAX_PROGRESS]))

    async def ask(request: dict[str, Any]) -> dict[str, Any]:
        return await answer_elicitation(request, server=definition.server, context=context)

    async def sample(request: dict[str, Any]) -> dict[str, Any]:
        return await answer_sampling(request, config=server.config, context=context)

    handlers = CallHandlers(ask, sample)
    answer = await server.call(definition.tool, arguments, progress=progress, handlers=handlers)
    result = await asyncio.to_thread(read_result, answer, can_see_images=context.can_see_images)
    text, path = await shorten_output(result.text, context)
    return ToolOutput(
        text,
        status="error" if result.is_error else "ok",
        files=result.files,
        display={"server": definition.server},
        output_path=path,
    )


class McpResourceArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    server: Annotated[str, Meta(description="The name of the MCP server.")]
    uri: Annotated[str, Meta(description="The address of the resource. Without it, the resources are listed.")] = ""


class McpResourceTool:
    """Lists and reads resources of MCP servers."""

    name: ClassVar[str] = "mcp_resource"
    description: ClassVar[str] = "Read a resource of an MCP server by its address, or list the resources of a server."
    arguments: ClassVar[type[Any]] = McpResourceArguments
    effect: ClassVar[Effect] = "network"
    parallel: ClassVar[bool] = True

    def __init__(self, servers: McpServerGroup) -> None:
        self._servers = servers

    def describe(self, settings: object) -> str:
        names = ", ".join(
            one.config.name
            for one in self._servers.servers
            if one.is_ready and (one.resources or one.resource_templates)
        )
        return f"{self.description} Servers with resources: {names}."

    async def plan(self, arguments: McpResourceArguments, context: ToolContext) -> ToolPlan:
        if not arguments.uri:
            return ToolPlan(Subject(tool=self.name, effect="none", title=arguments.server))
        subject = Subject(
            tool=tool_name(arguments.server, "resource"),
            effect="network",
            title=arguments.uri,
            definition=_RESOURCES,
        )
        return ToolPlan(subject, display={"server": arguments.server})

    async def run(self, arguments: McpResourceArguments, context: ToolContext, plan: ToolPlan) -> ToolOutput:
        try:
            server = self._servers.server(arguments.server)
        except NotFound as error:
            raise ToolError(error.message) from None
        await server.wait_settled()
        if not arguments.uri:
            return ToolOutput("\n".join(_listed(server)) or "it has no resources")
        answer = await server.read_resource(arguments.uri)
        result = await asyncio.to_thread(read_resource_contents, answer, can_see_images=context.can_see_images)
        text, path = await shorten_output(result.text, context)
        return ToolOutput(text, files=result.files, display={"server": arguments.server}, output_path=path)


def _listed(server: McpServer) -> Iterator[str]:
    for one in server.resources:
        yield f"{shown_name(str(one.get('uri')))}  {shown_name(str(one.get('name')))}"
    for one in server.resource_templates:
        yield f"{shown_name(str(one.get('uriTemplate')))}  {shown_name(str(one.get('name')))} (fill in the variables)"


class McpSearchArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    query: Annotated[str, Meta(description="Words that describe what the tool does, or its name.")]


class McpSearchTool:
    """Finds tools of MCP servers that are too many to be listed in each request."""

    name: ClassVar[str] = "mcp_search"
    description: ClassVar[str] = (
        "Find further tools, which MCP servers offer, by words of their names and descriptions. Call what you found"
        " with mcp_call."
    )
    arguments: ClassVar[type[Any]] = McpSearchArguments
    effect: ClassVar[Effect] = "none"
    parallel: ClassVar[bool] = True

    def __init__(self, servers: McpServerGroup, may_call: Callable[[str], bool]) -> None:
        self._servers = servers
        self._may_call = may_call

    def reaches_any(self) -> bool:
        """Whether there is a tool that may be called, so that an agent with a list of tools is offered this one."""
        return bool(_callable(self._servers, self._may_call))

    def describe(self, settings: object) -> str:
        names = ", ".join(server.config.name for server in self._servers.servers if server.is_ready)
        return f"{self.description} Servers: {names}."

    async def plan(self, arguments: McpSearchArguments, context: ToolContext) -> ToolPlan:
        return ToolPlan(Subject(tool=self.name, effect="none", title=arguments.query))

    async def run(self, arguments: McpSearchArguments, context: ToolContext, plan: ToolPlan) -> ToolOutput:
        definitions = _callable(self._servers, self._may_call)
        found = search_definitions(definitions, arguments.query)[:_MAX_FOUND]
        if not found:
            return ToolOutput(f"None of {len(definitions)} tools matches {arguments.query!r}. Try other words.")
        text = "\n\n".join(
            f"{definition.name}\n{definition.description}\narguments: {encode(definition.parameters).decode()}"
            for definition in found
        )
        shown, path = await shorten_output(text, context)
        return ToolOutput(shown, output_path=path)


class McpCallArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: Annotated[str, Meta(description="The name of the tool, as mcp_search returned it.")]
    arguments: Annotated[dict[str, Any], Meta(description="Its arguments.")] = {}


class McpCallTool:
    """Calls a tool that `mcp_search` found."""

    name: ClassVar[str] = "mcp_call"
    description: ClassVar[str] = "Call a tool that mcp_search found."
    arguments: ClassVar[type[Any]] = McpCallArguments
    effect: ClassVar[Effect] = "runs"
    parallel: ClassVar[bool] = False

    def __init__(self, servers: McpServerGroup, may_call: Callable[[str], bool]) -> None:
        self._servers = servers
        self._may_call = may_call

    def reaches_any(self) -> bool:
        """As of `McpSearchTool`."""
        return bool(_callable(self._servers, self._may_call))

    def called_name(self, arguments: McpCallArguments) -> str:
        """The name of the tool that a call is for, which lists of allowed tools are about."""
        return arguments.name

    async def plan(self, arguments: McpCallArguments, context: ToolContext) -> ToolPlan:
        return _plan(*self._found(arguments.name), arguments.arguments)

    async def run(self, arguments: McpCallArguments, context: ToolContext, plan: ToolPlan) -> ToolOutput:
        return await _call(*self._found(arguments.name), arguments.arguments, context, plan)

    def _found(self, name: str) -> tuple[McpServer, McpToolDefinition]:
        found = self._servers.find(name)
        if found is None:
            raise ToolError(f"no MCP server offers a tool {name!r}; find its name with mcp_search")
        if not self._may_call(name):
            raise ToolError(f"tool {name!r} is not available: it is disabled, or this agent is configured without it")
        return found


def _callable(servers: McpServerGroup, may_call: Callable[[str], bool]) -> list[McpToolDefinition]:
    return [
        definition
        for server in servers.servers
        if server.is_ready
        for definition in server.tools.definitions
        if may_call(definition.name)
    ]


def search_definitions(definitions: Sequence[McpToolDefinition], query: str) -> list[McpToolDefinition]:
    """Return the tools that have words of the query, best first."""
    words = set(re.findall(r"[^\W_]+", query.lower()))
    scored = [(_score(definition, words), definition) for definition in definitions]
    return [one for points, one in sorted(scored, key=lambda pair: -pair[0]) if points]


def _score(definition: McpToolDefinition, words: set[str]) -> int:
    name, description = definition.name.lower(), definition.description.lower()
    return sum((word in name) * 3 + (word in description) for word in words)
