"""The scripted model is a real model, and a script is data that anybody can write."""

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
    ToolSpec,
    UsageReport,
)
from holdfast.models.scripted_model import ScriptedModel
from holdfast.schema.messages import Message, Text, ToolCall, ToolResult
from holdfast.schema.usage import Usage
from tests.models.requests import message
from tests.models.support import told

ASK = ModelRequest(messages=(message(1, "user", Text("Where is the README?")),))


async def asked(model: ScriptedModel, request: ModelRequest = ASK) -> list[ModelDelta]:
    return [delta async for delta in model.stream(request)]


def after(*results: ToolResult, prompt: str = "look") -> ModelRequest:
    """A request after one step for each result."""
    messages: list[Message] = [message(1, "user", Text(prompt))]
    for number, result in enumerate(results):
        messages.append(message(2 * number + 2, "assistant", ToolCall(result.call_id, result.name)))
        messages.append(message(2 * number + 3, "tool", result))
    return ModelRequest(messages=tuple(messages))


async def test_without_a_script_it_answers_any_prompt_in_text() -> None:
    found = told(await asked(ScriptedModel()))
    assert "Where is the README?" in found["text"]
    assert found["stop"] == "end_turn"


async def test_acts_become_deltas_in_order() -> None:
    model = ScriptedModel.answering(
        (
            ScriptedReasoning("Hm.", chunk=2),
            ScriptedText("I look.", chunk=0),
            ScriptedCall("view", {"path": "a"}, chunk=5),
        )
    )
    *deltas, usage, stop = await asked(model)
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


async def test_answers_are_used_up_in_order_then_the_rules_speak() -> None:
    script = ModelScript(
        answers=((ScriptedText("one"),), (ScriptedText("two"),)), rules=(ScriptRule((ScriptedText("three"),)),)
    )
    model = ScriptedModel(script)
    assert [told(await asked(model))["text"] for _ in range(4)] == ["one", "two", "three", "three"]
    assert len(model.requests) == 4


async def test_rules_are_chosen_by_the_step_and_by_what_the_last_tool_said() -> None:
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
    assert told(await asked(model, after()))["calls"][0]["name"] == "ls"
    assert told(await asked(model, after(found)))["text"] == "found: README.md"
    assert told(await asked(model, after(failed)))["text"] == "it failed"
    assert told(await asked(model, after(found, found)))["text"] == "later"
    assert told(await asked(model, ASK))["text"] == "else"


async def test_a_new_prompt_starts_the_steps_again() -> None:
    model = ScriptedModel(ModelScript(rules=(ScriptRule((ScriptedText("first step"),), RuleCondition(step=0)),)))
    earlier = after(ToolResult("c", "ls", text="x")).messages
    request = ModelRequest(messages=(*earlier, message(9, "user", Text("and now?"))))
    assert told(await asked(model, request))["text"] == "first step"


async def test_rules_can_ask_for_a_system_prompt_and_a_tool_on_offer() -> None:
    script = ModelScript(
        rules=(
            ScriptRule((ScriptedText("a title"),), RuleCondition(system="title")),
            ScriptRule((ScriptedCall("bash"),), RuleCondition(offered="bash")),
        ),
        fallback=(ScriptedText("else"),),
    )
    offered = ModelRequest(messages=ASK.messages, tools=(ToolSpec("bash", "", {"type": "object"}),))
    assert told(await asked(ScriptedModel(script), ModelRequest(system=("Make a title.",))))["text"] == "a title"
    assert told(await asked(ScriptedModel(script), offered))["stop"] == "tool_use"
    assert told(await asked(ScriptedModel(script)))["text"] == "else"


async def test_a_rule_can_be_used_up() -> None:
    model = ScriptedModel(
        ModelScript(rules=(ScriptRule((ScriptedFailure("overloaded"),), times=1), ScriptRule((ScriptedText("fine"),))))
    )
    with pytest.raises(ModelError):
        await asked(model)
    assert told(await asked(model))["text"] == "fine"


async def test_words_of_the_conversation_are_put_into_texts_and_arguments() -> None:
    act = ScriptedCall("bash", {"command": "echo {prompt}", "more": ["{result}", 1], "brace": "{other}"})
    found = told(
        await asked(
            ScriptedModel(ModelScript(rules=(ScriptRule((act,)),))),
            after(ToolResult("c", "x", text="{prompt}"), prompt="hi"),
        )
    )
    assert found["calls"][0]["arguments"] == {"command": "echo hi", "more": ["{prompt}", 1], "brace": "{other}"}


async def test_an_error_ends_the_request_after_what_was_said() -> None:
    model = ScriptedModel.answering((ScriptedText("half"), ScriptedFailure("rate_limit", "slow down", retry_after=3.0)))
    stream = model.stream(ASK)
    assert await anext(stream) == TextDelta("half")
    with pytest.raises(ModelRateLimit, match="slow down") as raised:
        await anext(stream)
    assert raised.value.retry_after == 3.0


@pytest.mark.parametrize("kind", ModelError.__subclasses__())
async def test_it_can_fail_with_every_class(kind: type[ModelError]) -> None:
    with pytest.raises(kind):
        await asked(ScriptedModel.answering(ScriptedFailure(kind.code)))


async def test_a_test_can_wait_for_the_script_and_the_script_for_the_test() -> None:
    model = ScriptedModel.answering((ScriptedText("before"), ScriptedWait("here"), ScriptedText("after")))
    asking = asyncio.create_task(asked(model))
    await model.barrier("here").reached.wait()
    assert not asking.done()
    model.barrier("here").released.set()
    assert told(await asking)["text"] == "beforeafter"


async def test_waiting_can_be_cancelled() -> None:
    model = ScriptedModel.answering(ScriptedWait())
    asking = asyncio.create_task(asked(model))
    await model.barrier("hang").reached.wait()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking


async def test_pauses_and_pace_are_kept() -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    acts = (ScriptedPause(2.0), ScriptedText("abcd", chunk=2, pace=0.5))
    await asked(ScriptedModel(ModelScript(answers=(acts,)), sleep=sleep))
    assert slept == [2.0, 0.5, 0.5]


async def test_usage_and_the_end_can_be_said() -> None:
    told_usage = Usage(input=1, output=2, cache_read=3)
    model = ScriptedModel.answering((ScriptedUsage(told_usage), ScriptedStop("refused", "policy")))
    assert await asked(model) == [UsageReport(told_usage), Stop("refused", "policy")]


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


async def test_a_script_can_be_written_as_toml_or_json() -> None:
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
    assert told(await asked(model))["calls"] == [{"id": None, "name": "view", "arguments": {"path": "README.md"}}]
    assert told(await asked(model, after(ToolResult("c", "view", text="Hi"))))["text"] == "It says: Hi"


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"rules = 1", "array"),
        (b"rulez = []", "rulez"),
        (b"[[rules]]\ndo = [{type='sing', text='la'}]", "sing"),
        (b"[[rules]]\ndo = [{type='say', txt='la'}]", "txt"),
        (b"[[rules", "demo.toml"),
        (b"\xff", "demo.toml"),
    ],
)
def test_a_wrong_script_says_what_is_wrong(data: bytes, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        read_script(data, name="demo.toml")


def test_mistakes_are_found_before_the_model_is_asked() -> None:
    with pytest.raises(ConfigError, match="no regular expression"):
        ScriptedModel(ModelScript(rules=(ScriptRule((ScriptedText("x"),), RuleCondition(prompt="(")),)))
    with pytest.raises(ConfigError, match="known: auth, context"):
        ScriptedModel.answering(ScriptedFailure("bored"))
