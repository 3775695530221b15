"""Reminders in the course of a turn: appended, stored, and sent again with the same bytes."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.agent.reminders import SILENT_STEPS, ChangedFile, Observations
from holdfast.models.model_script import ScriptedCall, ScriptedText, ScriptedUsage
from holdfast.schema.messages import Context, Message, text_of
from holdfast.schema.sessions import Job, Todo
from holdfast.schema.usage import Usage
from holdfast.store import Batch
from holdfast.store.writes import PutTodos
from tests.support.real_turns import complete_run, open_turns, scripted_model, turn_limits

JOB = Job(id="job_1", workspace_id="w", session_id="ses_1", run_id="r", command="make", state="exited", exit_code=0)
CALL = (ScriptedCall("echo", {"word": "a"}),)


def told(messages: tuple[Message, ...]) -> list[str]:
    return [text_of(message.parts) for message in messages if "<reminder>" in text_of(message.parts)]


async def test_a_reminder_is_appended_after_the_results_and_the_head_stays(tmp_path: Path) -> None:
    scripted = scripted_model(CALL, CALL, "done", "again")
    async with open_turns(tmp_path, scripted) as harness:
        harness.turns.observer.seen = [Observations(ended_jobs=(JOB,))]
        await complete_run(harness, "go")
        first, second, third = scripted.requests
        assert first.system == second.system == third.system
        assert second.messages[: len(first.messages)] == first.messages
        assert third.messages[: len(second.messages)] == second.messages
        assert [message.role for message in second.messages] == ["user", "assistant", "tool", "user"]
        assert text_of(second.messages[-1].parts) == (
            "<reminder>\nBackground jobs have ended. Read the rest of their output with `job_output`.\n"
            "- job_1 exited with code 0: make\n</reminder>"
        )
        assert len(told(third.messages)) == 1
        # the next run reads the stored messages and sends the same bytes
        await complete_run(harness, "and now?")
        fourth = scripted.requests[3]
        assert fourth.system == third.system
        assert [(m.role, m.parts) for m in fourth.messages[: len(third.messages)]] == [
            (m.role, m.parts) for m in third.messages
        ]
        stored = [m for m in await harness.messages() if any(isinstance(p, Context) and p.changed for p in m.parts)]
        assert [message.role for message in stored] == ["user"]
        assert stored[0].parts[0].facts["job:job_1"] == "exited"  # type: ignore[union-attr]


async def test_what_happened_between_two_runs_is_told_with_the_next_prompt(tmp_path: Path) -> None:
    scripted = scripted_model("one", "two", "three")
    async with open_turns(tmp_path, scripted) as harness:
        await complete_run(harness, "first")
        changed = Observations(changed_files=(ChangedFile("a.py", "h1"),))
        harness.turns.observer.seen = [changed, changed]
        await complete_run(harness, "second")
        await complete_run(harness, "third")
        prompt = text_of(scripted.requests[1].messages[-1].parts)
        assert prompt.startswith("<reminder>\nThese files changed since you last read them")
        assert prompt.endswith("second")
        assert text_of(scripted.requests[2].messages[-1].parts) == "third"
        assert scripted.requests[2].messages[: len(scripted.requests[1].messages)] == scripted.requests[1].messages


async def test_open_tasks_are_told_after_a_long_silence_and_not_at_every_step(tmp_path: Path) -> None:
    steps = [(ScriptedCall("echo", {"word": str(number)}),) for number in range(2 * SILENT_STEPS)]
    scripted = scripted_model(*steps, "done")
    async with open_turns(tmp_path, scripted) as harness:
        await harness.store.commit(Batch((PutTodos("ses_1", (Todo("mend it", "pending"),)),)))
        await complete_run(harness, "go")
        counts = [len(told(request.messages)) for request in scripted.requests]
        assert counts == [0] * SILENT_STEPS + [1] * SILENT_STEPS + [2]
        assert "- [pending] mend it" in told(scripted.requests[-1].messages)[0]


async def test_limits_that_are_nearly_reached_are_told_once(tmp_path: Path) -> None:
    steps = [(ScriptedCall("echo", {"word": str(number)}),) for number in range(9)]
    scripted = scripted_model(*steps, "done")
    async with open_turns(tmp_path, scripted) as harness:
        harness.turns.limits = turn_limits(max_steps=10)
        await complete_run(harness, "go")
        assert [len(told(request.messages)) for request in scripted.requests] == [0] * 7 + [1] * 3
        assert "3 of 10 steps are left" in told(scripted.requests[-1].messages)[0]


async def test_a_reminder_is_not_taken_for_a_prompt(tmp_path: Path) -> None:
    scripted = scripted_model(
        CALL,
        (ScriptedCall("echo", {"word": "b"}), ScriptedUsage(Usage(input=95_000))),
        (ScriptedText("the summary"),),
        "done",
        context_window=100_000,
    )
    async with open_turns(tmp_path, scripted) as harness:
        harness.turns.observer.seen = [Observations(ended_jobs=(JOB,)), Observations(ended_jobs=(JOB,))]
        run = await complete_run(harness, "go")
        assert run.text == "done"
        (summary,) = scripted.requests[-1].messages
        assert text_of(summary.parts).endswith("the summary\n\n## The request you are working on, word for word\ngo")


@pytest.mark.promise("C6")
async def test_a_cancel_after_a_reminder_leaves_a_valid_history(tmp_path: Path) -> None:
    scripted = scripted_model(CALL, (ScriptedCall("gated", {"word": "x"}),), "after")
    async with open_turns(tmp_path, scripted) as harness:
        harness.turns.observer.seen = [Observations(ended_jobs=(JOB,))]
        accepted = await harness.accept("go")
        await harness.gates.arrived("x")
        await harness.engine.cancel_session("ses_1")
        assert (await harness.ended(accepted)).state == "cancelled"
        assert (await complete_run(harness, "next")).text == "after"
        roles = [message.role for message in scripted.requests[-1].messages]
        assert roles[:6] == ["user", "assistant", "tool", "user", "assistant", "tool"]


async def test_a_steer_that_joins_is_told_and_stored_after_the_reminder(tmp_path: Path) -> None:
    scripted = scripted_model((ScriptedCall("gated", {"word": "x"}),), "done")
    async with open_turns(tmp_path, scripted) as harness:
        harness.turns.observer.seen = [Observations(ended_jobs=(JOB,))]
        host = await harness.accept("go")
        await harness.gates.arrived("x")
        await harness.accept("and this", delivery="steer")
        harness.gates.open("x")
        await harness.ended(host)
        reminder, steer = scripted.requests[1].messages[-2:]
        assert "job_1 exited" in text_of(reminder.parts)
        assert text_of(steer.parts) == "and this"
        stored = await harness.messages()
        assert [message.role for message in stored] == ["user", "assistant", "tool", "user", "user", "assistant"]
        assert isinstance(stored[3].parts[0], Context)
        assert text_of(stored[4].parts) == "and this"
