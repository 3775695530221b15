"""The calls of a step: order, approval, cancel, results, sub-agents and progress."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from holdfast.errors import NotFound
from holdfast.ids import rfc3339
from holdfast.models.model_script import (
    ScriptedCall,
    ScriptedReasoning,
    ScriptedText,
    ScriptedWait,
)
from holdfast.runs.turn_handle import EngineTurnHandle
from holdfast.schema.messages import Finish, Reasoning, Text, ToolCall
from holdfast.tools.protocol import ToolContext as ToolContext
from holdfast.tools.protocol import ToolOutput
from tests.support.real_turns import (
    Echo,
    Word,
    complete_run,
    finish_part,
    open_turns,
    scripted_model,
    tool_results,
)


async def test_tools_run_and_their_results_are_sent_to_the_model(tmp_path: Path) -> None:
    scripted = scripted_model(
        (
            ScriptedReasoning("hm"),
            ScriptedText("I look."),
            ScriptedCall("echo", {"word": "a"}),
            ScriptedCall("echo", {"word": "b"}),
        ),
        "done",
    )
    async with open_turns(tmp_path, scripted) as harness:
        run = await complete_run(harness)
        assert (run.state, run.text, run.steps) == ("completed", "done", 2)
        _, asked, answered, last = await harness.messages()
        assert [type(part) for part in asked.parts] == [Reasoning, Text, ToolCall, ToolCall, Finish]
        assert finish_part(asked).reason == "tool_use"
        assert [result.text for result in tool_results((answered,))] == ["echo a", "echo b"]
        assert last.parts[0] == Text("done")
        second = scripted.requests[1]
        assert [message.role for message in second.messages] == ["user", "assistant", "tool"]


async def test_an_error_of_a_tool_is_a_result_and_the_run_continues(tmp_path: Path) -> None:
    scripted = scripted_model(
        (
            ScriptedCall("broken", {"word": "tool"}),
            ScriptedCall("broken", {"word": "bug"}),
            ScriptedCall("nothere"),
            ScriptedCall("echo", {"wrong": 1}),
            ScriptedCall("echo", raw="{not json"),
        ),
        "I see",
    )
    async with open_turns(tmp_path, scripted) as harness:
        run = await complete_run(harness)
        assert run.state == "completed"
        said = [result.text for result in tool_results(await harness.messages())]
        assert said[0] == "it cannot be done"
        assert "ZeroDivisionError" in said[1]
        assert "no tool 'nothere'" in said[2]
        assert "bad arguments" in said[3]
        assert "not a JSON object" in said[4]
        assert {result.status for result in tool_results(await harness.messages())} == {"error"}


async def test_the_result_of_a_denied_call_has_the_reason(tmp_path: Path) -> None:
    async with open_turns(
        tmp_path, scripted_model((ScriptedCall("echo", {"word": "a"}),), "fine, another way")
    ) as harness:
        harness.turns.approver.denied.add("echo")
        run = await complete_run(harness)
        (result,) = tool_results(await harness.messages())
        assert (result.status, result.text) == ("denied", "denied: not today")
        assert run.state == "completed"
        assert harness.tools["echo"].ran == {}


async def test_parallel_calls_run_together_and_other_calls_wait_for_all_before_them(tmp_path: Path) -> None:
    scripted = scripted_model(
        (
            ScriptedCall("gated", {"word": "x"}),
            ScriptedCall("gated", {"word": "y"}),
            ScriptedCall("alone", {"word": "z"}),
        ),
        "ok",
    )
    async with open_turns(tmp_path, scripted) as harness:
        accepted = await harness.accept()
        await harness.gates.arrived("x")
        await harness.gates.arrived("y")
        assert not harness.gates.has_arrived("z")
        harness.gates.open("y")
        harness.gates.open("x")
        await harness.gates.arrived("z")
        harness.gates.open("z")
        await harness.ended(accepted)
        assert [result.text for result in tool_results(await harness.messages())] == [
            "passed x",
            "passed y",
            "passed z",
        ]


@pytest.mark.promise("C3", "C7", "C8")
async def test_a_cancel_reaches_every_tool_and_the_receipt_names_what_was_killed(tmp_path: Path) -> None:
    scripted = scripted_model(
        (
            ScriptedCall("echo", {"word": "a"}),
            ScriptedCall("killed", {"word": "k"}),
            ScriptedCall("gated", {"word": "g"}),
        ),
        "next",
    )
    async with open_turns(tmp_path, scripted) as harness:
        await harness.accept("first")
        await harness.gates.arrived("k")
        await harness.gates.arrived("g")
        receipt = await harness.engine.cancel_session("ses_1")
        (covered,) = receipt.runs
        assert covered.ended_as == "cancelled"
        assert covered.killed == ("sleep 100",)
        assert covered.doing is not None
        assert covered.doing.phase == "tool"
        by_name = {result.name: result for result in tool_results(await harness.messages())}
        assert by_name["echo"].status == "ok"
        assert by_name["killed"].status == "cancelled"
        assert by_name["gated"].status == "cancelled"
        assert (await complete_run(harness, "again")).state == "completed"


@pytest.mark.promise("C8")
async def test_a_cancel_ends_the_wait_for_an_approval(tmp_path: Path) -> None:
    async with open_turns(tmp_path, scripted_model((ScriptedCall("echo", {"word": "a"}),))) as harness:
        harness.turns.approver.asking.add("echo")
        accepted = await harness.accept()
        await harness.gates.arrived("approval:a")
        now = (await harness.engine.get_run(accepted.run.id)).now
        assert now is not None
        assert (now.phase, now.what) == ("approval", "echo: a")
        receipt = await harness.engine.cancel_session("ses_1")
        assert receipt.runs[0].ended_as == "cancelled"
        assert harness.tools["echo"].ran == {}


async def test_secrets_are_redacted_in_results(tmp_path: Path) -> None:
    async with open_turns(tmp_path, scripted_model((ScriptedCall("echo", {"word": "s3cret"}),), "ok")) as harness:
        await complete_run(harness)
        (result,) = tool_results(await harness.messages())
        assert result.text == "echo [redacted]"


@pytest.mark.promise("C3", "C8")
async def test_a_sub_agent_is_cancelled_with_its_parent(tmp_path: Path) -> None:
    scripted = scripted_model(
        (ScriptedCall("subagent", {"word": "look"}),), (ScriptedText("looking"), ScriptedWait("child"))
    )
    async with open_turns(tmp_path, scripted) as harness:
        await harness.accept("first")
        await scripted.barrier("child").reached.wait()
        (asked,) = [m for m in await harness.messages() if any(isinstance(p, ToolCall) for p in m.parts)]
        (call,) = [part for part in asked.parts if isinstance(part, ToolCall)]
        assert call.child_session_id is not None
        receipt = await harness.engine.cancel_session("ses_1")
        assert {run.session_id for run in receipt.runs} == {"ses_1", call.child_session_id}
        assert {run.ended_as for run in receipt.runs} == {"cancelled"}
        child = (await harness.store.messages(call.child_session_id, limit=10)).items
        assert child[-1].parts == (Text("looking"), Finish("cancelled"))


async def test_the_answer_of_a_sub_agent_is_the_result_of_its_call(tmp_path: Path) -> None:
    scripted = scripted_model((ScriptedCall("subagent", {"word": "look"}),), "found it", "thanks")
    async with open_turns(tmp_path, scripted) as harness:
        run = await complete_run(harness)
        assert run.text == "thanks"
        (result,) = tool_results(await harness.messages())
        assert result.text == "found it"


async def test_the_progress_shows_what_the_step_waits_for(tmp_path: Path) -> None:
    scripted = scripted_model(
        (
            ScriptedCall("gated", {"word": "x"}),
            ScriptedCall("gated", {"word": "y"}),
            ScriptedCall("echo", {"word": "e"}),
        ),
        "ok",
    )
    async with open_turns(tmp_path, scripted) as harness:
        harness.turns.approver.asking.add("echo")
        accepted = await harness.accept()

        def now() -> tuple[str, str]:
            shown = harness.engine.with_live_state(accepted.run).now
            return (shown.phase, shown.what) if shown else ("", "")

        await harness.gates.arrived("approval:e")
        await harness.gates.arrived("y")
        assert now() == ("approval", "echo: e")
        harness.gates.open("approval:e")
        await harness.until(lambda: now() == ("tool", "gated: y"))
        since = harness.engine.with_live_state(accepted.run).now
        harness.gates.open("y")
        await harness.until(lambda: now() == ("tool", "gated: x"))
        later = harness.engine.with_live_state(accepted.run).now
        assert since is not None
        assert later is not None
        assert later.since <= since.since, "it has been waited for since it began, not since it is told"
        harness.gates.open("x")
        assert (await harness.ended(accepted)).now is None


async def test_the_progress_of_a_call_is_told_when_it_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = itertools.count(1_800_000_000)
    monkeypatch.setattr(EngineTurnHandle, "now", lambda self: rfc3339(next(seconds)))
    scripted = scripted_model((ScriptedCall("echo", {"word": "e"}),), "ok")
    async with open_turns(tmp_path, scripted) as harness:
        told: list[tuple[str, str]] = []
        harness.hub.observe_progress(lambda run_id, now: told.append((now.phase, now.what)))
        await complete_run(harness)
        assert [now for now in told if now[0] == "tool"] == [("tool", "echo"), ("tool", "echo: e")]


async def test_secrets_are_redacted_in_errors_displays_and_progress(tmp_path: Path) -> None:
    class Leaking(Echo):
        name = "leaking"

        async def act(self, arguments: Word, context: ToolContext) -> ToolOutput:
            await self.gates.pass_through("leak")
            return ToolOutput("s3cret", display={"diff": "+s3cret", "lines": ["s3cret", 1]})

    class Failing(Echo):
        name = "failing"

        async def act(self, arguments: Word, context: ToolContext) -> ToolOutput:
            raise NotFound("there is no s3cret here")

    async with open_turns(
        tmp_path, scripted_model((ScriptedCall("leaking", {"word": "s3cret"}), ScriptedCall("failing")), "ok")
    ) as harness:
        harness.tools["leaking"], harness.tools["failing"] = Leaking(harness.gates), Failing(harness.gates)
        accepted = await harness.accept()
        await harness.gates.arrived("leak")
        now = harness.engine.with_live_state(accepted.run).now
        assert now is not None
        assert now.what == "leaking: [redacted]"
        harness.gates.open("leak")
        assert (await harness.ended(accepted)).state == "completed"
        leaked, failed = tool_results(await harness.messages())
        assert leaked.display == {"diff": "+[redacted]", "lines": ["[redacted]", 1]}
        assert (failed.status, failed.text) == ("error", "there is no [redacted] here")
