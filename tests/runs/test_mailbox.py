"""While the database cannot be written, nothing moves; afterwards everything continues (`R14`)."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from holdfast.agent.protocol import Ending
from holdfast.errors import OutcomeUnknown, StoreUnreachable, StoreUnwritable
from holdfast.runs import IntentFile
from holdfast.schema.events import RunFinished
from holdfast.schema.messages import Text
from holdfast.schema.runs import Outcome
from tests.support.engine_harness import LONG_LIMITS, WORKSPACE, ControlledStore, EngineHarness, open_harness
from tests.support.scripted_turns import TurnActions


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[EngineHarness]:
    async with open_harness(tmp_path / "holdfast.db", controlled=True) as harness:
        await harness.session()
        yield harness


@pytest.fixture
def store(harness: EngineHarness) -> ControlledStore:
    assert isinstance(harness.store, ControlledStore)
    return harness.store


async def ends(harness: EngineHarness) -> list[str]:
    return [event.run.id for event in await harness.events() if isinstance(event, RunFinished)]


@pytest.mark.promise("R14")
async def test_no_tool_starts_before_its_row_is_committed(harness: EngineHarness, store: ControlledStore) -> None:
    ran: list[str] = []

    @harness.turns.on("tools")
    async def tools(turn: TurnActions) -> Ending | None:
        await turn.gate("before the tool")
        await turn.tool("bash", lambda: ran.append("bash"))
        return None

    accepted = await harness.accept("tools")
    await harness.gates.arrived("before the tool")
    store.refuse()
    harness.gates.open("before the tool")
    await harness.until(lambda: store.refused > 2)
    assert ran == []
    store.refusing = None
    run = await harness.ended(accepted)
    assert (run.state, run.reason) == ("failed", "store")
    assert ran == []


@pytest.mark.promise("R14", "R7")
async def test_an_end_that_cannot_be_written_keeps_the_run_stopping_until_it_can(
    harness: EngineHarness, store: ControlledStore
) -> None:
    @harness.turns.on("ends")
    async def ending(turn: TurnActions) -> Ending | None:
        await turn.say("all of it")
        await turn.gate("before the end")
        message = turn.closed()
        return Ending(Outcome("completed", "end_turn", text="all of it", message_id=message.id), (message,))

    @harness.turns.on("next")
    async def following(turn: TurnActions) -> Ending | None:
        await turn.gate("next")
        await turn.finish("done")
        return None

    accepted = await harness.accept("ends")
    queued = await harness.accept("next")
    await harness.gates.arrived("before the end")
    store.refuse()
    harness.gates.open("before the end")
    await harness.until(lambda: store.refused > 3)
    shown = await harness.engine.get_run(accepted.run.id)
    assert shown.state == "stopping"
    assert shown.now is not None
    assert (shown.now.phase, shown.now.what) == ("store", "the database cannot be written: disk full")
    assert (await harness.engine.get_run(queued.run.id)).state == "queued"
    assert await ends(harness) == []
    store.refusing = None
    run = await harness.ended(accepted)
    assert (run.state, run.text) == ("completed", "all of it")
    await harness.gates.arrived("next")
    shown = await harness.engine.get_run(queued.run.id)
    assert (shown.state, shown.now and shown.now.phase) == ("active", "tool")
    harness.gates.open("next")
    assert (await harness.ended(queued)).state == "completed"
    assert await ends(harness) == [run.id, queued.run.id]


@pytest.mark.promise("R14")
async def test_an_end_at_a_boundary_is_retried_while_the_turn_waits(
    harness: EngineHarness, store: ControlledStore
) -> None:
    @harness.turns.on("ends")
    async def ending(turn: TurnActions) -> Ending | None:
        await turn.say("well")
        await turn.gate("before the end")
        await turn.finish()
        return None

    accepted = await harness.accept("ends")
    await harness.gates.arrived("before the end")
    store.refuse()
    harness.gates.open("before the end")
    await harness.until(lambda: store.refused > 3)
    assert (await harness.engine.get_run(accepted.run.id)).state == "stopping"
    store.refusing = None
    run = await harness.ended(accepted)
    assert (run.state, run.reason, run.text) == ("completed", "end_turn", "well")


@pytest.mark.promise("R14")
async def test_other_commands_are_refused_while_an_end_cannot_be_written(
    harness: EngineHarness, store: ControlledStore
) -> None:
    await harness.session("ses_2")

    @harness.turns.on("ends")
    async def ending(turn: TurnActions) -> Ending | None:
        await turn.gate("before the end")
        return Ending(Outcome("completed", "end_turn"))

    accepted = await harness.accept("ends")
    queued = await harness.accept("next")
    await harness.gates.arrived("before the end")
    store.refuse()
    harness.gates.open("before the end")
    await harness.until(lambda: store.refused > 0)
    for attempt in (
        harness.accept("more"),
        harness.accept("more", delivery="steer"),
        harness.engine.pause("ses_1"),
        harness.engine.change_queued(queued.run.id, prompt="other"),
        harness.accept("elsewhere", session_id="ses_2"),
    ):
        with pytest.raises(StoreUnwritable):
            await attempt
    assert (await harness.store.lane("ses_1")).lane.next_seq == 3
    store.refusing = None
    assert (await harness.ended(accepted)).state == "completed"
    assert (await harness.ended(queued)).state == "completed"
    assert len(harness.turns.started) == 2


@pytest.mark.promise("R14", "C1")
async def test_a_cancelled_run_whose_end_cannot_be_written_ends_cancelled_later(
    harness: EngineHarness, store: ControlledStore
) -> None:
    @harness.turns.on("work")
    async def work(turn: TurnActions) -> Ending | None:
        await turn.say("partial")
        try:
            await turn.gate("working")
        finally:
            store.refuse()
        return None

    accepted = await harness.accept("work")
    await harness.gates.arrived("working")
    cancelling = asyncio.create_task(harness.engine.cancel_session("ses_1"))
    await harness.until(lambda: store.refused > 1)
    assert (await harness.engine.get_run(accepted.run.id)).state == "stopping"
    store.refusing = None
    (line,) = (await cancelling).runs
    assert line.stopped
    assert (await harness.ended(accepted)).state == "cancelled"
    assert (await harness.messages())[-1].parts[0] == Text("partial")


@pytest.mark.promise("R14", "R1")
@pytest.mark.parametrize("happened", [True, False])
async def test_nobody_waits_for_a_prompt_of_which_is_not_known_whether_it_was_stored(
    harness: EngineHarness, store: ControlledStore, happened: bool
) -> None:
    store.lost = []
    with pytest.raises(OutcomeUnknown):
        await harness.accept("first", run_id="run_1")
    for attempt in (harness.accept("more"), harness.engine.pause("ses_1")):
        with pytest.raises(StoreUnreachable, match="nothing was changed"):
            await attempt
    receipt = await harness.engine.cancel_session("ses_1")
    assert receipt.error is not None
    assert receipt.error.code == "store_unreachable"
    await store.find(happened=happened)
    repeated = await harness.accept("first", run_id="run_1")
    assert (await harness.ended(repeated)).state == ("cancelled" if happened else "completed")
    assert [run.id for run in (await harness.store.runs("ses_1", limit=9)).items] == ["run_1"]


@pytest.mark.promise("R14")
async def test_commands_that_wait_behind_an_unknown_outcome_are_refused(
    harness: EngineHarness, store: ControlledStore
) -> None:
    store.open.clear()
    first = asyncio.create_task(harness.accept("first", run_id="run_1"))
    await harness.until(lambda: store.held == 1)
    behind = asyncio.create_task(harness.accept("behind"))
    store.lost = []
    store.open.set()
    with pytest.raises(OutcomeUnknown):
        await first
    with pytest.raises(StoreUnreachable, match="nothing was changed"):
        await behind
    await store.find(happened=True)
    assert (await harness.ended("run_1")).state == "completed"
    assert len(harness.turns.started) == 1


@pytest.mark.promise("R14")
async def test_a_turn_waits_until_the_outcome_of_its_commit_is_known(
    harness: EngineHarness, store: ControlledStore
) -> None:
    @harness.turns.on("work")
    async def work(turn: TurnActions) -> Ending | None:
        await turn.gate("before the tool")
        await turn.tool("bash", lambda: None)
        await turn.finish("done")
        return None

    accepted = await harness.accept("work")
    await harness.gates.arrived("before the tool")
    store.lost = []
    harness.gates.open("before the tool")
    await harness.until(lambda: bool(store.lost))
    with pytest.raises(StoreUnreachable, match="nothing was changed"):
        await harness.accept("meanwhile")
    await store.find(happened=True)
    assert (await harness.ended(accepted)).state == "completed"


@pytest.mark.promise("W5", "R14", "W6")
@pytest.mark.parametrize("noted", [True, False])
async def test_a_stop_does_not_wait_for_an_unwritable_store_and_the_next_start_ends_the_run(
    tmp_path: Path, noted: bool
) -> None:
    path = tmp_path / "own.db"
    short = replace(LONG_LIMITS, shutdown_seconds=0.05, stop_seconds=0.05)
    intents = IntentFile(tmp_path / "intents") if noted else None
    async with open_harness(path, controlled=True, limits=short, intents=intents) as harness:
        await harness.session()
        assert isinstance(harness.store, ControlledStore)

        @harness.turns.on("work")
        async def work(turn: TurnActions) -> Ending | None:
            await turn.say("partial")
            await turn.gate("working")
            return None

        accepted = await harness.accept("work")
        await harness.gates.arrived("working")
        queued = await harness.accept("next")
        harness.store.refuse()
        assert not await harness.engine.stop()
        assert not harness.engine._state.tasks
    async with open_harness(path, intents=intents, open_workspace=False) as harness:
        await harness.engine.recover()
        await harness.engine.open_workspace(WORKSPACE)
        run = await harness.engine.get_run(accepted.run.id)
        reason = "server_stop" if noted else "server_crash"
        assert (run.state, run.reason, run.text) == ("interrupted", reason, "partial")
        if noted:
            assert (await harness.engine.queue("ses_1")).paused == "server_stop"
            await harness.engine.resume("ses_1")
        assert (await harness.ended(queued)).state == "completed"


@pytest.mark.promise("W5")
async def test_commands_whose_task_is_cancelled_before_its_first_step_do_not_wait_for_ever(
    harness: EngineHarness,
) -> None:
    accepting = asyncio.create_task(harness.accept("late"))
    await harness.until(lambda: any(task.get_name().startswith("lane:") for task in asyncio.all_tasks()))
    for task in asyncio.all_tasks():
        if task.get_name().startswith("lane:"):
            task.cancel()
    await asyncio.wait((accepting,), timeout=20)
    assert accepting.cancelled()
    await harness.ended(await harness.accept("next"))
