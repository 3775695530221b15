"""Sub-agents: their runs are cancelled with their parent and end before it."""

import asyncio
from pathlib import Path

import pytest
from msgspec.structs import replace

from holdfast.agent.protocol import Ending
from holdfast.errors import StoreUnwritable, SubagentSession, ToolError
from holdfast.runs.lane.state import RunStopReason
from holdfast.schema.events import RunFinished, SessionCreated
from holdfast.schema.runs import Receipt, RunRequest
from tests.support.engine_harness import DEFAULT_LIMITS, ControlledStore, EngineHarness, open_harness
from tests.support.scripted_turns import TurnActions


async def delegates(turn: TurnActions) -> Ending | None:
    """Start a sub-agent with the prompt after the first word."""
    subagent = await turn.handle.start_subagent(
        RunRequest(prompt=turn.run.prompt.partition(" ")[2], agent="helper"), title="help"
    )
    ended = await subagent.ended()
    await turn.finish(f"it {ended.state}: {ended.text}")
    return None


async def works(turn: TurnActions) -> Ending | None:
    await turn.say("digging")
    await turn.gate("working")
    await turn.finish(" deeper")
    return None


@pytest.fixture(autouse=True)
def scripts(harness: EngineHarness) -> None:
    harness.turns.scripts |= {"delegate": delegates, "work": works}


async def subagent_sessions(harness: EngineHarness) -> list[str]:
    created = [event.session for event in await harness.events() if isinstance(event, SessionCreated)]
    return [session.id for session in created if session.parent_id is not None]


def lines(receipt: Receipt) -> list[tuple[str, str, str | None, str | None]]:
    return [(line.prompt, line.was, line.ended_as, line.reason) for line in receipt.runs]


async def test_a_sub_agent_runs_in_its_own_child_session(harness: EngineHarness) -> None:
    accepted = await harness.accept("delegate look")
    run = await harness.ended(accepted)
    assert run.text == "it completed: you said look"
    (session_id,) = await subagent_sessions(harness)
    subagent = await harness.store.session(session_id)
    assert (subagent.parent_id, subagent.title) == ("ses_1", "help")
    (subagent_run,) = (await harness.store.runs(session_id, limit=9)).items
    assert (subagent_run.parent_run_id, subagent_run.agent, subagent_run.client) == (run.id, "helper", "test")
    ends = [event.run.id for event in await harness.events() if isinstance(event, RunFinished)]
    assert ends == [subagent_run.id, run.id]
    with pytest.raises(SubagentSession):
        await harness.accept("hello", session_id=session_id)


@pytest.mark.promise("C8", "C3")
async def test_a_cancel_covers_and_lists_nested_sub_agents(harness: EngineHarness) -> None:
    await harness.accept("delegate delegate work")
    await harness.gates.arrived("working")
    receipt = await harness.engine.cancel_session("ses_1")
    assert lines(receipt) == [
        ("delegate delegate work", "active", "cancelled", "user_cancel"),
        ("delegate work", "active", "cancelled", "parent_ended"),
        ("work", "active", "cancelled", "parent_ended"),
    ]
    assert receipt.runs[2].doing is not None
    assert receipt.runs[2].doing.what == "working"
    ends = [event.run.prompt for event in await harness.events() if isinstance(event, RunFinished)]
    assert ends == ["work", "delegate work", "delegate delegate work"]


@pytest.mark.promise("C8", "C7")
async def test_a_sub_agent_is_stopped_while_its_parent_is_still_cleaning_up(
    harness: EngineHarness,
) -> None:
    @harness.turns.on("busy")
    async def busy(turn: TurnActions) -> Ending | None:
        await turn.handle.start_subagent(RunRequest(prompt="work"), title="x")
        try:
            await turn.gates.pass_through("busy")
        finally:
            await turn.gates.pass_through("cleaning up")
        return None

    await harness.accept("busy")
    await harness.gates.arrived("busy")
    await harness.gates.arrived("working")
    (child_session,) = await subagent_sessions(harness)
    (subagent,) = (await harness.store.runs(child_session, limit=9)).items
    cancelling = asyncio.create_task(harness.engine.cancel_session("ses_1"))
    await harness.gates.arrived("cleaning up")
    assert (await harness.ended(subagent)).reason == "parent_ended"
    harness.gates.open("cleaning up")
    assert [line.ended_as for line in (await cancelling).runs] == ["cancelled", "cancelled"]


@pytest.mark.promise("C4")
async def test_the_run_of_a_sub_agent_can_be_cancelled_alone(harness: EngineHarness) -> None:
    accepted = await harness.accept("delegate work")
    await harness.gates.arrived("working")
    (session_id,) = await subagent_sessions(harness)
    (subagent,) = (await harness.store.runs(session_id, limit=9)).items
    assert lines(await harness.engine.cancel_run(subagent.id)) == [("work", "active", "cancelled", "user_cancel")]
    run = await harness.ended(accepted)
    assert (run.state, run.text) == ("completed", "it cancelled: digging")


@pytest.mark.promise("W5")
async def test_a_server_stop_interrupts_sub_agents_before_their_parent(harness: EngineHarness) -> None:
    await harness.accept("delegate work")
    await harness.gates.arrived("working")
    await harness.engine.stop()
    ends = [(e.run.prompt, e.run.state, e.run.reason) for e in await harness.events() if isinstance(e, RunFinished)]
    assert ends == [
        ("work", "interrupted", "server_stop"),
        ("delegate work", "interrupted", "server_stop"),
    ]


