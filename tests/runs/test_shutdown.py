"""Graceful stop: active runs are interrupted, queues are kept and paused, in bounded time (`W5`)."""

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.agent.protocol import Ending
from holdfast.errors import ServerStopping, StoreUnwritable
from holdfast.runs import IntentFile
from holdfast.schema.messages import Finish, Text
from holdfast.schema.runs import Queue, Run
from holdfast.schema.sessions import Session, Workspace
from holdfast.store import Batch, LaneRow
from holdfast.store.writes import EndRun, InsertRun, PutSession, PutWorkspace, SetLane
from tests.support.engine_harness import DEFAULT_LIMITS, LONG_LIMITS, WORKSPACE, EngineHarness, open_harness
from tests.support.scripted_turns import ScriptedTurns, TurnActions


def turns_that_work() -> ScriptedTurns:
    turns = ScriptedTurns()

    @turns.on("work")
    async def work(turn: TurnActions) -> Ending | None:
        await turn.say("partial")
        await turn.gate("working")
        await turn.finish(" done")
        return None

    return turns


@pytest.mark.promise("W5", "R5")
async def test_active_runs_are_interrupted_and_queues_wait_for_resume(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="holdfast.runs")
    path = tmp_path / "own.db"
    async with open_harness(path, turns=turns_that_work()) as harness:
        await harness.session()
        active = await harness.accept("work")
        queued = await harness.accept("queued")
        await harness.gates.arrived("working")
        steer = await harness.accept("steer", delivery="steer")
        await harness.engine.stop()
        assert not harness.engine._state.tasks
        run = await harness.store.run(active.run.id)
        assert (run.state, run.reason, run.text) == ("interrupted", "server_stop", "partial")
        assert (await harness.messages())[-1].parts == (
            Text("partial"),
            Finish("interrupted", "the server was stopped"),
        )
        with pytest.raises(ServerStopping):
            await harness.accept("more")
        with pytest.raises(ServerStopping):
            await harness.engine.open_workspace("wsp_other")
    assert "stopping: interrupting 1 active runs, keeping the queues" in caplog.messages
    assert "stopped; every active run has ended" in caplog.messages
    async with open_harness(path) as harness:
        queue = await harness.engine.queue("ses_1")
        assert queue == Queue("ses_1", run_ids=(steer.run.id, queued.run.id), paused="server_stop")
        assert harness.turns.started == []
        await harness.engine.resume("ses_1")
        assert (await harness.ended(queued)).state == "completed"
        assert harness.turns.started == [steer.run.id, queued.run.id]


@pytest.mark.promise("W5")
async def test_nothing_starts_if_a_stop_comes_while_a_workspace_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "own.db"
    async with open_harness(path, open_workspace=False) as harness:
        await harness.session()
        queued = InsertRun(run=Run(id="queued", session_id="ses_1", seq=1), body_hash="", decision="queued")
        await harness.store.commit(Batch((queued, SetLane(LaneRow("ses_1", next_seq=2)))))
    async with open_harness(path, open_workspace=False) as harness:
        read = harness.store.unfinished_runs

        async def slowly(**which: str) -> object:
            found = await read(**which)
            await harness.gates.pass_through("opening")
            return found

        monkeypatch.setattr(harness.store, "unfinished_runs", slowly)
        opening = asyncio.create_task(harness.engine.open_workspace(WORKSPACE))
        await harness.gates.arrived("opening")
        stopping = asyncio.create_task(harness.engine.stop())
        await asyncio.sleep(0)
        harness.gates.open("opening")
        with pytest.raises(ServerStopping):
            await opening
        await stopping
        assert (await harness.store.run("queued")).state == "queued"
        assert harness.turns.started == []


@pytest.mark.promise("W5")
async def test_a_stop_while_a_run_starts_tells_if_its_end_cannot_be_written(tmp_path: Path) -> None:
    """Found by a fault schedule: the run was not looked at, and the stop was reported as written."""
    limits = replace(LONG_LIMITS, unwritable_seconds=0.01)
    async with open_harness(tmp_path / "own.db", turns=turns_that_work(), limits=limits, controlled=True) as harness:
        store: Any = harness.store
        await harness.session()
        store.open.clear()
        accepting = asyncio.ensure_future(harness.accept("work"))
        await harness.until(lambda: store.held == 1)
        stopping = asyncio.ensure_future(harness.engine.stop())
        await harness.until(lambda: harness.engine._state.stopping)
        commit = store.commit

        async def refuse_ends(batch: Batch, *, until_known: bool = True) -> Any:
            if any(isinstance(write, EndRun) for write in batch.writes):
                raise StoreUnwritable("the database cannot be written: disk full")
            return await commit(batch, until_known=until_known)

        store.commit = refuse_ends
        store.open.set()
        run = (await accepting).run
        assert await stopping is False
        assert (await harness.store.run(run.id)).state == "stopping"


