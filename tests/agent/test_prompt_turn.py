"""The turn of a prompt: steps, steers, limits, cancel and outcome."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.agent.tool_calls import NOT_RUN
from holdfast.models.model_script import (
    ScriptedCall,
    ScriptedStop,
    ScriptedText,
    ScriptedUsage,
    ScriptedWait,
)
from holdfast.schema.events import (
    MessageFinished,
    RunFinished,
    RunJoined,
    RunStarted,
)
from holdfast.schema.messages import Context, Finish, Notice, Text, text_of
from holdfast.schema.usage import Usage
from holdfast.tools.protocol import ToolContext as ToolContext
from tests.support.real_turns import (
    complete_run,
    finish_part,
    open_turns,
    scripted_model,
    tool_results,
    turn_limits,
)


async def test_a_prompt_is_answered_and_stored(tmp_path: Path) -> None:
    async with open_turns(tmp_path, scripted_model("hello there")) as harness:
        run = await complete_run(harness)
        assert (run.state, run.reason, run.text, run.steps) == ("completed", "end_turn", "hello there", 1)
        user, assistant = await harness.messages()
        assert isinstance(user.parts[0], Context)
        assert text_of(user.parts) == "do it"
        assert assistant.parts == (Text("hello there"), Finish("end_turn"))
        assert run.message_id == assistant.id
        assert run.usage.output > 0


async def test_the_last_message_is_finished_before_the_run(tmp_path: Path) -> None:
    async with open_turns(tmp_path, scripted_model((ScriptedCall("echo", {"word": "a"}),), "done")) as harness:
        await complete_run(harness)
        kinds = [type(event) for event in await harness.events("ses_1")]
        assert kinds.index(RunStarted) < kinds.index(MessageFinished)
        assert max(i for i, kind in enumerate(kinds) if kind is MessageFinished) < kinds.index(RunFinished)


async def test_a_non_interactive_run_that_ends_after_a_denial_fails_as_denied(tmp_path: Path) -> None:
    async with open_turns(tmp_path, scripted_model((ScriptedCall("echo", {"word": "a"}),), "I could not")) as harness:
        harness.turns.approver.denied.add("echo")
        run = await harness.ended(await harness.accept("go", interactive=False))
        assert (run.state, run.reason, run.text) == ("failed", "denied", "I could not")


@pytest.mark.promise("R6")
async def test_steers_join_at_the_boundary_and_stay_in_the_turn(tmp_path: Path) -> None:
    scripted = scripted_model(
        (ScriptedCall("gated", {"word": "x"}),), (ScriptedCall("echo", {"word": "b"}),), "both done"
    )
    async with open_turns(tmp_path, scripted) as harness:
        host = await harness.accept("first")
        await harness.gates.arrived("x")
        steer = await harness.accept("second", delivery="steer")
        third = await harness.accept("third", delivery="steer")
        assert (steer.decision, steer.host_run_id) == ("steered", host.run.id)
        harness.gates.open("x")
        run = await harness.ended(host)
        joined = [await harness.ended(steer), await harness.ended(third)]
        assert [one.state for one in joined] == ["completed", "completed"]
        assert {one.host_run_id for one in joined} == {run.id}
        for request in list(scripted.requests)[1:]:
            said = [text_of(message.parts) for message in request.messages if message.role == "user"]
            assert [words.split("\n")[-1] for words in said] == ["first", "second", "third"]


@pytest.mark.promise("R6")
async def test_a_steer_during_the_last_step_continues_the_turn(tmp_path: Path) -> None:
    scripted = scripted_model((ScriptedText("nearly"), ScriptedWait("end")), "and more")
    async with open_turns(tmp_path, scripted) as harness:
        host = await harness.accept("first")
        await scripted.barrier("end").reached.wait()
        steer = await harness.accept("second", delivery="steer")
        scripted.barrier("end").released.set()
        run = await harness.ended(host)
        assert (run.text, run.steps) == ("and more", 2)
        assert (await harness.ended(steer)).host_run_id == run.id
        kinds = [type(event) for event in await harness.events("ses_1")]
        assert kinds.count(RunFinished) == 2
        assert kinds.count(RunJoined) == 1


async def test_the_end_of_an_answer_that_is_cancelled_needs_no_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The turn knows what it leaves open: a read would delay the end that everybody waits for."""
    scripted = scripted_model((ScriptedText("half an "), ScriptedWait("mid"), ScriptedText("answer")))
    async with open_turns(tmp_path, scripted) as harness:
        accepted = await harness.accept("first")
        await scripted.barrier("mid").reached.wait()
        reads: list[object] = []
        with monkeypatch.context() as patched:
            patched.setattr(harness.store, "_read", reads.append)
            await harness.engine.cancel_session("ses_1")
        assert not reads
        assert (await harness.ended(accepted)).text == "half an "


