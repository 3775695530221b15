"""The tools of a workspace, which of them a run is offered, and the reading of calls.

A `ToolRegistry` creates one instance of each tool and closes them. The model of a run sees only the tools that it can
use. If it calls another tool, the error says why that tool is not available. Calls in the dialects of other agents are
translated (see `dialects`).
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from importlib import import_module
from typing import Any, NamedTuple

import msgspec

from holdfast.config import Settings
from holdfast.config.agent_types import AgentType
from holdfast.errors import ToolError
from holdfast.schema.messages import ToolCall, ToolSpec
from holdfast.schema.runs import Mode
from holdfast.tools.dialects.argument_decoding import decode_arguments, field_names
from holdfast.tools.dialects.argument_repair import repair_arguments
from holdfast.tools.dialects.call_translation import advice_for, own_name, raw_arguments, translate_call
from holdfast.tools.process.command_process import CommandLauncher
from holdfast.tools.protocol import PreparedCall, Tool

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
"""Module and class of each tool, in the order in which models see them."""

BUILT_IN_NAMES = frozenset(
    {
        *{"bash", "job_output", "job_kill", "view", "edit", "multiedit", "write", "apply_patch", "ls", "glob", "grep"},
        *{"fetch", "download", "web_search", "todos", "ask", "agent"},
    }
)
"""The names of these tools."""

_PLAN_MODE_EFFECTS = frozenset({"reads", "network", "none"})
"""Effects of the tools that a run in plan mode is offered."""
_EXPLORER_EFFECTS = frozenset({"reads", "network"})
"""Effects of the tools that a sub-agent that only reads is offered."""
_COMMAND_TOOLS = frozenset({"bash", "job_output", "job_kill"})
"""Offered also to runs that only read: commands that change nothing are allowed, all others are denied."""
_OMITTED_KEYWORDS = frozenset({"title", "$defs", "default"})
"""JSON Schema keywords that are not sent to models."""


class ToolSelection(NamedTuple):
    """Tools that a run is offered, how they are described, and why others are not offered."""

    tools: tuple[Tool[Any], ...]
    specs: tuple[ToolSpec, ...]
    withheld: dict[str, str]


class _Audience(NamedTuple):
    """The run that tools are selected for."""

    settings: Settings
    mode: Mode
    interactive: bool
    depth: int
    agent: AgentType | None
    preferred: tuple[str, ...]


class OfferedTools:
    """The tools of one run, in a fixed order."""

    def __init__(
        self,
        tools: Iterable[Tool[Any]],
        *,
        specs: tuple[ToolSpec, ...],
        withheld: dict[str, str],
        joining: Callable[[], ToolSelection] | None = None,
    ) -> None:
        self._tools: dict[str, Tool[Any]] = {}
        self._withheld: dict[str, str] = {}
        self._known_fields: dict[str, Sequence[str]] | None = None
        self._joining = joining
        self.specs: tuple[ToolSpec, ...] = ()
        self._add(ToolSelection(tuple(tools), specs, withheld))

    def update(self) -> None:
        """Add the tools that became ready since. Tools that are there stay as they are, also if one has their name."""
        if self._joining is not None:
            self._add(self._joining())

    def _add(self, selection: ToolSelection) -> None:
        if not selection.tools and not selection.withheld:
            return
        known = set(self._tools)
        if known and any(tool.name in known for tool in selection.tools):
            selection = ToolSelection(
                tuple(tool for tool in selection.tools if tool.name not in known),
                tuple(spec for spec in selection.specs if spec.name not in known),
                selection.withheld,
            )
        self._tools |= {tool.name: tool for tool in selection.tools}
        self._withheld |= selection.withheld
        self._known_fields = None
        self.specs += selection.specs

    @property
    def _fields(self) -> dict[str, Sequence[str]]:
        """The names of the fields of each tool, for calls in other dialects. Most turns make no call."""
        if self._known_fields is None:
            withheld: dict[str, Sequence[str]] = dict.fromkeys(self._withheld, ())
            self._known_fields = withheld | {name: field_names(tool.arguments) for name, tool in self._tools.items()}
        return self._known_fields

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._tools)

    def prepare(self, call: ToolCall) -> PreparedCall:
        """Read a call, also one in the dialect of another agent. Raises `ToolError` if it is invalid."""
        given: Mapping[str, Any] = call.arguments
        notes: tuple[str, ...] = ()
        if call.malformed is not None:
            given, notes = _read_malformed(call.name, call.malformed)
        translated = translate_call(call.name, given, fields=self._fields)
        tool = self.find(translated.name)
        decoded = decode_arguments(tool.name, tool.arguments, translated.arguments)
        return PreparedCall(tool, decoded.arguments, (*notes, *translated.notes, *decoded.notes))

    def find(self, name: str) -> Tool[Any]:
        """Return a tool, also by the name that another agent has for it. Raises `ToolError` if it is not offered."""
        own = own_name(name, self._fields)
        if tool := self._tools.get(own):
            return tool
        if why := self._withheld.get(own):
            raise ToolError(f"tool {name!r} is not available: {why}")
        if advice := advice_for(name):
            raise ToolError(f"tool {name!r} does not exist; {advice}")
        close = difflib.get_close_matches(name.lower(), self._tools, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"tools: {', '.join(self._tools)}"
        raise ToolError(f"tool {name!r} does not exist; {hint}")


def _read_malformed(name: str, text: str) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the arguments of a call that are not valid JSON, and a note. Raises `ToolError` if they are unclear."""
    if (raw := raw_arguments(name, text)) is not None:
        return raw, ()
    repaired = repair_arguments(name, text)
    return repaired.arguments, (repaired.note,)


