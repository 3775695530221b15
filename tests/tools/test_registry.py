"""Which tools a run is offered, how they are described, and what happens to bad arguments."""

import json
import subprocess
import sys
from typing import Any

import msgspec
import pytest

from holdfast.config import Settings
from holdfast.errors import ToolError
from holdfast.schema.approvals import Effect, Subject
from holdfast.schema.messages import ToolCall
from holdfast.tools.protocol import ToolContext, ToolOutput, ToolPlan
from holdfast.tools.registry import BUILT_IN, OfferedTools, ToolRegistry
from tests.support.tool_contexts import settings_of

ALL = (
    *("bash", "job_output", "job_kill", "view", "edit", "multiedit", "write", "apply_patch", "ls", "glob", "grep"),
    *("fetch", "download", "web_search", "todos", "ask", "agent"),
)
SEARCHING = settings_of(web_search={"provider": "brave"})
_LARGEST_TOTAL = 12_000


@pytest.fixture(scope="module")
def registry() -> ToolRegistry:
    return ToolRegistry()


def read(offer: OfferedTools, name: str, **arguments: Any) -> Any:
    return offer.arguments(offer.find(name), ToolCall("call_1", name, arguments))


def test_every_tool_is_there_in_a_fixed_order(registry: ToolRegistry) -> None:
    assert registry.names == ALL
    assert registry.offer(SEARCHING).names == ALL
    assert [spec.name for spec in registry.offer(SEARCHING).specs] == list(ALL)


def test_all_descriptions_and_schemas_together_are_small(registry: ToolRegistry) -> None:
    size = sum(len(msgspec.json.encode(spec)) for spec in registry.offer(SEARCHING).specs)
    assert size < _LARGEST_TOTAL


@pytest.mark.parametrize("name", ALL)
def test_a_schema_is_one_plain_object_with_described_parameters(registry: ToolRegistry, name: str) -> None:
    spec = next(spec for spec in registry.offer(SEARCHING).specs if spec.name == name)
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
def test_tools_declare_what_they_do_to_the_world(registry: ToolRegistry, name: str, effect: Effect) -> None:
    assert registry.get(name).effect == effect


def test_what_writes_or_runs_is_not_offered_for_planning(registry: ToolRegistry) -> None:
    names = registry.offer(SEARCHING, mode="plan").names
    assert set(ALL) - set(names) == {"bash", "edit", "multiedit", "write", "apply_patch", "download"}


def test_a_run_without_a_person_has_nobody_to_ask(registry: ToolRegistry) -> None:
    offer = registry.offer(SEARCHING, interactive=False)
    assert set(ALL) - set(offer.names) == {"ask"}
    with pytest.raises(ToolError, match="'ask' is not available: nobody can be asked"):
        offer.find("ask")


def test_a_sub_agent_can_only_read_unless_its_configuration_says_otherwise(registry: ToolRegistry) -> None:
    settings = settings_of(agents={"writer": {"tools": ["view", "edit", "mcp_docs_*", "agent"]}, "reader": {}})
    reading = ("view", "ls", "glob", "grep", "fetch")
    assert registry.offer(settings, depth=1).names == reading
    assert registry.offer(settings, depth=1, agent="reader").names == reading
    assert registry.offer(settings, depth=1, agent="writer").names == ("view", "edit", "agent")
    with pytest.raises(ToolError, match="this sub-agent can only read"):
        registry.offer(settings, depth=1).find("bash")


@pytest.mark.parametrize(("allowed", "depths"), [(0, []), (1, [0]), (2, [0, 1])])
def test_sub_agents_go_only_as_deep_as_allowed(registry: ToolRegistry, allowed: int, depths: list[int]) -> None:
    settings = settings_of(limits={"agent_depth": allowed}, agents={"boss": {"tools": ["agent"]}})
    assert [d for d in range(4) if "agent" in registry.offer(settings, depth=d, agent="boss").names] == depths


