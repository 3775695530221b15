"""The model is asked again while the results of a step and the row of its next answer are committed (R14)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from holdfast.models.model_script import ScriptedCall, ScriptedText, ScriptedWait
from holdfast.models.scripted_model import ScriptedModel
from holdfast.schema.events import MessageCreated, MessageFinished
from holdfast.schema.messages import text_of
from holdfast.schema.runs import Accepted
from holdfast.store import open_store
from tests.support.engine_harness import ControlledStore
from tests.support.real_turns import TurnHarness, finish_part, open_turns, scripted_model, tool_results

CALL = ScriptedCall("gated", {"word": "x"})
SECOND = ScriptedWait("second")
"""Reached when the model is asked for its second answer."""


class HeldStep:
    """A run whose first step is over, while the commit of its results is held."""

    def __init__(self, harness: TurnHarness, store: Any, model: ScriptedModel, accepted: Accepted) -> None:
        self.harness = harness
        self.store = store
        self.model = model
        self.accepted = accepted
        self.committed = store.committed
        """The commits before."""

    def is_posted(self, count: int) -> bool:
        """Whether so many commands of the session are not committed yet."""
        mailbox = self.harness.engine._state.active_runs[self.accepted.run.id].mailbox
        return len(mailbox._requests) == count

    async def stored(self) -> list[str]:
        return [message.role for message in await self.harness.messages()]


@asynccontextmanager
async def held_step(directory: Path, model: ScriptedModel) -> AsyncIterator[HeldStep]:
    store: Any = ControlledStore(await open_store(directory / "holdfast.db"))
    async with open_turns(directory, model, store=store) as harness:
        accepted = await harness.accept("go")
        await harness.gates.arrived("x")
        store.open.clear()
        step = HeldStep(harness, store, model, accepted)
        harness.gates.open("x")
        await model.barrier("second").reached.wait()
        await harness.until(lambda: store.held == 1)
        yield step


@pytest.mark.promise("R14")
async def test_the_model_is_asked_before_the_commit_and_nothing_is_shown_before_it(tmp_path: Path) -> None:
    async with held_step(tmp_path, scripted_model((CALL,), (SECOND, ScriptedText("done")))) as step:
        assert [result.text for result in tool_results(step.model.requests[-1].messages)] == ["passed x"]
        step.model.barrier("second").released.set()
        assert await step.stored() == ["user", "assistant"]
        assert step.store.committed == step.committed
        step.store.open.set()
        run = await step.harness.ended(step.accepted)
        assert (run.state, run.text) == ("completed", "done")
        assert await step.stored() == ["user", "assistant", "tool", "assistant"]
        assert step.store.committed == step.committed + 2, "results and the next row, then the end"
        events = await step.harness.events("ses_1")
        roles = [(type(one), one.message.role) for one in events if isinstance(one, MessageCreated | MessageFinished)]
        assert roles[-3:] == [(MessageFinished, "tool"), (MessageCreated, "assistant"), (MessageFinished, "assistant")]


@pytest.mark.promise("R14")
async def test_a_refused_commit_closes_the_request_and_no_further_tool_runs(tmp_path: Path) -> None:
    model = scripted_model((CALL,), (SECOND, ScriptedCall("echo", {"word": "never"})))
    async with held_step(tmp_path, model) as step:
        model.barrier("second").released.set()
        step.store.refuse_held = True
        step.store.refuse()
        step.store.open.set()
        await step.store.was_refused.wait()
        step.store.refusing = None
        run = await step.harness.ended(step.accepted)
        assert (run.state, run.reason) == ("failed", "store")
        assert not step.harness.tools["echo"].ran
        messages = await step.harness.messages()
        assert [message.role for message in messages] == ["user", "assistant", "tool", "assistant"]
        assert [result.text for result in tool_results(messages)] == ["passed x"]
        assert finish_part(messages[-1]).reason == "error"


@pytest.mark.promise("C1", "C6", "C7")
async def test_a_cancel_during_the_commit_closes_the_request_and_keeps_the_results(tmp_path: Path) -> None:
    async with held_step(tmp_path, scripted_model((CALL,), (SECOND, ScriptedText("never")), "next")) as step:
        cancel = asyncio.create_task(step.harness.engine.cancel_session("ses_1"), name="cancel")
        await step.harness.until(lambda: step.is_posted(2))
        step.store.open.set()
        await cancel
        run = await step.harness.ended(step.accepted)
        assert (run.state, run.reason) == ("cancelled", "user_cancel")
        messages = await step.harness.messages()
        assert [message.role for message in messages] == ["user", "assistant", "tool", "assistant"]
        assert [result.text for result in tool_results(messages)] == ["passed x"]
        assert finish_part(messages[-1]).reason == "cancelled"
        again = await step.harness.ended(await step.harness.accept("again"))
        assert (again.state, again.text) == ("completed", "next")


@pytest.mark.promise("R6")
async def test_a_steer_that_comes_after_the_decision_joins_at_the_next_boundary(tmp_path: Path) -> None:
    async with held_step(tmp_path, scripted_model((CALL,), (SECOND, ScriptedText("first")), "both")) as step:
        steer = asyncio.create_task(step.harness.accept("and this", delivery="steer"), name="steer")
        await step.harness.until(lambda: step.is_posted(2))
        step.store.open.set()
        joined = await steer
        step.model.barrier("second").released.set()
        run = await step.harness.ended(step.accepted)
        assert (run.state, run.text) == ("completed", "both")
        assert (await step.harness.ended(joined)).state == "completed"
        asked = [[text_of(m.parts) for m in r.messages if m.role == "user"] for r in step.model.requests]
        assert asked == [["go"], ["go"], ["go", "and this"]]


@pytest.mark.promise("R14")
async def test_a_commit_that_did_not_happen_is_repeated_while_the_request_stays_open(tmp_path: Path) -> None:
    async with held_step(tmp_path, scripted_model((CALL,), (SECOND, ScriptedText("done")))) as step:
        step.store.lost = []
        step.store.open.set()
        await step.harness.until(lambda: bool(step.store.lost))
        await step.store.find(happened=False)
        step.model.barrier("second").released.set()
        run = await step.harness.ended(step.accepted)
        assert (run.state, run.text) == ("completed", "done")
        assert len(step.model.requests) == 2
        assert await step.stored() == ["user", "assistant", "tool", "assistant"]
