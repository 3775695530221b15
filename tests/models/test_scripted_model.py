"""The scripted model, and the scripts that it reads."""

from __future__ import annotations

import asyncio
import json

import pytest

from holdfast.errors import ConfigError, ModelError, ModelRateLimit
from holdfast.models.model_script import (
    ModelScript,
    RuleCondition,
    ScriptedCall,
    ScriptedFailure,
    ScriptedPause,
    ScriptedReasoning,
    ScriptedStop,
    ScriptedText,
    ScriptedUsage,
    ScriptedWait,
    ScriptRule,
    read_script,
)
from holdfast.models.protocol import (
    CallArguments,
    CallEnd,
    CallStart,
    ModelDelta,
    ModelRequest,
    ReasoningDelta,
    ReasoningEnd,
    Stop,
    TextDelta,
    UsageReport,
)
from holdfast.models.scripted_model import ScriptedModel
from holdfast.schema.messages import Message, Text, ToolCall, ToolResult, ToolSpec
from holdfast.schema.usage import Usage
from tests.models.requests import message
from tests.models.support import summarize

ASK = ModelRequest(messages=(message(1, "user", Text("Where is the README?")),))


async def collect(model: ScriptedModel, request: ModelRequest = ASK) -> list[ModelDelta]:
    return [delta async for delta in model.stream(request)]


def after(*results: ToolResult, prompt: str = "look") -> ModelRequest:
    """A request after a step for each result."""
    messages: list[Message] = [message(1, "user", Text(prompt))]
    for number, result in enumerate(results):
        messages.append(message(2 * number + 2, "assistant", ToolCall(result.call_id, result.name)))
        messages.append(message(2 * number + 3, "tool", result))
    return ModelRequest(messages=tuple(messages))


async def test_model_without_a_script_repeats_the_prompt() -> None:
    found = summarize(await collect(ScriptedModel()))
    assert "Where is the README?" in found["text"]
    assert found["stop"] == "end_turn"


async def test_actions_become_deltas_in_order() -> None:
    model = ScriptedModel.answering(
        (
            ScriptedReasoning("Hm.", chunk=2),
            ScriptedText("I look.", chunk=0),
            ScriptedCall("view", {"path": "a"}, chunk=5),
        )
    )
    *deltas, usage, stop = await collect(model)
    assert deltas == [
        ReasoningDelta("Hm"),
        ReasoningDelta("."),
        ReasoningEnd(None, "scripted"),
        TextDelta("I look."),
        CallStart(0, "view"),
        CallArguments(0, '{"pat'),
        CallArguments(0, 'h":"a'),
        CallArguments(0, '"}'),
        CallEnd(0),
    ]
    assert isinstance(usage, UsageReport)
    assert usage.usage.estimated
    assert stop == Stop("tool_use")


async def test_answers_are_used_in_order_before_the_rules() -> None:
    script = ModelScript(
        answers=((ScriptedText("one"),), (ScriptedText("two"),)), rules=(ScriptRule((ScriptedText("three"),)),)
    )
    model = ScriptedModel(script)
    assert [summarize(await collect(model))["text"] for _ in range(4)] == ["one", "two", "three", "three"]
    assert len(model.requests) == 4


async def test_rules_match_by_step_and_tool_result() -> None:
    model = ScriptedModel(
        ModelScript(
            rules=(
                ScriptRule((ScriptedCall("ls"),), RuleCondition(step=0, prompt="look")),
                ScriptRule((ScriptedText("found: {result}"),), RuleCondition(step=1, tool="ls", result="README")),
                ScriptRule((ScriptedText("it failed"),), RuleCondition(step=1, status="error")),
                ScriptRule((ScriptedText("later"),), RuleCondition(step=2)),
            ),
            fallback=(ScriptedText("else"),),
        )
    )
    found, failed = ToolResult("c", "ls", text="README.md"), ToolResult("c", "ls", status="error", text="no")
    assert summarize(await collect(model, after()))["calls"][0]["name"] == "ls"
    assert summarize(await collect(model, after(found)))["text"] == "found: README.md"
    assert summarize(await collect(model, after(failed)))["text"] == "it failed"
    assert summarize(await collect(model, after(found, found)))["text"] == "later"
    assert summarize(await collect(model, ASK))["text"] == "else"


async def test_new_prompt_resets_the_step() -> None:
    model = ScriptedModel(ModelScript(rules=(ScriptRule((ScriptedText("first step"),), RuleCondition(step=0)),)))
    earlier = after(ToolResult("c", "ls", text="x")).messages
    request = ModelRequest(messages=(*earlier, message(9, "user", Text("and now?"))))
    assert summarize(await collect(model, request))["text"] == "first step"


async def test_rules_match_by_system_prompt_and_offered_tool() -> None:
    script = ModelScript(
        rules=(
            ScriptRule((ScriptedText("a title"),), RuleCondition(system="title")),
            ScriptRule((ScriptedCall("bash"),), RuleCondition(offered="bash")),
        ),
        fallback=(ScriptedText("else"),),
    )
    offered = ModelRequest(messages=ASK.messages, tools=(ToolSpec("bash", "", {"type": "object"}),))
    assert summarize(await collect(ScriptedModel(script), ModelRequest(system=("Make a title.",))))["text"] == "a title"
    assert summarize(await collect(ScriptedModel(script), offered))["stop"] == "tool_use"
    assert summarize(await collect(ScriptedModel(script)))["text"] == "else"