def import_tools() -> None:
    """Import every built-in tool. Blocks."""
    for module, _ in BUILT_IN:
        import_module(f"holdfast.tools.{module}")


class ToolRegistry:
    """One instance of each tool. `extra` are tools of extensions, after the built-in tools."""

    def __init__(self, launcher: CommandLauncher, *, extra: Sequence[Tool[Any]] = ()) -> None:
        self._tools: dict[str, Tool[Any]] = {}
        for module, name in BUILT_IN:
            make = getattr(import_module(f"holdfast.tools.{module}"), name)
            tool: Tool[Any] = make(launcher) if name == "BashTool" else make()
            self._tools[tool.name] = tool
        self._built_in = frozenset(self._tools)
        self._parameters = {name: _parameters(tool) for name, tool in self._tools.items()}
        self._latest: tuple[_Audience, ToolSelection] | None = None
        """The latest selection of built-in tools. Most runs have the same one."""
        self.extend(extra)

    def extend(self, tools: Iterable[Tool[Any]]) -> None:
        """Add tools of extensions. A tool replaces an extension's tool of the same name, but not a built-in tool.

        A tool with an external schema has ``arguments = dict`` and its JSON Schema as ``parameters``.
        """
        for tool in tools:
            if tool.name in self._built_in:
                raise ToolError(f"tool {tool.name!r} is built in; an extension cannot replace it")
            self._tools[tool.name] = tool
            self._parameters[tool.name] = _parameters(tool)

    def remove(self, names: Iterable[str]) -> None:
        """Remove tools of extensions. Built-in tools stay."""
        for name in set(names) - self._built_in:
            self._tools.pop(name, None)

    def get(self, name: str) -> Tool[Any]:
        """Return a tool, also if it is not offered to runs."""
        return self._tools[name]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._tools)

    def offer(
        self,
        settings: Settings,
        *,
        mode: Mode,
        interactive: bool,
        depth: int,
        agent: AgentType | None,
        preferred: Sequence[str] = (),
        extra: Sequence[Tool[Any]] = (),
        joining: Callable[[], Sequence[Tool[Any]]] | None = None,
    ) -> OfferedTools:
        """Return the tools for a run.

        `depth` is the nesting of sub-agents, `agent` the kind of a sub-agent, or the agent that the user chose.
        `preferred` tools come first. `extra` are tools that not every run has. `joining` returns tools that are only
        for this run and became ready since it was last called.
        """

        audience = _Audience(settings, mode, interactive, depth, agent, tuple(preferred))
        if extra or len(self._tools) > len(self._built_in):
            selection = self._select((*self._tools.values(), *extra), audience)
        else:
            if self._latest is None or self._latest[0] != audience:
                self._latest = (audience, self._select(self._tools.values(), audience))
            selection = self._latest[1]
        later = None if joining is None else lambda: self._select(joining(), audience)
        return OfferedTools(selection.tools, specs=selection.specs, withheld=selection.withheld, joining=later)

    def _select(self, found: Iterable[Tool[Any]], audience: _Audience) -> ToolSelection:
        withheld: dict[str, str] = {}
        tools = []
        for tool in found:
            why = _reason_withheld(tool, audience)
            if why is None:
                tools.append(tool)
            else:
                withheld[tool.name] = why
        tools.sort(key=lambda tool: tool.name not in audience.preferred)
        return ToolSelection(tuple(tools), tuple(self._spec(tool, audience.settings) for tool in tools), withheld)

    async def close(self) -> None:
        """Close the tools that hold resources, after the workspace's jobs have ended."""
        for tool in self._tools.values():
            if close := getattr(tool, "close", None):
                await close()

    def _spec(self, tool: Tool[Any], settings: Settings) -> ToolSpec:
        describe = getattr(tool, "describe", None)
        description = describe(settings) if describe else tool.description
        parameters = self._parameters.get(tool.name)
        return ToolSpec(tool.name, description, _parameters(tool) if parameters is None else parameters)


