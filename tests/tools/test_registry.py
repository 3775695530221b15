"""Which tools a run is offered, how they are described, and how arguments are validated."""

import json
import subprocess
import sys
from typing import Any

import msgspec
import pytest

from holdfast.config import Settings
from holdfast.config.agent_types import agent_of_run
from holdfast.errors import ToolError
from holdfast.schema.approvals import Effect, Subject
from holdfast.schema.messages import ToolCall
from holdfast.schema.runs import Mode
from holdfast.tools.process.command_process import CommandLauncher
from holdfast.tools.protocol import ToolContext, ToolOutput, ToolPlan
from holdfast.tools.registry import BUILT_IN, OfferedTools, ToolRegistry, may_use
from tests.support.tool_contexts import settings_of

ALL = (
    *("bash", "job_output", "job_kill", "view", "edit", "multiedit", "write", "apply_patch", "ls", "glob", "grep"),
    *("fetch", "download", "web_search", "todos", "ask", "agent"),
)
SEARCHING = settings_of(web_search={"provider": "brave"})
_MAX_TOTAL_BYTES = 12_000


@pytest.fixture(scope="module")
def registry() -> ToolRegistry:
    return ToolRegistry(CommandLauncher())


def offer(
    registry: ToolRegistry,
    settings: Settings,
    *,
    mode: Mode = "ask",
    interactive: bool = True,
    depth: int = 0,
    agent: str = "",
) -> OfferedTools:
    kind = agent_of_run(settings, agent) if depth else None
    return registry.offer(settings, mode=mode, interactive=interactive, depth=depth, agent=kind)


def decode(offered: OfferedTools, name: str, **arguments: Any) -> Any:
    return offered.prepare(ToolCall("call_1", name, arguments)).arguments


def test_all_tools_are_offered_in_a_fixed_order(registry: ToolRegistry) -> None:
    assert registry.names == ALL
    assert offer(registry, SEARCHING).names == ALL
    assert [spec.name for spec in offer(registry, SEARCHING).specs] == list(ALL)


def test_descriptions_and_schemas_are_small_in_total(registry: ToolRegistry) -> None:
    size = sum(len(msgspec.json.encode(spec)) for spec in offer(registry, SEARCHING).specs)
    assert size < _MAX_TOTAL_BYTES


@pytest.mark.parametrize("name", ALL)
def test_a_schema_is_one_plain_object_with_described_parameters(registry: ToolRegistry, name: str) -> None:
    spec = next(spec for spec in offer(registry, SEARCHING).specs if spec.name == name)
    text = json.dumps(spec.parameters)
    assert spec.parameters["type"] == "object"
    assert spec.parameters["additionalProperties"] is False
    assert spec.description
    for word in ("$ref", "$defs", '"null"', "anyOf"):
        assert word not in text
    for parameter in spec.parameters["properties"].values():
        assert "type" in parameter


@pytest.mark.parametrize(
    ("name", "effect"),
    [
        ("bash", "runs"),
        ("view", "reads"),
        ("edit", "writes"),
        ("download", "writes"),
        ("fetch", "network"),
        ("ask", "none"),
    ],
)
def test_tools_declare_their_effect(registry: ToolRegistry, name: str, effect: Effect) -> None:
    assert registry.get(name).effect == effect


def test_tools_that_write_are_not_offered_in_plan_mode_and_commands_may_only_read(registry: ToolRegistry) -> None:
    names = offer(registry, SEARCHING, mode="plan").names
    assert set(ALL) - set(names) == {"edit", "multiedit", "write", "apply_patch", "download"}


def test_preferred_tools_come_first_and_the_others_keep_their_order(registry: ToolRegistry) -> None:
    offered = registry.offer(
        SEARCHING, mode="ask", interactive=True, depth=0, agent=None, preferred=("apply_patch", "none_such")
    )
    assert offered.names == ("apply_patch", *(name for name in ALL if name != "apply_patch"))


def test_ask_is_not_offered_to_a_run_that_is_not_interactive(registry: ToolRegistry) -> None:
    offered = offer(registry, SEARCHING, interactive=False)
    assert set(ALL) - set(offered.names) == {"ask"}
    with pytest.raises(ToolError, match="'ask' is not available: this run is not interactive"):
        offered.find("ask")


def test_a_sub_agent_gets_reading_tools_unless_configured_otherwise(registry: ToolRegistry) -> None:
    settings = settings_of(agents={"writer": {"tools": ["view", "edit", "mcp_docs_*", "agent"]}, "reader": {}})
    reading = ("bash", "job_output", "job_kill", "view", "ls", "glob", "grep", "fetch")
    assert offer(registry, settings, depth=1).names == reading
    assert offer(registry, settings, depth=1, agent="reader").names == reading
    assert offer(registry, settings, depth=1, agent="writer").names == ("view", "edit", "agent")
    with pytest.raises(ToolError, match="this agent only reads"):
        offer(registry, settings, depth=1).find("edit")


def test_the_general_sub_agent_has_all_tools_but_cannot_ask(registry: ToolRegistry) -> None:
    offered = offer(registry, SEARCHING, depth=1, agent="general")
    assert set(ALL) - set(offered.names) == {"ask"}
    with pytest.raises(ToolError, match="a sub-agent cannot ask the user"):
        offered.find("ask")