async def test_rule_answers_only_as_often_as_it_says() -> None:
    model = ScriptedModel(
        ModelScript(rules=(ScriptRule((ScriptedFailure("overloaded"),), times=1), ScriptRule((ScriptedText("fine"),))))
    )
    with pytest.raises(ModelError):
        await collect(model)
    assert summarize(await collect(model))["text"] == "fine"


async def test_prompt_and_result_are_filled_into_texts_and_arguments() -> None:
    call = ScriptedCall("bash", {"command": "echo {prompt}", "more": ["{result}", 1], "brace": "{other}"})
    found = summarize(
        await collect(
            ScriptedModel(ModelScript(rules=(ScriptRule((call,)),))),
            after(ToolResult("c", "x", text="{prompt}"), prompt="hi"),
        )
    )
    assert found["calls"][0]["arguments"] == {"command": "echo hi", "more": ["{prompt}", 1], "brace": "{other}"}


async def test_failure_ends_the_request_after_the_earlier_deltas() -> None:
    model = ScriptedModel.answering((ScriptedText("half"), ScriptedFailure("rate_limit", "slow down", retry_after=3.0)))
    stream = model.stream(ASK)
    assert await anext(stream) == TextDelta("half")
    with pytest.raises(ModelRateLimit, match="slow down") as raised:
        await anext(stream)
    assert raised.value.retry_after == 3.0


@pytest.mark.parametrize("kind", ModelError.__subclasses__())
async def test_script_can_fail_with_every_error_class(kind: type[ModelError]) -> None:
    with pytest.raises(kind):
        await collect(ScriptedModel.answering(ScriptedFailure(kind.code)))


async def test_barrier_makes_script_and_test_wait_for_each_other() -> None:
    model = ScriptedModel.answering((ScriptedText("before"), ScriptedWait("here"), ScriptedText("after")))
    asking = asyncio.create_task(collect(model))
    await model.barrier("here").reached.wait()
    assert not asking.done()
    model.barrier("here").released.set()
    assert summarize(await asking)["text"] == "beforeafter"


async def test_waiting_at_a_barrier_can_be_cancelled() -> None:
    model = ScriptedModel.answering(ScriptedWait())
    asking = asyncio.create_task(collect(model))
    await model.barrier("hang").reached.wait()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking


async def test_pauses_and_pace_are_slept() -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    actions = (ScriptedPause(2.0), ScriptedText("abcd", chunk=2, pace=0.5))
    await collect(ScriptedModel(ModelScript(answers=(actions,)), sleep=sleep))
    assert slept == [2.0, 0.5, 0.5]


async def test_script_sets_usage_and_stop_reason() -> None:
    reported = Usage(input=1, output=2, cache_read=3)
    model = ScriptedModel.answering((ScriptedUsage(reported), ScriptedStop("refused", "policy")))
    assert await collect(model) == [UsageReport(reported), Stop("refused", "policy")]


TOML = b"""
[[rules]]
when = { step = 0, prompt = "(?i)readme" }
do = [
  { type = "think", text = "I will look." },
  { type = "call", name = "view", arguments = { path = "README.md" } },
]

[[rules]]
when = { step = 1, tool = "view" }
do = [{ type = "pause", seconds = 0 }, { type = "say", text = "It says: {result}", chunk = 4 }]
"""


async def test_script_is_read_from_toml_and_json() -> None:
    script = read_script(TOML, name="demo.toml")
    view = {"type": "call", "name": "view", "arguments": {"path": "README.md"}}
    same = {
        "rules": [
            {"when": {"step": 0, "prompt": "(?i)readme"}, "do": [{"type": "think", "text": "I will look."}, view]},
            {
                "when": {"step": 1, "tool": "view"},
                "do": [{"type": "pause", "seconds": 0}, {"type": "say", "text": "It says: {result}", "chunk": 4}],
            },
        ]
    }
    assert read_script(json.dumps(same).encode(), name="demo.json") == script
    model = ScriptedModel(script)
    assert summarize(await collect(model))["calls"] == [
        {"id": None, "name": "view", "arguments": {"path": "README.md"}}
    ]
    assert summarize(await collect(model, after(ToolResult("c", "view", text="Hi"))))["text"] == "It says: Hi"


@pytest.mark.parametrize(
    ("data", "match"),
    [
        (b"rules = 1", "array"),
        (b"rulez = []", "rulez"),
        (b"[[rules]]\ndo = [{type='sing', text='la'}]", "sing"),
        (b"[[rules]]\ndo = [{type='say', txt='la'}]", "txt"),
        (b"[[rules", "demo.toml"),
        (b"\xff", "demo.toml"),
    ],
)
def test_error_of_an_invalid_script_names_the_mistake(data: bytes, match: str) -> None:
    with pytest.raises(ConfigError, match=match):
        read_script(data, name="demo.toml")


def test_mistakes_are_found_when_the_model_is_created() -> None:
    with pytest.raises(ConfigError, match="not a regular expression"):
        ScriptedModel(ModelScript(rules=(ScriptRule((ScriptedText("x"),), RuleCondition(prompt="(")),)))
    with pytest.raises(ConfigError, match="known: auth, context"):
        ScriptedModel.answering(ScriptedFailure("bored"))