@pytest.mark.promise("C1", "W5")
async def test_a_stop_starts_nothing_also_if_only_the_end_of_the_active_run_can_be_written(tmp_path: Path) -> None:
    """Found by a fault schedule: that end started the next run, which a cancel had covered."""
    limits, path = replace(LONG_LIMITS, unwritable_seconds=0.01), tmp_path / "own.db"
    notes = tmp_path / "intents"
    parts: dict[str, Any] = {"limits": limits, "controlled": True, "intents": IntentFile(notes)}
    async with open_harness(path, turns=turns_that_work(), **parts) as harness:
        store: Any = harness.store
        await harness.session()
        first, second = (await harness.accept("work")).run, (await harness.accept("later")).run
        commit = store.commit

        async def refuse_others(batch: Batch, *, until_known: bool = True) -> Any:
            ended = [write.run_id for write in batch.writes if isinstance(write, EndRun)]
            if ended != [first.id] or not harness.engine._state.stopping:
                raise StoreUnwritable("the database cannot be written: disk full")
            return await commit(batch, until_known=until_known)

        store.commit = refuse_others
        receipt = await harness.engine.cancel_session("ses_1")
        assert ([line.was for line in receipt.runs], receipt.durable) == (["active", "queued"], True)
        assert await harness.engine.stop() is False
        assert [(await harness.store.run(run.id)).state for run in (first, second)] == ["cancelled", "queued"]
    async with open_harness(path, open_workspace=False, limits=limits, intents=IntentFile(notes)) as harness:
        await harness.engine.recover()
        await harness.engine.open_workspace(WORKSPACE)
        assert (await harness.store.run(second.id)).state == "cancelled"
        assert harness.turns.started == []


@pytest.mark.promise("W5")
async def test_a_stop_is_bounded_if_turns_ignore_cancels(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "own.db"
    turns = ScriptedTurns()
    release = asyncio.Event()

    @turns.on("hangs")
    async def hangs(turn: TurnActions) -> Ending | None:
        while not release.is_set():
            try:
                await turn.gates.pass_through("hanging")
                await release.wait()
            except asyncio.CancelledError:
                turns.gates.open("was cancelled")
        return None

    limits = replace(DEFAULT_LIMITS, stop_seconds=0.02, shutdown_seconds=30.0)
    async with open_harness(path, turns=turns, limits=limits) as harness:
        await harness.session()
        accepted = await harness.accept("hangs")
        await harness.gates.arrived("hanging")
        try:
            await harness.engine.stop()
            run = await harness.store.run(accepted.run.id)
            assert (run.state, run.reason) == ("interrupted", "server_stop")
            assert run.left_running == (f"the turn of run {run.id}",)
            assert any("did not end" in message for message in caplog.messages)
        finally:  # otherwise a failure becomes a test run that never ends
            turns.gates.open("hanging")
            release.set()
        await harness.quiet()


@pytest.mark.promise("W5", "R5")
async def test_closing_a_workspace_does_not_affect_another(harness: EngineHarness) -> None:
    harness.turns.scripts |= turns_that_work().scripts
    other = Session(id="ses_other", workspace_id="wsp_2")
    await harness.store.commit(Batch((PutWorkspace(Workspace("wsp_2", "/work/there")), PutSession(other))))
    await harness.engine.open_workspace("wsp_2")
    here, there = await harness.accept("work"), await harness.accept("work", session_id="ses_other")
    held = await harness.accept("held")
    await harness.gates.arrived("working")
    assert (
        harness.engine.count_active(),
        harness.engine.count_active("wsp_2"),
        harness.engine.count_unfinished(WORKSPACE),
    ) == (2, 1, 2)
    await harness.engine.close_workspace(WORKSPACE)
    assert (await harness.ended(here)).reason == "server_stop"
    assert (harness.engine.count_active(), harness.engine.count_unfinished(WORKSPACE)) == (1, 0)
    harness.gates.open("working")
    assert (await harness.ended(there)).state == "completed"
    await harness.engine.open_workspace(WORKSPACE)
    assert (await harness.engine.queue("ses_1")).paused == "server_stop"
    await harness.engine.resume("ses_1")
    assert (await harness.ended(held)).state == "completed"


@pytest.mark.promise("W2")
async def test_active_queued_and_paused_runs_are_counted_as_unfinished(harness: EngineHarness) -> None:
    harness.turns.scripts |= turns_that_work().scripts
    assert harness.engine.count_unfinished(WORKSPACE) == 0
    first = await harness.accept("work")
    await harness.accept("queued")
    await harness.engine.pause("ses_1")
    await harness.gates.arrived("working")
    assert (harness.engine.count_unfinished(WORKSPACE), harness.engine.count_active(WORKSPACE)) == (2, 1)
    harness.gates.open("working")
    await harness.ended(first)
    assert (harness.engine.count_unfinished(WORKSPACE), harness.engine.count_active(WORKSPACE)) == (1, 0)
    await harness.engine.cancel_session("ses_1")
    await harness.quiet()
    assert harness.engine.count_unfinished(WORKSPACE) == 0