@pytest.mark.promise("C5", "C6", "R7", "R8")
async def test_a_cancel_during_the_stream_keeps_the_text_and_a_valid_history(tmp_path: Path) -> None:
    scripted = scripted_model((ScriptedText("half an "), ScriptedWait("mid"), ScriptedText("answer")), "next answer")
    async with open_turns(tmp_path, scripted) as harness:
        accepted = await harness.accept("first")
        await scripted.barrier("mid").reached.wait()
        receipt = await harness.engine.cancel_session("ses_1")
        (covered,) = receipt.runs
        assert (covered.ended_as, covered.was) == ("cancelled", "active")
        run = await harness.ended(accepted)
        assert (run.state, run.reason, run.text) == ("cancelled", "user_cancel", "half an ")
        _, assistant = await harness.messages()
        assert assistant.parts == (Text("half an "), Finish("cancelled"))
        again = await complete_run(harness, "second")
        assert again.state == "completed"
        assert [text_of(m.parts) for m in scripted.requests[1].messages if m.role == "assistant"] == ["half an "]


@pytest.mark.promise("R12")
async def test_the_step_limit_ends_a_run_with_its_reason(tmp_path: Path) -> None:
    call = (ScriptedCall("echo", {"word": "a"}), ScriptedUsage(Usage(input=1, output=1)))
    async with open_turns(tmp_path, scripted_model(*[call] * 5)) as harness:
        harness.turns.limits = turn_limits(max_steps=2)
        run = await complete_run(harness)
        assert (run.state, run.reason, run.steps) == ("failed", "limit_steps", 2)
        assert run.error is not None
        assert "2 steps" in run.error.message
        assert finish_part((await harness.messages())[-1]).reason == "limit"


@pytest.mark.promise("R12")
async def test_the_time_limit_stops_running_tools_and_is_the_reason(tmp_path: Path) -> None:
    async with open_turns(tmp_path, scripted_model((ScriptedCall("killed", {"word": "k"}),))) as harness:
        harness.turns.limits = turn_limits(max_steps=5, max_seconds=60)
        accepted = await harness.accept()
        await harness.gates.arrived("k")
        harness.turns.clock.run_out()
        run = await harness.ended(accepted)
        assert (run.state, run.reason) == ("failed", "limit_time")
        assert [(result.status, result.text) for result in tool_results(await harness.messages())] == [
            ("cancelled", "killed it")
        ]


@pytest.mark.promise("R12")
async def test_a_loop_ends_the_run(tmp_path: Path) -> None:
    async with open_turns(tmp_path, scripted_model(*[(ScriptedCall("echo", {"word": "same"}),)] * 20)) as harness:
        run = await complete_run(harness)
        assert (run.state, run.reason) == ("failed", "loop")
        assert run.steps == 8
        notices = [part for message in await harness.messages() for part in message.parts if isinstance(part, Notice)]
        assert [(notice.code, notice.for_model) for notice in notices] == [("loop", True)]


async def test_a_refusal_fails_with_its_reason(tmp_path: Path) -> None:
    refusal = (ScriptedText("no"), ScriptedStop("refused", "policy"))
    async with open_turns(tmp_path, scripted_model(refusal)) as harness:
        run = await complete_run(harness)
        assert (run.state, run.reason) == ("failed", "refused")


@pytest.mark.promise("R12")
async def test_a_cancel_while_an_answer_is_continued_keeps_all_of_its_text(tmp_path: Path) -> None:
    scripted = scripted_model(
        (ScriptedText("one "), ScriptedStop("max_tokens")),
        (ScriptedText("two "), ScriptedStop("max_tokens")),
        (ScriptedText("three"), ScriptedWait("mid")),
    )
    async with open_turns(tmp_path, scripted) as harness:
        accepted = await harness.accept("count")
        await scripted.barrier("mid").reached.wait()
        await harness.engine.cancel_session("ses_1")
        run = await harness.ended(accepted)
        assert (run.state, run.text, run.steps) == ("cancelled", "one two three", 3)