async def test_a_run_that_does_not_wait_for_its_sub_agent_stops_it_before_it_ends(harness: EngineHarness) -> None:
    @harness.turns.on("careless")
    async def careless(turn: TurnActions) -> Ending | None:
        await turn.handle.start_subagent(RunRequest(prompt="work"), title="forgotten")
        await turn.gates.arrived("working")
        await turn.finish("bye")
        return None

    run = await harness.ended(await harness.accept("careless"))
    assert run.state == "completed"
    ends = [(event.run.prompt, event.run.reason) for event in await harness.events() if isinstance(event, RunFinished)]
    assert ends == [("work", "parent_ended"), ("careless", "end_turn")]


async def test_depth_and_number_of_sub_agents_are_limited(tmp_path: Path) -> None:
    async with open_harness(
        tmp_path / "own.db", limits=replace(DEFAULT_LIMITS, live_subagents=2, subagent_depth=1)
    ) as harness:
        await harness.session()
        harness.turns.scripts |= {"work": works, "delegate": delegates}
        refused: list[str] = []

        @harness.turns.on("many")
        async def many(turn: TurnActions) -> Ending | None:
            first = [await turn.handle.start_subagent(RunRequest(prompt="work"), title="x") for _ in range(2)]
            with pytest.raises(ToolError) as caught:
                await turn.handle.start_subagent(RunRequest(prompt="work"), title="x")
            refused.append(caught.value.message)
            turn.gates.open("working")
            for subagent in first:
                await subagent.ended()
            await turn.handle.start_subagent(RunRequest(prompt="quick"), title="x")
            await turn.finish("done")
            return None

        assert (await harness.ended(await harness.accept("many"))).state == "completed"
        assert refused == ["2 sub-agents are running already; wait for one of them to end"]
        deep = await harness.ended(await harness.accept("delegate delegate work"))
        assert deep.text == "it failed: "


@pytest.mark.promise("C1", "C8")
async def test_a_cancel_covers_a_sub_agent_that_is_being_started(harness: EngineHarness) -> None:
    for turns in range(12):
        accepted = await harness.accept("delegate work")
        await harness.until(lambda: harness.engine.count_active() > 0)
        for _ in range(turns):
            await asyncio.sleep(0)
        await harness.engine.cancel_session("ses_1")
        assert (await harness.ended(accepted)).state == "cancelled"
        assert harness.engine.count_active() == 0
    assert await harness.store.unfinished_runs() == ()


@pytest.mark.promise("R14")
async def test_a_sub_agent_that_cannot_be_written_does_not_start(tmp_path: Path) -> None:
    async with open_harness(tmp_path / "own.db", controlled=True) as harness:
        await harness.session()
        assert isinstance(harness.store, ControlledStore)
        store = harness.store

        @harness.turns.on("try")
        async def attempt(turn: TurnActions) -> Ending | None:
            store.refuse()
            with pytest.raises(StoreUnwritable):
                await turn.handle.start_subagent(RunRequest(prompt="work"), title="x")
            store.refusing = None
            await turn.finish("went on alone")
            return None

        run = await harness.ended(await harness.accept("try"))
        assert run.text == "went on alone"
        assert len(harness.turns.started) == 1
        assert len(harness.engine._state.mailboxes) == 0


@pytest.mark.promise("R14", "C7")
async def test_a_sub_agent_that_cannot_be_written_does_not_delay_its_cancelled_parent(tmp_path: Path) -> None:
    async with open_harness(tmp_path / "own.db", controlled=True) as harness:
        await harness.session()
        harness.turns.scripts |= {"delegate": delegates, "work": works}
        assert isinstance(harness.store, ControlledStore)
        store = harness.store

        @harness.turns.on("slowly")
        async def slowly(turn: TurnActions) -> Ending | None:
            await turn.gates.pass_through("before the child")
            return await delegates(turn)

        accepted = await harness.accept("slowly work")
        await harness.gates.arrived("before the child")
        active = harness.engine._state.active_runs[accepted.run.id]
        store.open.clear()
        harness.gates.open("before the child")
        await harness.until(lambda: len(active.subagents) == 1)
        store.refuse_held = True
        active.stop("user_cancel")
        await harness.until(lambda: not harness.turns.running["ses_1"])
        store.open.set()
        run = await harness.ended(accepted)
        assert (run.state, len(harness.turns.started)) == ("cancelled", 1)


@pytest.mark.promise("C7", "R14")
async def test_sub_agents_stop_with_their_parent_if_their_stop_cannot_be_written(tmp_path: Path) -> None:
    async with open_harness(tmp_path / "own.db", controlled=True) as harness:
        await harness.session()
        harness.turns.scripts |= {"delegate": delegates, "work": works}
        assert isinstance(harness.store, ControlledStore)
        store = harness.store
        accepted = await harness.accept("delegate work")
        await harness.gates.arrived("working")
        parent = harness.engine._state.active_runs[accepted.run.id]
        ((run_id, stop),) = parent.subagents.items()
        cancelled = asyncio.create_task(harness.engine.cancel_session("ses_1"))

        def refuse_then_stop(reason: RunStopReason) -> None:
            parent.subagents[run_id] = stop
            store.refuse()
            stop(reason)

        parent.subagents[run_id] = refuse_then_stop
        await harness.until(lambda: store.refused > 2)
        (session_id,) = await subagent_sessions(harness)
        assert harness.turns.running[session_id] == []
        assert [(line.stopped, line.ended_as) for line in (await cancelled).runs] == [(True, None), (True, None)]
        store.refusing = None
        ends = [await harness.ended(accepted), await harness.ended(run_id)]
        assert [(run.state, run.reason) for run in ends] == [
            ("cancelled", "user_cancel"),
            ("cancelled", "parent_ended"),
        ]