@pytest.mark.parametrize(("allowed", "depths"), [(0, []), (1, [0]), (2, [0, 1])])
def test_sub_agents_nest_only_to_the_configured_depth(registry: ToolRegistry, allowed: int, depths: list[int]) -> None:
    settings = settings_of(limits={"agent_depth": allowed}, agents={"nested": {"tools": ["agent"]}})
    assert [d for d in range(4) if "agent" in offer(registry, settings, depth=d, agent="nested").names] == depths


def test_a_disabled_tool_is_not_offered_and_the_error_says_so(registry: ToolRegistry) -> None:
    offered = offer(registry, settings_of(tools={"disabled": ["bash", "web_*"]}))
    assert "bash" not in offered.names
    with pytest.raises(ToolError, match="disabled in the configuration"):
        offered.find("bash")


def test_web_search_without_a_provider_is_not_offered_and_the_error_says_what_to_do(registry: ToolRegistry) -> None:
    with pytest.raises(ToolError, match=r"not configured; the user can set web_search\.provider"):
        offer(registry, Settings()).find("web_search")


def test_configured_agents_are_in_the_description(registry: ToolRegistry) -> None:
    settings = settings_of(agents={"reviewer": {"description": "Looks for mistakes."}})
    spec = next(spec for spec in offer(registry, settings).specs if spec.name == "agent")
    assert "- reviewer: Looks for mistakes." in spec.description


def test_an_unknown_tool_name_suggests_the_nearest(registry: ToolRegistry) -> None:
    with pytest.raises(ToolError, match="tool 'grepp' does not exist; did you mean 'grep'"):
        offer(registry, Settings()).find("grepp")
    with pytest.raises(ToolError, match="tool 'xyz' does not exist; tools: bash, "):
        offer(registry, Settings()).find("xyz")


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (
            {},
            r"missing required field `command`.* command \(required\), timeout, background, escalate, reason\.",
        ),
        ({"command": ""}, "length >= 1"),
        ({"command": {"line": "ls"}}, "Expected `str`, got `object`"),
        ({"command": "x", "timeout": -1}, r">= 0.*timeout"),
        ({"command": "x", "background": "perhaps"}, "background"),
        ({"command": None}, "Expected `str`, got `null`"),
    ],
)
def test_invalid_arguments_raise_an_error_with_the_parameters(
    registry: ToolRegistry, arguments: dict[str, Any], problem: str
) -> None:
    with pytest.raises(ToolError, match=f"(?s)invalid arguments for 'bash': .*{problem}"):
        decode(offer(registry, Settings()), "bash", **arguments)


def test_numbers_in_strings_and_nulls_for_optional_arguments_are_accepted(registry: ToolRegistry) -> None:
    found = decode(offer(registry, Settings()), "bash", command="x", timeout="5", background=None)
    assert (found.timeout, found.background) == (5.0, False)


class ExtensionTool:
    """A tool of an extension, with its own schema."""

    name = "mcp_docs_search"
    description = "Search the docs."
    arguments = dict
    parameters = {"type": "object", "properties": {"q": {"type": "string"}}}
    effect = "runs"
    parallel = True

    async def plan(self, arguments: dict[str, Any], context: ToolContext) -> ToolPlan:
        return ToolPlan(Subject(tool=self.name, effect="runs", title=""))

    async def run(self, arguments: dict[str, Any], context: ToolContext, plan: ToolPlan) -> ToolOutput:
        return ToolOutput("")


def test_tools_of_extensions_are_offered_and_can_be_removed() -> None:
    registry = ToolRegistry(CommandLauncher(), extra=[ExtensionTool()])
    offered = offer(registry, Settings())
    assert offered.names[-1] == "mcp_docs_search"
    assert offered.specs[-1].parameters == ExtensionTool.parameters
    assert decode(offered, "mcp_docs_search", q="x") == {"q": "x"}
    assert "mcp_docs_search" not in offer(registry, Settings(), mode="plan").names
    registry.remove(["mcp_docs_search", "bash"])
    assert "mcp_docs_search" not in registry.names
    assert "bash" in registry.names


def test_an_extension_cannot_replace_a_built_in_tool() -> None:
    class Fake(ExtensionTool):
        name = "bash"

    with pytest.raises(ToolError, match="'bash' is built in"):
        ToolRegistry(CommandLauncher(), extra=[Fake()])


def test_creating_the_tools_imports_nothing_heavy() -> None:
    create = "import holdfast.tools.registry as r; r.ToolRegistry(r.CommandLauncher())"
    program = f"import json, sys; {create}; json.dump([*sys.modules], sys.stdout)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in json.loads(done.stdout)}
    assert loaded & {"httpx2", "markdownify", "bs4", "tree_sitter", "tomlkit", "starlette"} == set()


def test_the_list_of_built_in_tools_is_complete() -> None:
    assert ("view", "ViewTool") in BUILT_IN
    assert len(BUILT_IN) == len(ALL)


async def test_a_registry_without_calls_can_be_closed() -> None:
    await ToolRegistry(CommandLauncher()).close()


def test_patterns_with_a_mark_take_tools_away() -> None:
    assert may_use("view", ("view", "gr*"))
    assert not may_use("bash", ("view", "gr*"))
    assert may_use("view", ("!bash",))
    assert not may_use("bash", ("*", "!bash"))
    assert not may_use("bash", ("bash", "!b*"))
