"""If the ledger cannot be written, nothing moves; when it can be again, everything goes on (`R14`)."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from holdfast.agent.protocol import Ending
from holdfast.errors import StoreUnwritable
from holdfast.schema.events import RunFinished
from holdfast.schema.messages import Text
from holdfast.schema.runs import Outcome
from tests.support.house import LONG_LIMITS, House, LedgerSeam, opened
from tests.support.scripted import Actor


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    async with opened(tmp_path / "holdfast.db", seam=True) as house:
        await house.session()
        yield house


@pytest.fixture
def ledger(house: House) -> LedgerSeam:
    assert isinstance(house.store, LedgerSeam)
    return house.store


async def ends(house: House) -> list[str]:
    return [event.run.id for event in await house.events() if isinstance(event, RunFinished)]


@pytest.mark.promise("R14")
async def test_no_tool_starts_before_its_row_is_committed(house: House, ledger: LedgerSeam) -> None:
    ran: list[str] = []

    @house.turns.on("tools")
    async def tools(actor: Actor) -> Ending | None:
        await actor.gate("before the tool")
        await actor.tool("bash", lambda: ran.append("bash"))
        return None

    accepted = await house.accept("tools")
    await house.gates.arrived("before the tool")
    ledger.refuse()
    house.gates.open("before the tool")
    await house.until(lambda: ledger.refused > 2)
    assert ran == []
    ledger.refusing = None
    run = await house.ended(accepted)
    assert (run.state, run.reason) == ("failed", "store")
    assert ran == []


@pytest.mark.promise("R14", "R7")
async def test_an_end_that_cannot_be_written_keeps_the_run_stopping_until_it_can(
    house: House, ledger: LedgerSeam
) -> None:
    @house.turns.on("ends")
    async def ending(actor: Actor) -> Ending | None:
        await actor.say("all of it")
        await actor.gate("before the end")
        message = actor.closed()
        return Ending(Outcome("completed", "end_turn", text="all of it", message_id=message.id), (message,))

    @house.turns.on("next")
    async def following(actor: Actor) -> Ending | None:
        await actor.gate("next")
        await actor.finish("done")
        return None

    accepted = await house.accept("ends")
    queued = await house.accept("next")
    await house.gates.arrived("before the end")
    ledger.refuse()
    house.gates.open("before the end")
    await house.until(lambda: ledger.refused > 3)
    shown = await house.engine.get_run(accepted.run.id)
    assert shown.state == "stopping"
    assert shown.now is not None
    assert (shown.now.phase, shown.now.what) == ("store", "the ledger cannot be written: disk full")
    assert (await house.engine.get_run(queued.run.id)).state == "queued"
    assert await ends(house) == []
    ledger.refusing = None
    run = await house.ended(accepted)
    assert (run.state, run.text) == ("completed", "all of it")
    await house.gates.arrived("next")
    shown = await house.engine.get_run(queued.run.id)
    assert (shown.state, shown.now and shown.now.phase) == ("active", "tool")
    house.gates.open("next")
    assert (await house.ended(queued)).state == "completed"
    assert await ends(house) == [run.id, queued.run.id]


@pytest.mark.promise("R14")
async def test_an_end_proposed_at_a_boundary_is_retried_too_and_the_turn_waits_for_it(
    house: House, ledger: LedgerSeam
) -> None:
    @house.turns.on("ends")
    async def ending(actor: Actor) -> Ending | None:
        await actor.say("well")
        await actor.gate("before the end")
        await actor.finish()
        return None

    accepted = await house.accept("ends")
    await house.gates.arrived("before the end")
    ledger.refuse()
    house.gates.open("before the end")
    await house.until(lambda: ledger.refused > 3)
    assert (await house.engine.get_run(accepted.run.id)).state == "stopping"
    ledger.refusing = None
    run = await house.ended(accepted)
    assert (run.state, run.reason, run.text) == ("completed", "end_turn", "well")


@pytest.mark.promise("R14")
async def test_while_an_end_waits_everything_else_of_the_lane_is_refused(house: House, ledger: LedgerSeam) -> None:
    await house.session("ses_2")

    @house.turns.on("ends")
    async def ending(actor: Actor) -> Ending | None:
        await actor.gate("before the end")
        return Ending(Outcome("completed", "end_turn"))

    accepted = await house.accept("ends")
    queued = await house.accept("next")
    await house.gates.arrived("before the end")
    ledger.refuse()
    house.gates.open("before the end")
    await house.until(lambda: ledger.refused > 0)
    for attempt in (
        house.accept("more"),
        house.accept("more", delivery="steer"),
        house.engine.cancel_session("ses_1"),
        house.engine.pause("ses_1"),
        house.engine.change_queued(queued.run.id, prompt="other"),
        house.accept("elsewhere", session_id="ses_2"),
    ):
        with pytest.raises(StoreUnwritable):
            await attempt
    assert (await house.store.lane("ses_1")).lane.next_seq == 3
    ledger.refusing = None
    assert (await house.ended(accepted)).state == "completed"
    assert (await house.ended(queued)).state == "completed"
    assert len(house.turns.started) == 2


@pytest.mark.promise("R14", "C1")
async def test_a_cancelled_run_whose_end_cannot_be_written_ends_cancelled_later(
    house: House, ledger: LedgerSeam
) -> None:
    @house.turns.on("work")
    async def work(actor: Actor) -> Ending | None:
        await actor.say("partial")
        try:
            await actor.gate("working")
        finally:
            ledger.refuse()
        return None

    accepted = await house.accept("work")
    await house.gates.arrived("working")
    cancelling = asyncio.create_task(house.engine.cancel_session("ses_1"))
    await house.until(lambda: ledger.refused > 1)
    assert (await house.engine.get_run(accepted.run.id)).state == "stopping"
    ledger.refusing = None
    (line,) = (await cancelling).runs
    assert line.ended_as == "cancelled"
    assert (await house.messages())[-1].parts[0] == Text("partial")


@pytest.mark.promise("W5", "R14", "W6")
async def test_a_stop_does_not_wait_for_a_ledger_that_cannot_be_written_and_the_next_start_ends_the_run(
    tmp_path: Path,
) -> None:
    path = tmp_path / "own.db"
    short = replace(LONG_LIMITS, shutdown_seconds=0.05, stop_seconds=0.05)
    async with opened(path, seam=True, limits=short) as house:
        await house.session()
        assert isinstance(house.store, LedgerSeam)

        @house.turns.on("work")
        async def work(actor: Actor) -> Ending | None:
            await actor.say("partial")
            await actor.gate("working")
            return None

        accepted = await house.accept("work")
        await house.gates.arrived("working")
        house.store.refuse()
        await house.engine.stop()
        assert not house.engine._state.tasks
    async with opened(path) as house:
        run = await house.engine.get_run(accepted.run.id)
        assert (run.state, run.reason, run.text) == ("interrupted", "server_crash", "partial")
