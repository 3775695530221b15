"""A script of a run that uses every feature, and checks of a run's messages.

The run has reasoning, parallel tool calls, an approval, a retry, a summary and a sub-agent.
"""

from collections import Counter
from typing import Any

from holdfast.agent.tool_calls import NOT_RUN
from holdfast.models.model_script import (
    ModelScript,
    RuleCondition,
    ScriptedCall,
    ScriptedFailure,
    ScriptedReasoning,
    ScriptedText,
    ScriptedUsage,
    ScriptRule,
)
from holdfast.models.protocol import ModelInfo
from holdfast.models.scripted_model import ScriptedModel
from holdfast.schema.messages import Finish, Message, Summary, ToolCall, ToolResult
from holdfast.schema.usage import Usage

FULL = ScriptedUsage(Usage(input=95_000, output=10))
SOME = ScriptedUsage(Usage(input=100, output=10))
SCRIPT = ModelScript(
    rules=(
        ScriptRule(
            (ScriptedText("## Task\nthe story"), SOME), RuleCondition(prompt="about to be replaced by a summary")
        ),
        ScriptRule((ScriptedText("fine"), SOME), RuleCondition(prompt="the next prompt$")),
        ScriptRule((ScriptedText("all done"), SOME), RuleCondition(prompt="the story")),
        ScriptRule((ScriptedCall("echo", {"word": "c"}), SOME), RuleCondition(prompt="look$", step=0)),
        ScriptRule((ScriptedText("found it"), SOME), RuleCondition(prompt="look$", step=1)),
        ScriptRule(
            (
                ScriptedReasoning("hm", opaque={"signature": "s"}),
                ScriptedText("I look."),
                ScriptedCall("echo", {"word": "a"}),
                ScriptedCall("echo", {"word": "b"}),
                ScriptedCall("alone", {"word": "z"}),
                SOME,
            ),
            RuleCondition(prompt="work$", step=0),
        ),
        ScriptRule((ScriptedText("oh"), ScriptedFailure("overloaded")), RuleCondition(prompt="work$", step=1), times=1),
        ScriptRule((ScriptedCall("subagent", {"word": "look"}), FULL), RuleCondition(prompt="work$", step=1)),
    )
)


def eventful_model() -> ScriptedModel:
    """Return a model that follows the script for the prompt ``work``, and answers ``fine`` to ``the next prompt``."""
    return ScriptedModel(SCRIPT, info=ModelInfo("offline/test", context_window=100_000))


def results(messages: tuple[Message, ...]) -> list[ToolResult]:
    return [part for message in messages for part in message.parts if isinstance(part, ToolResult)]


def finish(message: Message) -> str:
    return next((part.reason for part in message.parts if isinstance(part, Finish)), "none")


def check_results(messages: tuple[Message, ...], tools: dict[str, Any], where: str | None) -> None:
    """Check that the output of a tool is kept, and that a call that never ran says so."""
    for result in results(messages):
        tool = tools[result.name]
        if where in (f"before {result.name}.run", f"after {result.name}.run"):
            continue  # interrupted inside the tool
        if not tool.ran[result.call_id]:
            assert (result.status, result.text) == ("cancelled", NOT_RUN)
        elif result.call_id in tool.said:
            assert result.text == tool.said[result.call_id]


def check_record(messages: tuple[Message, ...], ending: str, *, own: str) -> None:
    prompts = [m for m in messages if m.role == "user" and not any(isinstance(p, Summary) for p in m.parts)]
    assert len(prompts) == 1, "the prompt is there once"
    calls = [part.id for m in messages for part in m.parts if isinstance(part, ToolCall)]
    assert Counter(calls) == Counter(result.call_id for result in results(messages)), "each call has one result"
    answers = [m for m in messages if m.role == "assistant"]
    assert all(finish(m) != "none" for m in answers), "nothing is open"
    if messages[0].session_id == own:
        expected = "end_turn" if ending == "completed" else ending
        assert finish(answers[-1]) == expected
