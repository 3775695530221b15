"""The real turn on a real ledger, with the scripted model and small tools."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from holdfast.agent.system_prompt import Instructions
from holdfast.agent.tool_calls import NOT_RUN
from holdfast.errors import NotFound
from holdfast.models.model_script import (
    ModelScript,
    ScriptAction,
    ScriptedCall,
    ScriptedFailure,
    ScriptedReasoning,
    ScriptedStop,
    ScriptedText,
    ScriptedUsage,
    ScriptedWait,
)
from holdfast.models.protocol import ModelInfo, UsageReport
from holdfast.models.scripted_model import ScriptedModel
from holdfast.schema.events import (
    MessageFinished,
    MessageUpdated,
    RunFinished,
    RunJoined,
    RunRetrying,
    RunStarted,
    SessionUpdated,
)
from holdfast.schema.messages import Context, Finish, Message, Reasoning, Summary, Text, ToolCall, ToolResult, text_of
from holdfast.schema.runs import Run
from holdfast.schema.usage import Usage
from holdfast.tools.protocol import ToolContext as ToolContext
from holdfast.tools.protocol import ToolOutput
from tests.support.real_turns import Echo, TurnHarness, Word, open_turns, turn_limits

Answers = str | ScriptAction | tuple[ScriptAction, ...]


def model(*answers: Answers, **info: int) -> ScriptedModel:
    return ScriptedModel.answering(*answers, info=ModelInfo("offline/test", **info))


def results(messages: tuple[Message, ...]) -> list[ToolResult]:
    return [part for message in messages for part in message.parts if isinstance(part, ToolResult)]


def finish(message: Message) -> Finish:
    assert isinstance(message.parts[-1], Finish)
    return message.parts[-1]


async def one_run(house: TurnHarness, prompt: str = "do it") -> Run:
    return await house.ended(await house.accept(prompt))


async def test_a_prompt_is_answered_and_stored(tmp_path: Path) -> None:
    async with open_turns(tmp_path, model("hello there")) as house:
        run = await one_run(house)
        assert (run.state, run.reason, run.text, run.steps) == ("completed", "end_turn", "hello there", 1)
        user, assistant = await house.messages()
        assert isinstance(user.parts[0], Context)
        assert text_of(user.parts) == "do it"
        assert assistant.parts == (Text("hello there"), Finish("end_turn"))
        assert run.message_id == assistant.id
        assert run.usage.output > 0


async def test_tools_run_and_their_results_go_back_to_the_model(tmp_path: Path) -> None:
    brain = model(
        (
            ScriptedReasoning("hm"),
            ScriptedText("I look."),
            ScriptedCall("echo", {"word": "a"}),
            ScriptedCall("echo", {"word": "b"}),
        ),
        "done",
    )
    async with open_turns(tmp_path, brain) as house:
        run = await one_run(house)
        assert (run.state, run.text, run.steps) == ("completed", "done", 2)
        _, asked, answered, last = await house.messages()
        assert [type(part) for part in asked.parts] == [Reasoning, Text, ToolCall, ToolCall, Finish]
        assert finish(asked).reason == "tool_use"
        assert [result.text for result in results((answered,))] == ["echo a", "echo b"]
        assert last.parts[0] == Text("done")
        second = brain.requests[1]
        assert [message.role for message in second.messages] == ["user", "assistant", "tool"]


async def test_the_last_message_update_comes_before_the_end(tmp_path: Path) -> None:
    async with open_turns(tmp_path, model((ScriptedCall("echo", {"word": "a"}),), "done")) as house:
        await one_run(house)
        kinds = [type(event) for event in await house.events("ses_1")]
        assert kinds.index(RunStarted) < kinds.index(MessageFinished)
        assert max(i for i, kind in enumerate(kinds) if kind is MessageFinished) < kinds.index(RunFinished)


async def test_errors_of_tools_are_results_and_the_run_goes_on(tmp_path: Path) -> None:
    brain = model(
        (
            ScriptedCall("broken", {"word": "tool"}),
            ScriptedCall("broken", {"word": "bug"}),
            ScriptedCall("nothere"),
            ScriptedCall("echo", {"wrong": 1}),
            ScriptedCall("echo", raw="{not json"),
        ),
        "I see",
    )
    async with open_turns(tmp_path, brain) as house:
        run = await one_run(house)
        assert run.state == "completed"
        said = [result.text for result in results(await house.messages())]
        assert said[0] == "it cannot be done"
        assert "ZeroDivisionError" in said[1]
        assert "no tool 'nothere'" in said[2]
        assert "bad arguments" in said[3]
        assert "not a JSON object" in said[4]
        assert {result.status for result in results(await house.messages())} == {"error"}


async def test_a_denied_call_is_told_to_the_model_with_the_reason(tmp_path: Path) -> None:
    async with open_turns(tmp_path, model((ScriptedCall("echo", {"word": "a"}),), "fine, another way")) as house:
        house.turns.approver.denied.add("echo")
        run = await one_run(house)
        (result,) = results(await house.messages())
        assert (result.status, result.text) == ("denied", "denied: not today")
        assert run.state == "completed"
        assert house.tools["echo"].ran == {}


async def test_a_run_nobody_can_answer_that_gives_up_after_a_denial_says_so(tmp_path: Path) -> None:
    async with open_turns(tmp_path, model((ScriptedCall("echo", {"word": "a"}),), "I could not")) as house:
        house.turns.approver.denied.add("echo")
        run = await house.ended(await house.accept("go", interactive=False))
        assert (run.state, run.reason, run.text) == ("failed", "denied", "I could not")


async def test_parallel_calls_run_side_by_side_and_others_wait_for_all_before_them(tmp_path: Path) -> None:
    brain = model(
        (
            ScriptedCall("gated", {"word": "x"}),
            ScriptedCall("gated", {"word": "y"}),
            ScriptedCall("alone", {"word": "z"}),
        ),
        "ok",
    )
    async with open_turns(tmp_path, brain) as house:
        accepted = await house.accept()
        await house.gates.arrived("x")
        await house.gates.arrived("y")
        assert not house.gates.has_arrived("z")
        house.gates.open("y")
        house.gates.open("x")
        await house.gates.arrived("z")
        house.gates.open("z")
        await house.ended(accepted)
        assert [result.text for result in results(await house.messages())] == ["passed x", "passed y", "passed z"]


@pytest.mark.promise("R6")
async def test_steers_join_at_the_boundary_and_stay_in_the_turn(tmp_path: Path) -> None:
    brain = model((ScriptedCall("gated", {"word": "x"}),), (ScriptedCall("echo", {"word": "b"}),), "both done")
    async with open_turns(tmp_path, brain) as house:
        host = await house.accept("first")
        await house.gates.arrived("x")
        steer = await house.accept("second", delivery="steer")
        third = await house.accept("third", delivery="steer")
        assert (steer.decision, steer.host_run_id) == ("steered", host.run.id)
        house.gates.open("x")
        run = await house.ended(host)
        joined = [await house.ended(steer), await house.ended(third)]
        assert [one.state for one in joined] == ["completed", "completed"]
        assert {one.host_run_id for one in joined} == {run.id}
        for request in list(brain.requests)[1:]:
            said = [text_of(message.parts) for message in request.messages if message.role == "user"]
            assert [words.split("\n")[-1] for words in said] == ["first", "second", "third"]


@pytest.mark.promise("R6")
async def test_a_steer_that_comes_as_the_turn_ends_goes_on_in_that_turn(tmp_path: Path) -> None:
    brain = model((ScriptedText("nearly"), ScriptedWait("end")), "and more")
    async with open_turns(tmp_path, brain) as house:
        host = await house.accept("first")
        await brain.barrier("end").reached.wait()
        steer = await house.accept("second", delivery="steer")
        brain.barrier("end").released.set()
        run = await house.ended(host)
        assert (run.text, run.steps) == ("and more", 2)
        assert (await house.ended(steer)).host_run_id == run.id
        kinds = [type(event) for event in await house.events("ses_1")]
        assert kinds.count(RunFinished) == 2
        assert kinds.count(RunJoined) == 1


@pytest.mark.promise("C5", "C6", "R7", "R8")
async def test_a_cancel_in_mid_stream_keeps_the_text_and_the_history_valid(tmp_path: Path) -> None:
    brain = model((ScriptedText("half an "), ScriptedWait("mid"), ScriptedText("answer")), "next answer")
    async with open_turns(tmp_path, brain) as house:
        accepted = await house.accept("first")
        await brain.barrier("mid").reached.wait()
        receipt = await house.engine.cancel_session("ses_1")
        (covered,) = receipt.runs
        assert (covered.ended_as, covered.was) == ("cancelled", "active")
        run = await house.ended(accepted)
        assert (run.state, run.reason, run.text) == ("cancelled", "user_cancel", "half an ")
        _, assistant = await house.messages()
        assert assistant.parts == (Text("half an "), Finish("cancelled"))
        again = await one_run(house, "second")
        assert again.state == "completed"
        assert [text_of(m.parts) for m in brain.requests[1].messages if m.role == "assistant"] == ["half an "]


@pytest.mark.promise("C3", "C7", "C8")
async def test_a_cancel_reaches_every_tool_and_the_receipt_says_what_was_killed(tmp_path: Path) -> None:
    brain = model(
        (
            ScriptedCall("echo", {"word": "a"}),
            ScriptedCall("killed", {"word": "k"}),
            ScriptedCall("gated", {"word": "g"}),
        ),
        "next",
    )
    async with open_turns(tmp_path, brain) as house:
        await house.accept("first")
        await house.gates.arrived("k")
        await house.gates.arrived("g")
        receipt = await house.engine.cancel_session("ses_1")
        (covered,) = receipt.runs
        assert covered.ended_as == "cancelled"
        assert covered.killed == ("sleep 100",)
        assert covered.doing is not None
        assert covered.doing.phase == "tool"
        by_name = {result.name: result for result in results(await house.messages())}
        assert by_name["echo"].status == "ok"
        assert by_name["killed"].status == "cancelled"
        assert by_name["gated"].status == "cancelled"
        assert (await one_run(house, "again")).state == "completed"


@pytest.mark.promise("C8")
async def test_a_cancel_reaches_an_approval_that_is_waited_for(tmp_path: Path) -> None:
    async with open_turns(tmp_path, model((ScriptedCall("echo", {"word": "a"}),))) as house:
        house.turns.approver.asking.add("echo")
        accepted = await house.accept()
        await house.gates.arrived("approval:a")
        now = (await house.engine.get_run(accepted.run.id)).now
        assert now is not None
        assert (now.phase, now.what) == ("approval", "echo: a")
        receipt = await house.engine.cancel_session("ses_1")
        assert receipt.runs[0].ended_as == "cancelled"
        assert house.tools["echo"].ran == {}


@pytest.mark.promise("R13")
async def test_a_failed_attempts_text_is_replaced_and_the_retry_is_told(tmp_path: Path) -> None:
    brain = model(
        (ScriptedText("first try"), ScriptedFailure("overloaded", retry_after=0.0)),
        (ScriptedText("second try"), ScriptedFailure("network", retry_after=0.0)),
        "third try",
    )
    async with open_turns(tmp_path, brain) as house:
        run = await one_run(house)
        assert (run.state, run.text) == ("completed", "third try")
        _, assistant = await house.messages()
        assert assistant.parts == (Text("third try"), Finish("end_turn"))
        told = [event for event in await house.events() if isinstance(event, RunRetrying)]
        assert [(event.attempt, event.cause) for event in told] == [(1, "overloaded"), (2, "network")]
        updates = [e.message.parts for e in await house.events() if isinstance(e, MessageUpdated)]
        assert () in updates


@pytest.mark.promise("R13")
async def test_a_retry_never_runs_a_tool_again(tmp_path: Path) -> None:
    brain = model(
        (ScriptedCall("echo", {"word": "a"}),),
        (ScriptedText("x"), ScriptedFailure("network", retry_after=0.0)),
        "done",
    )
    async with open_turns(tmp_path, brain) as house:
        assert (await one_run(house)).state == "completed"
        assert sum(house.tools["echo"].ran.values()) == 1


@pytest.mark.promise("C8", "R13")
async def test_a_cancel_ends_the_wait_for_a_retry(tmp_path: Path) -> None:
    async with open_turns(tmp_path, model((ScriptedFailure("overloaded", retry_after=300.0),))) as house:
        house.turns.pause = asyncio.sleep
        accepted = await house.accept()
        await house.until(lambda: (house.engine.with_live_state(accepted.run).now or accepted.run.now) is not None)
        await house.until(lambda: getattr(house.engine.with_live_state(accepted.run).now, "phase", "") == "retry")
        receipt = await house.engine.cancel_session("ses_1")
        assert receipt.runs[0].ended_as == "cancelled"


async def test_an_error_not_worth_a_retry_ends_the_run_with_its_reason(tmp_path: Path) -> None:
    async with open_turns(
        tmp_path, model((ScriptedText("partial"), ScriptedFailure("auth", "bad key")), "later")
    ) as house:
        run = await one_run(house)
        assert (run.state, run.reason, run.text) == ("failed", "auth", "partial")
        assert run.error is not None
        assert run.error.message == "bad key"
        _, assistant = await house.messages()
        assert finish(assistant) == Finish("error", "bad key")
        assert (await one_run(house, "again")).text == "later"


@pytest.mark.promise("R12")
async def test_limits_end_a_run_in_the_open(tmp_path: Path) -> None:
    call = (ScriptedCall("echo", {"word": "a"}), ScriptedUsage(Usage(input=1, output=1)))
    async with open_turns(tmp_path, model(*[call] * 5)) as house:
        house.turns.limits = turn_limits(max_steps=2)
        run = await one_run(house)
        assert (run.state, run.reason, run.steps) == ("failed", "limit_steps", 2)
        assert run.error is not None
        assert "2 steps" in run.error.message
        assert finish((await house.messages())[-1]).reason == "limit"


@pytest.mark.promise("R12")
async def test_a_time_limit_stops_what_runs_and_names_itself(tmp_path: Path) -> None:
    async with open_turns(tmp_path, model((ScriptedCall("killed", {"word": "k"}),))) as house:
        house.turns.limits = turn_limits(max_steps=5, max_seconds=60)
        accepted = await house.accept()
        await house.gates.arrived("k")
        house.turns.clock.run_out()
        run = await house.ended(accepted)
        assert (run.state, run.reason) == ("failed", "limit_time")
        assert [(result.status, result.text) for result in results(await house.messages())] == [
            ("cancelled", "killed it")
        ]


@pytest.mark.promise("R12")
async def test_a_loop_is_noticed(tmp_path: Path) -> None:
    async with open_turns(tmp_path, model(*[(ScriptedCall("echo", {"word": "same"}),)] * 20)) as house:
        run = await one_run(house)
        assert (run.state, run.reason) == ("failed", "loop")
        assert run.steps == 5


async def test_a_refusal_and_a_cut_off_answer_are_failures_with_their_reason(tmp_path: Path) -> None:
    async with open_turns(
        tmp_path,
        model((ScriptedText("no"), ScriptedStop("refused", "policy")), (ScriptedText("x"), ScriptedStop("max_tokens"))),
    ) as house:
        first = await one_run(house)
        assert (first.state, first.reason) == ("failed", "refused")
        second = await one_run(house)
        assert (second.state, second.reason, second.text) == ("failed", "max_tokens", "x")


@pytest.mark.promise("R12")
async def test_the_conversation_is_compacted_before_the_window_is_full(tmp_path: Path) -> None:
    brain = model(
        (ScriptedCall("echo", {"word": "a"}), ScriptedUsage(Usage(input=95_000, output=10))),
        (ScriptedText("## Task\nthe story so far"), ScriptedUsage(Usage(input=95_000, output=50))),
        "went on",
        context_window=100_000,
    )
    async with open_turns(tmp_path, brain) as house:
        run = await one_run(house)
        assert (run.state, run.text, run.steps) == ("completed", "went on", 2)
        stored = await house.messages()
        summary = next(m for m in stored if any(isinstance(part, Summary) for part in m.parts))
        assert len(stored) == 5
        (told,) = brain.requests[2].messages
        assert "the story so far" in text_of(told.parts)
        assert isinstance(summary.parts[0], Context)
        assert run.usage.input == 2 * 95_000 + brain_usage(stored[-1])


def brain_usage(message: Message) -> int:
    assert message.usage is not None
    return message.usage.input


@pytest.mark.promise("R12")
async def test_a_provider_that_says_the_window_is_full_gets_a_shorter_conversation(tmp_path: Path) -> None:
    brain = model((ScriptedFailure("context"),), "the summary", "fits now")
    async with open_turns(tmp_path, brain) as house:
        run = await one_run(house)
        assert (run.state, run.text) == ("completed", "fits now")
        assert "the summary" in text_of(brain.requests[2].messages[0].parts)


@pytest.mark.promise("R12")
async def test_a_window_that_is_too_small_for_anything_ends_the_run(tmp_path: Path) -> None:
    async with open_turns(tmp_path, model(*[(ScriptedFailure("context"),)] * 10)) as house:
        run = await one_run(house)
        assert (run.state, run.reason) == ("failed", "context")


async def test_compact_is_a_run_of_its_own(tmp_path: Path) -> None:
    brain = model("an answer", "the summary", "after")
    async with open_turns(tmp_path, brain) as house:
        nothing = await house.ended(await house.accept("", kind="compact"))
        assert "nothing to compact" in nothing.text
        await one_run(house)
        run = await house.ended(await house.accept("", kind="compact"))
        assert (run.state, run.text) == ("completed", "the summary")
        await one_run(house, "go on")
        assert [text_of(m.parts).split("\n")[-1] for m in brain.requests[2].messages] == ["the summary", "go on"]


async def test_the_head_stays_and_changes_are_told_with_the_next_prompt(tmp_path: Path) -> None:
    brain = model("one", "two", "three")
    async with open_turns(tmp_path, brain) as house:
        await one_run(house, "first")
        await one_run(house, "second")
        house.turns.context_gatherer.branch = "topic"
        house.turns.context_gatherer.instructions = (Instructions("/w/AGENTS.md", "be kind"),)
        await one_run(house, "third")
        first, second, third = brain.requests
        assert first.system == second.system == third.system
        assert third.messages[: len(second.messages)] == second.messages
        told = text_of(third.messages[-1].parts)
        assert "topic" in told
        assert "be kind" in told
        assert "changed-since" not in text_of(second.messages[-1].parts)


async def test_the_session_is_named_by_its_first_words_at_once(tmp_path: Path) -> None:
    async with open_turns(tmp_path, model("ok", "ok")) as house:
        await one_run(house, "Please mend the broken test in the parser module today")
        assert (await house.store.session("ses_1")).title == "Please mend the broken test in the parser"
        assert [words for _, words in house.turns.titler.asked] == [
            "Please mend the broken test in the parser module today"
        ]
        await one_run(house, "second")
        assert len([e for e in await house.events() if isinstance(e, SessionUpdated)]) == 1


async def test_secrets_do_not_leave_through_results(tmp_path: Path) -> None:
    async with open_turns(tmp_path, model((ScriptedCall("echo", {"word": "s3cret"}),), "ok")) as house:
        await one_run(house)
        (result,) = results(await house.messages())
        assert result.text == "echo [redacted]"


@pytest.mark.promise("C3", "C8")
async def test_a_sub_agent_is_a_child_run_and_is_cancelled_with_its_parent(tmp_path: Path) -> None:
    brain = model((ScriptedCall("child", {"word": "look"}),), (ScriptedText("looking"), ScriptedWait("child")))
    async with open_turns(tmp_path, brain) as house:
        await house.accept("first")
        await brain.barrier("child").reached.wait()
        (asked,) = [m for m in await house.messages() if any(isinstance(p, ToolCall) for p in m.parts)]
        (call,) = [part for part in asked.parts if isinstance(part, ToolCall)]
        assert call.child_session_id is not None
        receipt = await house.engine.cancel_session("ses_1")
        assert {run.session_id for run in receipt.runs} == {"ses_1", call.child_session_id}
        assert {run.ended_as for run in receipt.runs} == {"cancelled"}
        child = (await house.store.messages(call.child_session_id, limit=10)).items
        assert child[-1].parts == (Text("looking"), Finish("cancelled"))


async def test_a_sub_agents_answer_comes_back_as_the_result(tmp_path: Path) -> None:
    brain = model((ScriptedCall("child", {"word": "look"}),), "found it", "thanks")
    async with open_turns(tmp_path, brain) as house:
        run = await one_run(house)
        assert run.text == "thanks"
        (result,) = results(await house.messages())
        assert result.text == "found it"


@pytest.mark.promise("R11")
async def test_settings_of_one_run_are_not_seen_by_the_next(tmp_path: Path) -> None:
    schema = {"type": "object"}
    brain = model("{}", "plain")
    async with open_turns(tmp_path, brain) as house:
        await house.ended(await house.accept("first", output_schema=schema))
        await one_run(house)
        assert [request.output_schema for request in brain.requests] == [schema, None]


async def test_a_stream_without_an_end_is_a_network_failure(tmp_path: Path) -> None:
    class Cut(ScriptedModel):
        async def stream(self, request):  # type: ignore[no-untyped-def]
            async for delta in super().stream(request):
                if type(delta).__name__ == "TextDelta":
                    yield delta

    async with open_turns(tmp_path, Cut()) as house:
        run = await one_run(house)
        assert (run.state, run.reason) == ("failed", "network")
        assert [event.cause for event in await house.events() if isinstance(event, RunRetrying)] == ["network"] * 6


@pytest.mark.promise("R6", "R12")
async def test_where_a_limit_forbids_another_step_waiting_steers_go_to_the_queue(tmp_path: Path) -> None:
    brain = model(
        (ScriptedCall("gated", {"word": "x"}),),
        "the steer's own answer",
        (ScriptedText("last"), ScriptedWait("end")),
        "own again",
    )
    async with open_turns(tmp_path, brain) as house:
        house.turns.limits = turn_limits(max_steps=1)
        host = await house.accept("first")
        await house.gates.arrived("x")
        steer = await house.accept("second", delivery="steer")
        house.gates.open("x")
        assert (await house.ended(host)).reason == "limit_steps"
        alone = await house.ended(steer)
        assert (alone.state, alone.text, alone.host_run_id) == ("completed", "the steer's own answer", None)
        third = await house.accept("third")
        await brain.barrier("end").reached.wait()
        steer = await house.accept("fourth", delivery="steer")
        brain.barrier("end").released.set()
        assert ((await house.ended(third)).state, (await house.ended(third)).text) == ("completed", "last")
        alone = await house.ended(steer)
        assert (alone.state, alone.text, alone.host_run_id) == ("completed", "own again", None)


@pytest.mark.promise("R6", "R12")
async def test_a_steer_that_joins_after_a_summary_brings_nothing_old_back(tmp_path: Path) -> None:
    brain = model(
        "an old answer",
        (ScriptedCall("echo", {"word": "a"}), ScriptedUsage(Usage(input=95_000))),
        "## Task\nthe story",
        (ScriptedCall("gated", {"word": "x"}),),
        "all done",
        context_window=100_000,
    )
    async with open_turns(tmp_path, brain) as house:
        await one_run(house, "an old prompt")
        host = await house.accept("the present prompt")
        await house.gates.arrived("x")
        await house.accept("and a steer", delivery="steer")
        house.gates.open("x")
        assert (await house.ended(host)).text == "all done"
        summary, asked, answered, steer = brain.requests[-1].messages
        assert "the story" in text_of(summary.parts)
        assert "the present prompt" in text_of(summary.parts)
        assert (asked.role, answered.role, text_of(steer.parts)) == ("assistant", "tool", "and a steer")


async def test_what_is_waited_for_is_told_while_calls_come_and_go(tmp_path: Path) -> None:
    brain = model(
        (
            ScriptedCall("gated", {"word": "x"}),
            ScriptedCall("gated", {"word": "y"}),
            ScriptedCall("echo", {"word": "e"}),
        ),
        "ok",
    )
    async with open_turns(tmp_path, brain) as house:
        house.turns.approver.asking.add("echo")
        accepted = await house.accept()

        def now() -> tuple[str, str]:
            shown = house.engine.with_live_state(accepted.run).now
            return (shown.phase, shown.what) if shown else ("", "")

        await house.gates.arrived("approval:e")
        await house.gates.arrived("y")
        assert now() == ("approval", "echo: e")
        house.gates.open("approval:e")
        await house.until(lambda: now() == ("tool", "gated: y"))
        since = house.engine.with_live_state(accepted.run).now
        house.gates.open("y")
        await house.until(lambda: now() == ("tool", "gated: x"))
        later = house.engine.with_live_state(accepted.run).now
        assert since is not None
        assert later is not None
        assert later.since <= since.since, "it has been waited for since it began, not since it is told"
        house.gates.open("x")
        assert (await house.ended(accepted)).now is None


async def test_secrets_do_not_leave_through_errors_displays_or_progress(tmp_path: Path) -> None:
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
        tmp_path, model((ScriptedCall("leaking", {"word": "s3cret"}), ScriptedCall("failing")), "ok")
    ) as house:
        house.tools["leaking"], house.tools["failing"] = Leaking(house.gates), Failing(house.gates)
        accepted = await house.accept()
        await house.gates.arrived("leak")
        now = house.engine.with_live_state(accepted.run).now
        assert now is not None
        assert now.what == "leaking: [redacted]"
        house.gates.open("leak")
        assert (await house.ended(accepted)).state == "completed"
        leaked, failed = results(await house.messages())
        assert leaked.display == {"diff": "+[redacted]", "lines": ["[redacted]", 1]}
        assert (failed.status, failed.text) == ("error", "there is no [redacted] here")


async def test_what_failed_and_cut_off_attempts_cost_is_counted(tmp_path: Path) -> None:
    class Telling(ScriptedModel):
        """Tells its usage at the beginning, as some vendors do."""

        async def stream(self, request):  # type: ignore[no-untyped-def]
            yield UsageReport(Usage(input=100))
            async for delta in super().stream(request):
                if not isinstance(delta, UsageReport):
                    yield delta

    script = ModelScript(
        answers=((ScriptedText("x"), ScriptedFailure("overloaded")), (ScriptedText("half"), ScriptedWait("mid")))
    )
    brain = Telling(script, info=ModelInfo("offline/test"))
    async with open_turns(tmp_path, brain) as house:
        accepted = await house.accept()
        await brain.barrier("mid").reached.wait()
        await house.engine.cancel_session("ses_1")
        run = await house.ended(accepted)
        assert (run.usage, run.steps) == (Usage(input=200), 1)
        assert (await house.store.session("ses_1")).usage == Usage(input=200)
    silent = model((ScriptedText("half an answer"), ScriptedWait("mid")))
    (tmp_path / "other").mkdir()
    async with open_turns(tmp_path / "other", silent) as house:
        accepted = await house.accept()
        await silent.barrier("mid").reached.wait()
        await house.engine.cancel_session("ses_1")
        run = await house.ended(accepted)
        assert run.usage.estimated
        assert run.usage.input > 0


async def test_an_answer_that_says_it_calls_tools_but_calls_none_is_the_end(tmp_path: Path) -> None:
    async with open_turns(tmp_path, model((ScriptedText("hm"), ScriptedStop("tool_use")))) as house:
        run = await one_run(house)
        assert (run.state, run.reason) == ("completed", "end_turn")
        assert finish((await house.messages())[-1]).reason == "end_turn"


async def test_calls_of_an_answer_that_was_refused_are_answered_as_not_run(tmp_path: Path) -> None:
    async with open_turns(
        tmp_path, model((ScriptedCall("echo", {"word": "a"}), ScriptedStop("refused", "policy")), "next")
    ) as house:
        run = await one_run(house)
        assert (run.state, run.reason) == ("failed", "refused")
        (result,) = results(await house.messages())
        assert (result.status, result.text) == ("cancelled", NOT_RUN)
        assert house.tools["echo"].ran == {}
        assert (await one_run(house)).state == "completed"


@pytest.mark.parametrize("told", [(), (UsageReport(Usage()),)])
async def test_a_provider_that_tells_no_usage_is_estimated_and_compacted_in_time(tmp_path: Path, told: Any) -> None:
    class Silent(ScriptedModel):
        async def stream(self, request):  # type: ignore[no-untyped-def]
            async for delta in super().stream(request):
                for one in told if isinstance(delta, UsageReport) else (delta,):
                    yield one

    script = ModelScript(
        answers=(
            (ScriptedCall("echo", {"word": "w" * 90_000}),),
            (ScriptedText("the story"),),
            (ScriptedText("went on"),),
        )
    )
    async with open_turns(tmp_path, Silent(script, info=ModelInfo("offline/test", context_window=50_000))) as house:
        run = await one_run(house)
        assert (run.state, run.text, run.usage.estimated) == ("completed", "went on", True)
        assert any(isinstance(part, Summary) for message in await house.messages() for part in message.parts)
