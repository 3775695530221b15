"""How deep sub-agents may be nested: `limits.agent_depth` counts every level."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from holdfast.config.settings import MAX_AGENT_DEPTH
from holdfast.models.model_script import ModelScript, RuleCondition, ScriptedCall, ScriptedText, ScriptRule
from holdfast.schema.messages import ToolResult
from tests.support.app_harness import AppHarness, open_app_harness
from tests.support.engine_harness import LONG_LIMITS

TASK = {"title": "deeper", "prompt": "go deeper", "agent": "general"}


def diving() -> ModelScript:
    """Each run starts a sub-agent if it can, and else tries to."""
    title = ScriptRule(do=(ScriptedText("A title"),), when=RuleCondition(system="^Give this coding task a title"))
    start = ScriptRule(do=(ScriptedCall("agent", TASK),), when=RuleCondition(step=0))
    return ModelScript(rules=(title, start, ScriptRule(do=(ScriptedText("done"),))))


async def results_by_depth(harness: AppHarness, session_id: str) -> list[ToolResult]:
    """Follow the calls from the first session down."""
    found = []
    current: str | None = session_id
    while current is not None:
        messages = await harness.messages(current)
        parts = [part for message in messages for part in message.parts]
        found += [part for part in parts if isinstance(part, ToolResult)]
        current = next((child for part in parts if (child := getattr(part, "child_session_id", None))), None)
    return found


@pytest.mark.parametrize("depth", [0, 1, 2, 3])
async def test_sub_agents_nest_as_deep_as_configured(tmp_path: Path, depth: int) -> None:
    limits = replace(LONG_LIMITS, subagent_depth=MAX_AGENT_DEPTH)
    config = f"[limits]\nagent_depth = {depth}\n"
    async with open_app_harness(tmp_path, diving(), config=config, limits=limits) as harness:
        run = await harness.run("go", mode="auto")
        assert run.state == "completed"
        *started, last = await results_by_depth(harness, run.session_id)
        assert [result.status for result in started] == ["ok"] * depth
        assert last.status == "error"
        assert last.text == "tool 'agent' is not available: the limit for nested sub-agents is reached"
