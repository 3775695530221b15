"""Sub-agents: child runs that are watched and cancelled with their parent, and end before it."""

import asyncio
from pathlib import Path

import pytest
from msgspec.structs import replace

from holdfast.agent.protocol import Ending
from holdfast.errors import Conflict, StoreUnwritable, SubagentSession, ToolError
from holdfast.runs.lane.state import RunStopReason
from holdfast.schema.events import RunFinished, SessionCreated
from holdfast.schema.runs import Receipt, RunRequest
from tests.support.house import DEFAULT_LIMITS, House, LedgerSeam, opened
from tests.support.scripted import Actor


async def delegates(actor: Actor) -> Ending | None:
    """Has a sub-agent do what comes after its first word."""
    child = await actor.handle.start_subagent(
        RunRequest(prompt=actor.run.prompt.partition(" ")[2], agent="helper"), title="help"
    )
    ended = await child.ended()
    await actor.finish(f"it {ended.state}: {ended.text}")
    return None


async def works(actor: Actor) -> Ending | None:
    await actor.say("digging")
    await actor.gate("working")
    await actor.finish(" deeper")
    return None


@pytest.fixture(autouse=True)
def scripts(house: House) -> None:
    house.turns.scripts |= {"delegate": delegates, "work": works}


async def children(house: House) -> list[str]:
    created = [event.session for event in await house.events() if isinstance(event, SessionCreated)]
    return [session.id for session in created if session.parent_id is not None]


def lines(receipt: Receipt) -> list[tuple[str, str, str | None, str | None]]:
    return [(line.prompt, line.was, line.ended_as, line.reason) for line in receipt.runs]


async def test_a_sub_agent_runs_in_a_session_of_its_own_below_its_parent(house: House) -> None:
    accepted = await house.accept("delegate look")
    run = await house.ended(accepted)
    assert run.text == "it completed: you said look"
    (session_id,) = await children(house)
    child = await house.store.session(session_id)
    assert (child.parent_id, child.title) == ("ses_1", "help")
    (child_run,) = (await house.store.runs(session_id, limit=9)).items
    assert (child_run.parent_run_id, child_run.agent, child_run.client) == (run.id, "helper", "test")
    ends = [event.run.id for event in await house.events() if isinstance(event, RunFinished)]
    assert ends == [child_run.id, run.id]
    with pytest.raises(SubagentSession):
        await house.accept("hello", session_id=session_id)


@pytest.mark.promise("C8", "C3")
async def test_a_cancel_reaches_sub_agents_and_their_sub_agents_and_lists_them(house: House) -> None:
    await house.accept("delegate delegate work")
    await house.gates.arrived("working")
    receipt = await house.engine.cancel_session("ses_1")
    assert lines(receipt) == [
        ("delegate delegate work", "active", "cancelled", "user_cancel"),
        ("delegate work", "active", "cancelled", "parent_ended"),
        ("work", "active", "cancelled", "parent_ended"),
    ]
    assert receipt.runs[2].doing is not None
    assert receipt.runs[2].doing.what == "working"
    ends = [event.run.prompt for event in await house.events() if isinstance(event, RunFinished)]
    assert ends == ["work", "delegate work", "delegate delegate work"]


@pytest.mark.promise("C8", "C7")
async def test_a_sub_agent_is_stopped_at_once_also_while_its_parent_is_still_cleaning_up(house: House) -> None:
    @house.turns.on("busy")
    async def busy(actor: Actor) -> Ending | None:
        await actor.handle.start_subagent(RunRequest(prompt="work"), title="x")
        try:
            await actor.gates.pass_through("busy")
        finally:
            await actor.gates.pass_through("cleaning up")
        return None

    await house.accept("busy")
    await house.gates.arrived("busy")
    await house.gates.arrived("working")
    (child_session,) = await children(house)
    (child,) = (await house.store.runs(child_session, limit=9)).items
    cancelling = asyncio.create_task(house.engine.cancel_session("ses_1"))
    await house.gates.arrived("cleaning up")
    assert (await house.ended(child)).reason == "parent_ended"
    house.gates.open("cleaning up")
    assert [line.ended_as for line in (await cancelling).runs] == ["cancelled", "cancelled"]


@pytest.mark.promise("C4")
async def test_a_sub_agents_run_can_be_cancelled_by_itself(house: House) -> None:
    accepted = await house.accept("delegate work")
    await house.gates.arrived("working")
    (session_id,) = await children(house)
    (child,) = (await house.store.runs(session_id, limit=9)).items
    assert lines(await house.engine.cancel_run(child.id)) == [("work", "active", "cancelled", "user_cancel")]
    run = await house.ended(accepted)
    assert (run.state, run.text) == ("completed", "it cancelled: digging")


@pytest.mark.promise("W5")
async def test_a_stop_interrupts_sub_agents_too_and_before_their_parent(house: House) -> None:
    await house.accept("delegate work")
    await house.gates.arrived("working")
    await house.engine.stop()
    ends = [(e.run.prompt, e.run.state, e.run.reason) for e in await house.events() if isinstance(e, RunFinished)]
    assert ends == [
        ("work", "interrupted", "server_stop"),
        ("delegate work", "interrupted", "server_stop"),
    ]


async def test_a_run_that_ends_without_waiting_for_its_sub_agent_stops_it_first(house: House) -> None:
    @house.turns.on("careless")
    async def careless(actor: Actor) -> Ending | None:
        await actor.handle.start_subagent(RunRequest(prompt="work"), title="forgotten")
        await actor.gates.arrived("working")
        await actor.finish("bye")
        return None

    run = await house.ended(await house.accept("careless"))
    assert run.state == "completed"
    ends = [(event.run.prompt, event.run.reason) for event in await house.events() if isinstance(event, RunFinished)]
    assert ends == [("work", "parent_ended"), ("careless", "end_turn")]