def _reason_withheld(tool: Tool[Any], audience: _Audience) -> str | None:
    """Return why a run is not offered a tool, or None."""
    settings, mode, interactive, depth, agent, _ = audience
    if any(fnmatchcase(tool.name, pattern) for pattern in settings.tools.disabled):
        return "it is disabled in the configuration"
    if mode == "plan" and tool.effect not in _PLAN_MODE_EFFECTS and tool.name not in _COMMAND_TOOLS:
        return "this run is in plan mode, which only reads"
    if tool.name == "ask" and not interactive:
        return "this run is not interactive"
    if tool.name == "agent" and depth >= settings.limits.agent_depth:
        return "the limit for nested sub-agents is reached"
    if tool.name == "web_search" and settings.web_search.provider == "none":
        from holdfast.tools.web_search import NOT_CONFIGURED

        return NOT_CONFIGURED
    return _reason_withheld_from_agent(tool, agent, depth=depth) if agent is not None else None


def _reason_withheld_from_agent(tool: Tool[Any], agent: AgentType, *, depth: int) -> str | None:
    if tool.name == "ask" and depth and (agent.tools is None or "ask" not in agent.tools):
        return "a sub-agent cannot ask the user; decide yourself and say what you decided"
    if agent.tools is not None:
        reaches_any = getattr(tool, "reaches_any", None)  # it calls other tools, and checks their names itself
        if may_use(tool.name, agent.tools) or (reaches_any is not None and reaches_any()):
            return None
        return f"the agent {agent.name!r} is configured without it"
    if agent.read_only and tool.effect not in _EXPLORER_EFFECTS and tool.name not in _COMMAND_TOOLS:
        return "this agent only reads"
    return None


def may_use(name: str, patterns: Sequence[str]) -> bool:
    """Return whether patterns allow a tool: one must match it, and none with ``!`` before it."""
    denied = [pattern[1:] for pattern in patterns if pattern.startswith("!")]
    allowed = [pattern for pattern in patterns if not pattern.startswith("!")] or ["*"]
    return any(fnmatchcase(name, one) for one in allowed) and not any(fnmatchcase(name, one) for one in denied)


def may_reach(name: str, settings: Settings, agent: AgentType | None) -> bool:
    """Whether a run may call a tool through another one: it is neither disabled nor kept from the run's agent."""
    if any(fnmatchcase(name, pattern) for pattern in settings.tools.disabled):
        return False
    return agent is None or agent.tools is None or may_use(name, agent.tools)


def _parameters(tool: Tool[Any]) -> dict[str, Any]:
    given: dict[str, Any] | None = getattr(tool, "parameters", None)
    return given if given is not None else arguments_schema(tool.arguments)


def arguments_schema(arguments: type[Any]) -> dict[str, Any]:
    """Return the JSON Schema of a struct, without references and without fields that a model does not need."""
    whole = msgspec.json.schema(arguments)
    schema = _simplify(whole, whole.get("$defs", {}))
    schema.pop("description", None)
    return {"type": "object", "properties": {}, **schema}


def _simplify(node: Any, definitions: Mapping[str, Any]) -> Any:
    if isinstance(node, list):
        return [_simplify(item, definitions) for item in node]
    if not isinstance(node, dict):
        return node
    if reference := node.get("$ref"):
        beside = {name: value for name, value in node.items() if name != "$ref"}
        return _simplify({**definitions[reference.rpartition("/")[2]], **beside}, definitions)
    if options := [option for option in node.get("anyOf", ()) if option != {"type": "null"}]:
        rest = {name: value for name, value in node.items() if name != "anyOf"}
        return _simplify({**options[0], **rest}, definitions) if len(options) == 1 else {**rest, "anyOf": options}
    if isinstance(node.get("properties"), dict):
        properties = {name: _simplify(value, definitions) for name, value in node["properties"].items()}
        rest = {name: value for name, value in node.items() if name != "properties" and name not in _OMITTED_KEYWORDS}
        return {**{name: _simplify(value, definitions) for name, value in rest.items()}, "properties": properties}
    plain = {name: _simplify(value, definitions) for name, value in node.items() if name not in _OMITTED_KEYWORDS}
    return {"type": "string", **plain} if "enum" in plain else plain