@pytest.mark.promise("R12")
async def test_after_the_time_limit_the_model_says_where_things_stand(tmp_path: Path) -> None:
    scripted = scripted_model((ScriptedText("first"), ScriptedCall("killed", {"word": "k"})), "It is half done.")
    async with open_turns(tmp_path, scripted) as harness:
        harness.turns.limits = turn_limits(max_steps=5, max_seconds=60)
        accepted = await harness.accept()
        await harness.gates.arrived("k")
        harness.turns.clock.run_out()
        run = await harness.ended(accepted)
        assert (run.state, run.reason, run.text, run.steps) == ("failed", "limit_time", "It is half done.", 1)
        last = scripted.requests[-1]
        assert not last.may_call
        assert [message.role for message in last.messages] == ["user", "assistant", "tool", "user"]
        assert "The run ends now: the run took longer than 60 s." in text_of(last.messages[-1].parts)


@pytest.mark.promise("R12", "C7")
async def test_a_cut_answer_is_stored_before_the_last_one_and_a_cancel_ends_that_too(tmp_path: Path) -> None:
    scripted = scripted_model((ScriptedText("half"), ScriptedWait("mid")), (ScriptedText("It"), ScriptedWait("last")))
    async with open_turns(tmp_path, scripted) as harness:
        harness.turns.limits = turn_limits(max_steps=5, max_seconds=60)
        accepted = await harness.accept()
        await scripted.barrier("mid").reached.wait()
        harness.turns.clock.run_out()
        await scripted.barrier("last").reached.wait()
        (line,) = (await harness.engine.cancel_session("ses_1")).runs
        assert line.ended_as == "cancelled"
        run = await harness.ended(accepted)
        assert (run.state, run.text, run.steps) == ("cancelled", "It", 1)
        _, cut, last = await harness.messages()
        assert cut.parts == (Text("half"), Finish("limit", "the run took longer than 60 s"))
        assert last.parts == (Text("It"), Finish("cancelled"))


@pytest.mark.promise("R11")
async def test_the_output_schema_of_a_run_does_not_affect_the_next(tmp_path: Path) -> None:
    schema = {"type": "object"}
    scripted = scripted_model("{}", "plain")
    async with open_turns(tmp_path, scripted) as harness:
        await harness.ended(await harness.accept("first", output_schema=schema))
        await complete_run(harness)
        assert [request.output_schema for request in scripted.requests] == [schema, None]


@pytest.mark.promise("R6", "R12")
async def test_waiting_steers_are_queued_if_a_limit_forbids_another_step(tmp_path: Path) -> None:
    scripted = scripted_model(
        (ScriptedCall("gated", {"word": "x"}),),
        "where things stand",
        "the steer's own answer",
        (ScriptedText("last"), ScriptedWait("end")),
        "own again",
    )
    async with open_turns(tmp_path, scripted) as harness:
        harness.turns.limits = turn_limits(max_steps=1)
        host = await harness.accept("first")
        await harness.gates.arrived("x")
        steer = await harness.accept("second", delivery="steer")
        harness.gates.open("x")
        assert (await harness.ended(host)).reason == "limit_steps"
        alone = await harness.ended(steer)
        assert (alone.state, alone.text, alone.host_run_id) == ("completed", "the steer's own answer", None)
        third = await harness.accept("third")
        await scripted.barrier("end").reached.wait()
        steer = await harness.accept("fourth", delivery="steer")
        scripted.barrier("end").released.set()
        assert ((await harness.ended(third)).state, (await harness.ended(third)).text) == ("completed", "last")
        alone = await harness.ended(steer)
        assert (alone.state, alone.text, alone.host_run_id) == ("completed", "own again", None)


async def test_an_answer_that_stops_for_tools_without_calls_ends_the_turn(tmp_path: Path) -> None:
    async with open_turns(tmp_path, scripted_model((ScriptedText("hm"), ScriptedStop("tool_use")))) as harness:
        run = await complete_run(harness)
        assert (run.state, run.reason) == ("completed", "end_turn")
        assert finish_part((await harness.messages())[-1]).reason == "end_turn"


async def test_the_calls_of_a_refused_answer_are_not_run(tmp_path: Path) -> None:
    async with open_turns(
        tmp_path, scripted_model((ScriptedCall("echo", {"word": "a"}), ScriptedStop("refused", "policy")), "next")
    ) as harness:
        run = await complete_run(harness)
        assert (run.state, run.reason) == ("failed", "refused")
        (result,) = tool_results(await harness.messages())
        assert (result.status, result.text) == ("cancelled", NOT_RUN)
        assert harness.tools["echo"].ran == {}
        assert (await complete_run(harness)).state == "completed"