async def test_depth_and_number_of_sub_agents_are_bounded(tmp_path: Path) -> None:
    async with opened(tmp_path / "own.db", limits=replace(DEFAULT_LIMITS, live_subagents=2, subagent_depth=1)) as house:
        await house.session()
        house.turns.scripts |= {"work": works, "delegate": delegates}
        refused: list[str] = []

        @house.turns.on("many")
        async def many(actor: Actor) -> Ending | None:
            first = [await actor.handle.start_subagent(RunRequest(prompt="work"), title="x") for _ in range(2)]
            with pytest.raises(ToolError) as caught:
                await actor.handle.start_subagent(RunRequest(prompt="work"), title="x")
            refused.append(caught.value.message)
            actor.gates.open("working")
            for child in first:
                await child.ended()
            await actor.handle.start_subagent(RunRequest(prompt="quick"), title="x")
            await actor.finish("done")
            return None

        assert (await house.ended(await house.accept("many"))).state == "completed"
        assert refused == ["2 sub-agents are running already; wait for one of them to end"]
        deep = await house.ended(await house.accept("delegate delegate work"))
        assert deep.text == "it failed: "


@pytest.mark.promise("C1", "C8")
async def test_a_sub_agent_that_is_being_made_when_the_cancel_comes_is_cancelled_too(house: House) -> None:
    for turns in range(12):
        accepted = await house.accept("delegate work")
        await house.until(lambda: house.engine.count_active() > 0)
        for _ in range(turns):
            await asyncio.sleep(0)
        await house.engine.cancel_session("ses_1")
        assert (await house.ended(accepted)).state == "cancelled"
        assert house.engine.count_active() == 0
    assert await house.store.unfinished_runs() == ()


@pytest.mark.promise("R14")
async def test_a_sub_agent_that_cannot_be_written_does_not_start(tmp_path: Path) -> None:
    async with opened(tmp_path / "own.db", seam=True) as house:
        await house.session()
        assert isinstance(house.store, LedgerSeam)
        ledger = house.store

        @house.turns.on("try")
        async def attempt(actor: Actor) -> Ending | None:
            ledger.refuse()
            with pytest.raises(StoreUnwritable):
                await actor.handle.start_subagent(RunRequest(prompt="work"), title="x")
            ledger.refusing = None
            await actor.finish("went on alone")
            return None

        run = await house.ended(await house.accept("try"))
        assert run.text == "went on alone"
        assert len(house.turns.started) == 1
        assert len(house.engine._state.mailboxes) == 0


@pytest.mark.promise("R14", "C7")
async def test_a_sub_agent_that_could_not_be_written_does_not_hold_up_its_cancelled_parent(tmp_path: Path) -> None:
    async with opened(tmp_path / "own.db", seam=True) as house:
        await house.session()
        house.turns.scripts |= {"delegate": delegates, "work": works}
        assert isinstance(house.store, LedgerSeam)
        ledger = house.store

        @house.turns.on("slowly")
        async def slowly(actor: Actor) -> Ending | None:
            await actor.gates.pass_through("before the child")
            return await delegates(actor)

        accepted = await house.accept("slowly work")
        await house.gates.arrived("before the child")
        active = house.engine._state.active_runs[accepted.run.id]
        ledger.open.clear()
        house.gates.open("before the child")
        await house.until(lambda: len(active.subagents) == 1)
        ledger.refuse_held = True
        active.stop("user_cancel")
        await house.until(lambda: not house.turns.running["ses_1"])
        ledger.open.set()
        run = await house.ended(accepted)
        assert (run.state, len(house.turns.started)) == ("cancelled", 1)


@pytest.mark.promise("C7", "R14")
async def test_sub_agents_stop_with_their_parent_also_when_the_ledger_cannot_take_their_stop(tmp_path: Path) -> None:
    async with opened(tmp_path / "own.db", seam=True) as house:
        await house.session()
        house.turns.scripts |= {"delegate": delegates, "work": works}
        assert isinstance(house.store, LedgerSeam)
        ledger = house.store
        accepted = await house.accept("delegate work")
        await house.gates.arrived("working")
        parent = house.engine._state.active_runs[accepted.run.id]
        ((run_id, stop),) = parent.subagents.items()
        cancelled = asyncio.create_task(house.engine.cancel_session("ses_1"))

        def refuse_then_stop(reason: RunStopReason) -> None:
            parent.subagents[run_id] = stop
            ledger.refuse()
            stop(reason)

        parent.subagents[run_id] = refuse_then_stop
        await house.until(lambda: ledger.refused > 2)
        (child,) = await children(house)
        assert house.turns.running[child] == []
        ledger.refusing = None
        states = [(line.ended_as, line.reason) for line in (await cancelled).runs]
        assert states == [("cancelled", "user_cancel"), ("cancelled", "parent_ended")]


async def test_a_seat_is_of_no_use_after_the_runs_end(house: House) -> None:
    seats: list[Actor] = []

    @house.turns.on("keep")
    async def keep(actor: Actor) -> Ending | None:
        seats.append(actor)
        await actor.finish("done")
        return None

    await house.ended(await house.accept("keep"))
    before = house.store.last_number
    for attempt in (seats[0].say("more"), seats[0].finish("again")):
        with pytest.raises(Conflict):
            await attempt
    assert house.store.last_number == before
