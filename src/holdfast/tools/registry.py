"""All tools by name, and which of them a run is offered.

A `Registry` belongs to a workspace: it makes one instance of each tool and closes them. `offer` is what one run sees:
what it may not use is not shown to its model, and if the model asks for it all the same it is told why.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from importlib import import_module
from typing import Any

import msgspec

from holdfast.config import Settings
from holdfast.errors import ToolError
from holdfast.schema.messages import ToolCall, ToolSpec
from holdfast.schema.runs import Mode
from holdfast.tools.protocol import Tool

BUILT_IN: tuple[tuple[str, str], ...] = (
    ("bash", "BashTool"),
    ("jobs", "JobOutputTool"),
    ("jobs", "JobKillTool"),
    ("view", "ViewTool"),
    ("edit", "EditTool"),
    ("multiedit", "MultiEditTool"),
    ("write", "WriteTool"),
    ("apply_patch", "ApplyPatchTool"),
    ("ls", "LsTool"),
    ("glob", "GlobTool"),
    ("grep", "GrepTool"),
    ("fetch", "FetchTool"),
    ("download", "DownloadTool"),
    ("web_search", "WebSearchTool"),
    ("todos", "TodosTool"),
    ("ask", "AskTool"),
    ("agent", "AgentTool"),
)
"""Module and class of each, in the order that models are told of them."""

_PLANNING = frozenset({"reads", "network", "none"})
"""Effects of tools that a run in plan mode has."""
_READING = frozenset({"reads", "network"})
"""Effects of tools that a sub-agent has if its configuration does not say."""


class OfferedTools:
    """The tools of one run, in a fixed order."""

    def __init__(self, tools: Iterable[Tool[Any]], *, specs: tuple[ToolSpec, ...], withheld: dict[str, str]) -> None:
        self._tools = {tool.name: tool for tool in tools}
        self._withheld = withheld
        self.specs = specs

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._tools)

    def find(self, name: str) -> Tool[Any]:
        """`ToolError` for a name that is not offered; it says why, or which are."""
        if tool := self._tools.get(name):
            return tool
        if why := self._withheld.get(name):
            raise ToolError(f"the tool {name!r} is not available: {why}")
        close = difflib.get_close_matches(name, self._tools, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"tools: {', '.join(self._tools)}"
        raise ToolError(f"there is no tool {name!r}; {hint}")

    def arguments(self, tool: Tool[Any], call: ToolCall) -> Any:
        """Validated; `ToolError` tells the model what is wrong."""
        return decode_arguments(tool.name, tool.arguments, call.arguments)


class ToolRegistry:
    """One instance of each tool. `extra`: tools of extensions, after the built-in ones."""

    def __init__(self, *, extra: Sequence[Tool[Any]] = ()) -> None:
        self._tools: dict[str, Tool[Any]] = {}
        for module, name in BUILT_IN:
            tool: Tool[Any] = getattr(import_module(f"holdfast.tools.{module}"), name)()
            self._tools[tool.name] = tool
        self._built_in = frozenset(self._tools)
        self._parameters = {name: _parameters(tool) for name, tool in self._tools.items()}
        self.extend(extra)

    def extend(self, tools: Iterable[Tool[Any]]) -> None:
        """Add tools of extensions, or put new ones in place of those of the same name. Built-in ones stay.

        A tool whose arguments are described elsewhere has ``arguments = dict`` and its JSON Schema as ``parameters``.
        """
        for tool in tools:
            if tool.name in self._built_in:
                raise ToolError(f"the tool {tool.name!r} is built in; an extension cannot replace it")
            self._tools[tool.name] = tool
            self._parameters[tool.name] = _parameters(tool)

    def remove(self, names: Iterable[str]) -> None:
        """Take tools of extensions away."""
        for name in set(names) - self._built_in:
            self._tools.pop(name, None)

    def get(self, name: str) -> Tool[Any]:
        """Whether it is offered or not, for the workspace itself."""
        return self._tools[name]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._tools)

    def offer(
        self, settings: Settings, *, mode: Mode = "ask", interactive: bool = True, depth: int = 0, agent: str = ""
    ) -> OfferedTools:
        """What a run is offered. `depth`: how many parents it has; `agent`: the named agent that a child run is."""
        withheld: dict[str, str] = {}
        for tool in self._tools.values():
            if why := _reason_withheld(tool, settings, mode=mode, interactive=interactive, depth=depth, agent=agent):
                withheld[tool.name] = why
        tools = [tool for tool in self._tools.values() if tool.name not in withheld]
        return OfferedTools(tools, specs=tuple(self._spec(tool, settings) for tool in tools), withheld=withheld)

    async def close(self) -> None:
        """Close the tools that hold something, after the workspace's jobs have ended."""
        for tool in self._tools.values():
            if close := getattr(tool, "close", None):
                await close()

    def _spec(self, tool: Tool[Any], settings: Settings) -> ToolSpec:
        describe = getattr(tool, "describe", None)
        description = describe(settings) if describe else tool.description
        return ToolSpec(tool.name, description, self._parameters[tool.name])


