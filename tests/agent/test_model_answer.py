"""Retries of a model request, and the usage of failed attempts."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from holdfast.models.model_script import (
    ModelScript,
    ScriptedCall,
    ScriptedFailure,
    ScriptedText,
    ScriptedWait,
)
from holdfast.models.protocol import ModelInfo, UsageReport
from holdfast.models.scripted_model import ScriptedModel
from holdfast.schema.events import (
    MessageUpdated,
    RunRetrying,
)
from holdfast.schema.messages import Finish, Text
from holdfast.schema.usage import Usage
from holdfast.tools.protocol import ToolContext as ToolContext
from tests.support.real_turns import (
    complete_run,
    finish_part,
    open_turns,
    scripted_model,
)


@pytest.mark.promise("R13")
async def test_the_text_of_a_failed_attempt_is_replaced_and_the_retry_is_published(tmp_path: Path) -> None:
    scripted = scripted_model(
        (ScriptedText("first try"), ScriptedFailure("overloaded", retry_after=0.0)),
        (ScriptedText("second try"), ScriptedFailure("network", retry_after=0.0)),
        "third try",
    )
    async with open_turns(tmp_path, scripted) as harness:
        run = await complete_run(harness)
        assert (run.state, run.text) == ("completed", "third try")
        _, assistant = await harness.messages()
        assert assistant.parts == (Text("third try"), Finish("end_turn"))
        told = [event for event in await harness.events() if isinstance(event, RunRetrying)]
        assert [(event.attempt, event.cause) for event in told] == [(1, "overloaded"), (2, "network")]
        updates = [e.message.parts for e in await harness.events() if isinstance(e, MessageUpdated)]
        assert () in updates


@pytest.mark.promise("R13")
async def test_a_retry_never_runs_a_tool_again(tmp_path: Path) -> None:
    scripted = scripted_model(
        (ScriptedCall("echo", {"word": "a"}),),
        (ScriptedText("x"), ScriptedFailure("network", retry_after=0.0)),
        "done",
    )
    async with open_turns(tmp_path, scripted) as harness:
        assert (await complete_run(harness)).state == "completed"
        assert sum(harness.tools["echo"].ran.values()) == 1


@pytest.mark.promise("C8", "R13")
async def test_a_cancel_ends_the_wait_for_a_retry(tmp_path: Path) -> None:
    async with open_turns(tmp_path, scripted_model((ScriptedFailure("overloaded", retry_after=300.0),))) as harness:
        harness.turns.pause = asyncio.sleep
        accepted = await harness.accept()
        await harness.until(lambda: (harness.engine.with_live_state(accepted.run).now or accepted.run.now) is not None)
        await harness.until(lambda: getattr(harness.engine.with_live_state(accepted.run).now, "phase", "") == "retry")
        receipt = await harness.engine.cancel_session("ses_1")
        assert receipt.runs[0].ended_as == "cancelled"


async def test_an_error_that_is_not_retried_ends_the_run_with_its_reason(tmp_path: Path) -> None:
    async with open_turns(
        tmp_path, scripted_model((ScriptedText("partial"), ScriptedFailure("auth", "bad key")), "later")
    ) as harness:
        run = await complete_run(harness)
        assert (run.state, run.reason, run.text) == ("failed", "auth", "partial")
        assert run.error is not None
        assert run.error.message == "bad key"
        _, assistant = await harness.messages()
        assert finish_part(assistant) == Finish("error", "bad key")
        assert (await complete_run(harness, "again")).text == "later"


async def test_a_stream_without_an_end_is_a_network_error(tmp_path: Path) -> None:
    class Cut(ScriptedModel):
        async def stream(self, request):  # type: ignore[no-untyped-def]
            async for delta in super().stream(request):
                if type(delta).__name__ == "TextDelta":
                    yield delta

    async with open_turns(tmp_path, Cut()) as harness:
        run = await complete_run(harness)
        assert (run.state, run.reason) == ("failed", "network")
        assert [event.cause for event in await harness.events() if isinstance(event, RunRetrying)] == ["network"] * 6


async def test_the_usage_of_failed_and_cancelled_attempts_is_counted(tmp_path: Path) -> None:
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
    scripted = Telling(script, info=ModelInfo("offline/test"))
    async with open_turns(tmp_path, scripted) as harness:
        accepted = await harness.accept()
        await scripted.barrier("mid").reached.wait()
        await harness.engine.cancel_session("ses_1")
        run = await harness.ended(accepted)
        assert (run.usage, run.steps) == (Usage(input=200), 1)
        assert (await harness.store.session("ses_1")).usage == Usage(input=200)
    silent = scripted_model((ScriptedText("half an answer"), ScriptedWait("mid")))
    (tmp_path / "other").mkdir()
    async with open_turns(tmp_path / "other", silent) as harness:
        accepted = await harness.accept()
        await silent.barrier("mid").reached.wait()
        await harness.engine.cancel_session("ses_1")
        run = await harness.ended(accepted)
        assert run.usage.estimated
        assert run.usage.input > 0