def test_what_the_configuration_disables_is_not_offered_and_says_so(registry: ToolRegistry) -> None:
    offer = registry.offer(settings_of(tools={"disabled": ["bash", "web_*"]}))
    assert "bash" not in offer.names
    with pytest.raises(ToolError, match="disabled in the configuration"):
        offer.find("bash")


def test_a_search_without_a_provider_is_not_offered_and_says_what_to_do(registry: ToolRegistry) -> None:
    with pytest.raises(ToolError, match=r"not configured; the user can set web_search\.provider"):
        registry.offer(Settings()).find("web_search")


def test_configured_agents_are_told_to_the_model(registry: ToolRegistry) -> None:
    settings = settings_of(agents={"reviewer": {"description": "Looks for mistakes."}})
    spec = next(spec for spec in registry.offer(settings).specs if spec.name == "agent")
    assert "- reviewer: Looks for mistakes." in spec.description


def test_an_unknown_name_gets_the_nearest(registry: ToolRegistry) -> None:
    with pytest.raises(ToolError, match="there is no tool 'grepp'; did you mean 'grep'"):
        registry.offer(Settings()).find("grepp")
    with pytest.raises(ToolError, match="there is no tool 'xyz'; tools: bash, "):
        registry.offer(Settings()).find("xyz")


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({}, r"missing required field `command`.* Its parameters: command \(required\), timeout, background\."),
        ({"command": ""}, "length >= 1"),
        ({"command": "x", "cwd": "/"}, "unknown field `cwd`"),
        ({"command": ["ls"]}, "Expected `str`, got `array`"),
        ({"command": "x", "timeout": -1}, r">= 0.*timeout"),
        ({"command": "x", "background": "perhaps"}, "background"),
        ({"command": None}, "Expected `str`, got `null`"),
    ],
)
def test_bad_arguments_are_told_back(registry: ToolRegistry, arguments: dict[str, Any], problem: str) -> None:
    with pytest.raises(ToolError, match=f"(?s)the arguments of 'bash' do not fit: .*{problem}"):
        read(registry.offer(Settings()), "bash", **arguments)


def test_numbers_as_text_and_nulls_for_what_is_left_out_are_understood(registry: ToolRegistry) -> None:
    found = read(registry.offer(Settings()), "bash", command="x", timeout="5", background=None)
    assert (found.timeout, found.background) == (5.0, False)


class Foreign:
    """A tool of an extension, with a schema of its own."""

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


def test_extensions_come_through_the_same_door() -> None:
    registry = ToolRegistry(extra=[Foreign()])
    offer = registry.offer(Settings())
    assert offer.names[-1] == "mcp_docs_search"
    assert offer.specs[-1].parameters == Foreign.parameters
    assert read(offer, "mcp_docs_search", q="x") == {"q": "x"}
    assert "mcp_docs_search" not in registry.offer(Settings(), mode="plan").names
    registry.remove(["mcp_docs_search", "bash"])
    assert "mcp_docs_search" not in registry.names
    assert "bash" in registry.names


def test_an_extension_cannot_take_the_place_of_a_built_in_tool() -> None:
    class Fake(Foreign):
        name = "bash"

    with pytest.raises(ToolError, match="'bash' is built in"):
        ToolRegistry(extra=[Fake()])


def test_nothing_heavy_is_imported_with_the_tools() -> None:
    program = "import json, sys, holdfast.tools.registry as r; r.ToolRegistry(); json.dump([*sys.modules], sys.stdout)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in json.loads(done.stdout)}
    assert loaded & {"httpx2", "markdownify", "bs4", "tree_sitter", "tomlkit", "starlette"} == set()


def test_the_list_names_modules_and_classes() -> None:
    assert ("view", "ViewTool") in BUILT_IN
    assert len(BUILT_IN) == len(ALL)


async def test_closing_a_registry_that_ran_nothing_is_quick() -> None:
    await ToolRegistry().close()
