"""`agent`: what the sub-agent gets, and what the model hears of it."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast.errors import ToolError
from holdfast.schema.runs import Outcome, RunError
from holdfast.tools.agent import AgentTool
from holdfast.tools.protocol import ToolContext, ToolOutput
from tests.support.tool_contexts import ToolWorkspace, settings_of


@pytest.fixture
def workspace(tmp_path: Path) -> ToolWorkspace:
    return ToolWorkspace(tmp_path)


async def call(tool: Any, context: ToolContext, **arguments: Any) -> ToolOutput:
    struct = msgspec.convert(arguments, tool.arguments)
    return await tool.run(struct, context, await tool.plan(struct, context))


async def test_a_sub_agents_answer_is_the_result(workspace: ToolWorkspace) -> None:
    output = await call(AgentTool(), workspace.context(), title="Find it", prompt="Where is it?")
    assert (output.text, output.status) == ("found it", "ok")
    assert workspace.subagents.started == [("", "Where is it?", "Find it")]


async def test_a_named_agent_must_be_configured(workspace: ToolWorkspace) -> None:
    context = workspace.context(settings=settings_of(agents={"reviewer": {}}))
    await call(AgentTool(), context, title="t", prompt="p", agent="reviewer")
    assert workspace.subagents.started == [("reviewer", "p", "t")]
    with pytest.raises(ToolError, match="agent 'other' does not exist; agents: 'explore', 'general', 'reviewer'"):
        await call(AgentTool(), context, title="t", prompt="p", agent="other")


async def test_a_sub_agent_that_did_not_finish_is_an_error_with_its_text(workspace: ToolWorkspace) -> None:
    error = RunError("overloaded", "the model is busy")
    workspace.subagents.outcome = Outcome("failed", "provider", text="so far", error=error, left_running=("12 sleep",))
    output = await call(AgentTool(), workspace.context(), title="t", prompt="p")
    assert output.text == "so far\n[the sub-agent did not finish: failed, provider: the model is busy]"
    assert (output.status, output.left_running) == ("error", ("12 sleep",))