def _reason_withheld(
    tool: Tool[Any], settings: Settings, *, mode: Mode, interactive: bool, depth: int, agent: str
) -> str | None:
    """Why a run does not get this tool; None if it does."""
    if any(fnmatchcase(tool.name, pattern) for pattern in settings.tools.disabled):
        return "it is disabled in the configuration"
    if mode == "plan" and tool.effect not in _PLANNING:
        return "this run only plans, nothing may be changed"
    if tool.name == "ask" and not interactive:
        return "nobody can be asked in this run"
    if tool.name == "agent" and depth >= settings.limits.agent_depth:
        return "sub-agents cannot start further ones here"
    if tool.name == "web_search" and settings.web_search.provider == "none":
        from holdfast.tools.web_search import NOT_CONFIGURED

        return NOT_CONFIGURED
    return _reason_withheld_from_subagent(tool, settings, agent=agent) if depth else None


def _reason_withheld_from_subagent(tool: Tool[Any], settings: Settings, *, agent: str) -> str | None:
    named = settings.agents.get(agent)
    if named is not None and named.tools is not None:
        if any(fnmatchcase(tool.name, pattern) for pattern in named.tools):
            return None
        return f"the agent {agent!r} does not have it"
    return None if tool.effect in _READING else "this sub-agent can only read"


def _parameters(tool: Tool[Any]) -> dict[str, Any]:
    given: dict[str, Any] | None = getattr(tool, "parameters", None)
    return given if given is not None else arguments_schema(tool.arguments)


_LEFT_OUT = frozenset({"title", "$defs", "default"})


def arguments_schema(arguments: type[Any]) -> dict[str, Any]:
    """The schema of a struct as one object: references written out, nothing in it that a model does not need."""
    whole = msgspec.json.schema(arguments)
    found = _simplified(whole, whole.get("$defs", {}))
    found.pop("description", None)
    return {"type": "object", "properties": {}, **found}


def decode_arguments(tool: str, arguments: type[Any], given: Mapping[str, Any]) -> Any:
    """The struct (or the plain dict, where that is the type); `ToolError` says what is wrong and what is expected."""
    if arguments is dict:
        return dict(given)
    fields = {field.name: field for field in msgspec.structs.fields(arguments)}
    said = {
        name: value for name, value in given.items() if value is not None or name not in fields or fields[name].required
    }
    try:
        return msgspec.convert(said, arguments, strict=False)
    except msgspec.ValidationError as error:
        known = ", ".join(f"{name} (required)" if field.required else name for name, field in fields.items())
        raise ToolError(f"the arguments of {tool!r} do not fit: {error}. Its parameters: {known or 'none'}.") from None


def _simplified(node: Any, definitions: Mapping[str, Any]) -> Any:
    if isinstance(node, list):
        return [_simplified(item, definitions) for item in node]
    if not isinstance(node, dict):
        return node
    if reference := node.get("$ref"):
        beside = {name: value for name, value in node.items() if name != "$ref"}
        return _simplified({**definitions[reference.rpartition("/")[2]], **beside}, definitions)
    if options := [option for option in node.get("anyOf", ()) if option != {"type": "null"}]:
        rest = {name: value for name, value in node.items() if name != "anyOf"}
        return _simplified({**options[0], **rest}, definitions) if len(options) == 1 else {**rest, "anyOf": options}
    if isinstance(node.get("properties"), dict):
        properties = {name: _simplified(value, definitions) for name, value in node["properties"].items()}
        rest = {name: value for name, value in node.items() if name != "properties" and name not in _LEFT_OUT}
        return {**{name: _simplified(value, definitions) for name, value in rest.items()}, "properties": properties}
    plain = {name: _simplified(value, definitions) for name, value in node.items() if name not in _LEFT_OUT}
    return {"type": "string", **plain} if "enum" in plain else plain
