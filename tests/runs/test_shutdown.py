"""A graceful stop: active runs are interrupted, queues are kept and held, in bounded time (`W5`)."""

import asyncio
import logging
from pathlib import Path

import pytest
from msgspec.structs import replace

from holdfast.agent.protocol import Ending
from holdfast.errors import ServerStopping
from holdfast.schema.messages import Finish, Text
from holdfast.schema.runs import Queue, Run
from holdfast.schema.sessions import Session, Workspace
from holdfast.store import Batch, LaneRow
from holdfast.store.writes import InsertRun, PutSession, PutWorkspace, SetLane
from tests.support.house import DEFAULT_LIMITS, WORKSPACE, House, opened
from tests.support.scripted import Actor, ScriptedTurns


def turns_that_work() -> ScriptedTurns:
    turns = ScriptedTurns()

    @turns.on("work")
    async def work(actor: Actor) -> Ending | None:
        await actor.say("partial")
        await actor.gate("working")
        await actor.finish(" done")
        return None

    return turns


@pytest.mark.promise("W5", "R5")
async def test_active_runs_are_interrupted_and_queues_wait_for_resume(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="holdfast.runs")
    path = tmp_path / "own.db"
    async with opened(path, turns=turns_that_work()) as house:
        await house.session()
        active = await house.accept("work")
        queued = await house.accept("queued")
        await house.gates.arrived("working")
        steer = await house.accept("steer", delivery="steer")
        await house.engine.stop()
        assert not house.engine._state.tasks
        run = await house.store.run(active.run.id)
        assert (run.state, run.reason, run.text) == ("interrupted", "server_stop", "partial")
        assert (await house.messages())[-1].parts == (Text("partial"), Finish("interrupted", "the server was stopped"))
        with pytest.raises(ServerStopping):
            await house.accept("more")
        with pytest.raises(ServerStopping):
            await house.engine.open_workspace("wsp_other")
    assert "stopping: interrupting 1 active runs, keeping the queues" in caplog.messages
    assert "stopped; every active run has ended" in caplog.messages
    async with opened(path) as house:
        queue = await house.engine.queue("ses_1")
        assert queue == Queue("ses_1", run_ids=(steer.run.id, queued.run.id), paused="server_stop")
        assert house.turns.started == []
        await house.engine.resume("ses_1")
        assert (await house.ended(queued)).state == "completed"
        assert house.turns.started == [steer.run.id, queued.run.id]


@pytest.mark.promise("W5")
async def test_a_stop_that_comes_while_a_workspace_is_being_opened_lets_nothing_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "own.db"
    async with opened(path) as house:
        await house.session()
        queued = InsertRun(run=Run(id="queued", session_id="ses_1", seq=1), body_hash="", decision="queued")
        await house.store.commit(Batch((queued, SetLane(LaneRow("ses_1", next_seq=2)))))
    async with opened(path, open_workspace=False) as house:
        read = house.store.unfinished_runs

        async def slowly(**which: str) -> object:
            found = await read(**which)
            await house.gates.pass_through("opening")
            return found

        monkeypatch.setattr(house.store, "unfinished_runs", slowly)
        opening = asyncio.create_task(house.engine.open_workspace(WORKSPACE))
        await house.gates.arrived("opening")
        stopping = asyncio.create_task(house.engine.stop())
        await asyncio.sleep(0)
        house.gates.open("opening")
        with pytest.raises(ServerStopping):
            await opening
        await stopping
        assert (await house.store.run("queued")).state == "queued"
        assert house.turns.started == []


@pytest.mark.promise("W5")
async def test_a_stop_is_bounded_also_with_turns_that_hang_and_keep_hanging(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "own.db"
    turns = ScriptedTurns()
    release = asyncio.Event()

    @turns.on("hangs")
    async def hangs(actor: Actor) -> Ending | None:
        while not release.is_set():
            try:
                await actor.gates.pass_through("hanging")
                await release.wait()
            except asyncio.CancelledError:
                turns.gates.open("was cancelled")
        return None

    limits = replace(DEFAULT_LIMITS, stop_seconds=0.02, shutdown_seconds=0.1)
    async with opened(path, turns=turns, limits=limits) as house:
        await house.session()
        accepted = await house.accept("hangs")
        await house.gates.arrived("hanging")
        await house.engine.stop()
        run = await house.store.run(accepted.run.id)
        assert (run.state, run.reason) == ("interrupted", "server_stop")
        assert run.left_running == (f"the turn of run {run.id}",)
        assert any("did not end" in message for message in caplog.messages)
        turns.gates.open("hanging")
        release.set()
        await house.quiet()


@pytest.mark.promise("W5", "R5")
async def test_closing_a_workspace_touches_no_other(house: House) -> None:
    house.turns.scripts |= turns_that_work().scripts
    other = Session(id="ses_other", workspace_id="wsp_2")
    await house.store.commit(Batch((PutWorkspace(Workspace("wsp_2", "/work/there")), PutSession(other))))
    await house.engine.open_workspace("wsp_2")
    here, there = await house.accept("work"), await house.accept("work", session_id="ses_other")
    held = await house.accept("held")
    await house.gates.arrived("working")
    assert (
        house.engine.count_active(),
        house.engine.count_active("wsp_2"),
        house.engine.count_unfinished(WORKSPACE),
    ) == (2, 1, 2)
    await house.engine.close_workspace(WORKSPACE)
    assert (await house.ended(here)).reason == "server_stop"
    assert (house.engine.count_active(), house.engine.count_unfinished(WORKSPACE)) == (1, 0)
    house.gates.open("working")
    assert (await house.ended(there)).state == "completed"
    await house.engine.open_workspace(WORKSPACE)
    assert (await house.engine.queue("ses_1")).paused == "server_stop"
    await house.engine.resume("ses_1")
    assert (await house.ended(held)).state == "completed"


@pytest.mark.promise("W2")
async def test_unfinished_runs_are_counted_while_they_are_active_queued_or_held(house: House) -> None:
    house.turns.scripts |= turns_that_work().scripts
    assert house.engine.count_unfinished(WORKSPACE) == 0
    first = await house.accept("work")
    await house.accept("queued")
    await house.engine.pause("ses_1")
    await house.gates.arrived("working")
    assert (house.engine.count_unfinished(WORKSPACE), house.engine.count_active(WORKSPACE)) == (2, 1)
    house.gates.open("working")
    await house.ended(first)
    assert (house.engine.count_unfinished(WORKSPACE), house.engine.count_active(WORKSPACE)) == (1, 0)
    await house.engine.cancel_session("ses_1")
    await house.quiet()
    assert house.engine.count_unfinished(WORKSPACE) == 0
