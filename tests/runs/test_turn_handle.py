"""The turn handle: steers join at step boundaries, and a turn writes nothing after the end of its run."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from holdfast.agent.protocol import Ending
from holdfast.errors import Conflict, StoreUnreachable
from holdfast.schema.events import MessageFinished, RunFinished, RunJoined
from holdfast.schema.messages import Text, ToolCall
from holdfast.schema.runs import Ended, GoOn, Outcome, RunRequest
from holdfast.store.writes import EndRun, PutMessage, SetLane, UpdateRun
from tests.support.engine_harness import ControlledStore, EngineHarness, open_harness
from tests.support.scripted_turns import TurnActions, answer_prompt


async def two_steps(turn: TurnActions) -> Ending | None:
    await turn.gate("first")
    await turn.tool("look")
    await turn.gate("second")
    return await answer_prompt(turn)


@pytest.fixture(autouse=True)
def scripts(harness: EngineHarness) -> None:
    harness.turns.scripts["host"] = two_steps


@pytest.mark.promise("R6", "R2")
async def test_steers_join_at_the_next_boundary_in_order_and_their_messages_are_in_the_same_commit(
    harness: EngineHarness,
) -> None:
    hosting = await harness.accept("host")
    await harness.gates.arrived("first")
    told: list[tuple[str, ...]] = []
    harness.store.listen(lambda events: told.append(tuple(event.kind for event in events)))
    one = await harness.accept("one", delivery="steer")
    two = await harness.accept("two", delivery="steer")
    assert [(steer.decision, steer.host_run_id) for steer in (one, two)] == [("steered", hosting.run.id)] * 2
    harness.gates.open("first")
    await harness.gates.arrived("second")
    assert (
        "message.finished",
        "run.joined",
        "message.created",
        "run.joined",
        "message.created",
        "queue.changed",
    ) in told
    said = [message.parts for message in await harness.messages() if message.role == "user"]
    assert said == [(Text("host"),), (Text("one"),), (Text("two"),)]
    harness.gates.open("second")
    await harness.ended(hosting)
    assert len(harness.turns.started) == 1


@pytest.mark.promise("R7")
async def test_joined_runs_end_in_the_commit_of_their_host_with_its_state_and_id(harness: EngineHarness) -> None:
    hosting = await harness.accept("host")
    await harness.gates.arrived("first")
    steer = await harness.accept("one", delivery="steer")
    harness.gates.open("first")
    harness.gates.open("second")
    host, joined = await harness.ended(hosting), await harness.ended(steer)
    assert (joined.state, joined.reason, joined.host_run_id) == ("completed", "end_turn", host.id)
    assert (joined.text, joined.message_id) == (host.text, host.message_id)
    ends = [event.run.id for event in await harness.events() if isinstance(event, RunFinished)]
    assert ends == [host.id, joined.id]


@pytest.mark.promise("R6")
async def test_a_last_step_without_tool_calls_is_a_boundary_too(harness: EngineHarness) -> None:
    @harness.turns.on("short")
    async def short(turn: TurnActions) -> Ending | None:
        await turn.gate("last step")
        assert isinstance(await turn.finish("almost done"), GoOn)
        assert isinstance(await turn.finish("now done"), Ended)
        return None

    hosting = await harness.accept("short")
    await harness.gates.arrived("last step")
    steer = await harness.accept("one more thing", delivery="steer")
    harness.gates.open("last step")
    assert (await harness.ended(steer)).text == "now done"
    assert [event.run.host_run_id for event in await harness.events() if isinstance(event, RunJoined)] == [
        hosting.run.id
    ]


@pytest.mark.promise("R6")
async def test_a_steer_is_queued_when_there_is_nothing_it_could_join(harness: EngineHarness) -> None:
    assert (await harness.accept("idle", delivery="steer")).decision == "started"
    await harness.quiet()
    await harness.accept("host")
    await harness.gates.arrived("first")
    other_model = await harness.accept("other", delivery="steer", model="x/y")
    assert (other_model.decision, other_model.position) == ("queued", 1)
    harness.gates.open("first")
    harness.gates.open("second")
    await harness.ended(other_model)

    @harness.turns.on("compact")
    async def compact(turn: TurnActions) -> Ending | None:
        await turn.gate("compacting")
        await turn.finish("done")
        return None

    await harness.engine.accept("ses_1", RunRequest(kind="compact"), client="", body_hash="")
    await harness.gates.arrived("compacting")
    assert (await harness.accept("during", delivery="steer")).decision == "queued"
    harness.gates.open("compacting")


@pytest.mark.promise("R6", "R5")
async def test_steers_that_did_not_join_move_to_the_head_of_the_queue(harness: EngineHarness) -> None:
    @harness.turns.on("limited")
    async def limited(turn: TurnActions) -> Ending | None:
        await turn.gate("at the limit")
        return Ending(Outcome("failed", "limit_steps"))

    await harness.accept("limited")
    await harness.gates.arrived("at the limit")
    queued = await harness.accept("queued before")
    one = await harness.accept("one", delivery="steer")
    two = await harness.accept("two", delivery="steer")
    harness.gates.open("at the limit")
    for run in (one, two, queued):
        assert (await harness.ended(run)).state == "completed"
    assert harness.turns.started[1:] == [one.run.id, two.run.id, queued.run.id]


@pytest.mark.promise("R6", "C1")
async def test_the_prompt_of_a_joined_steer_is_stored_once_if_the_host_is_cancelled(harness: EngineHarness) -> None:
    await harness.accept("host")
    await harness.gates.arrived("first")
    await harness.accept("one", delivery="steer")
    harness.gates.open("first")
    await harness.gates.arrived("second")
    await harness.engine.cancel_session("ses_1")
    said = [message.parts for message in await harness.messages() if message.role == "user"]
    assert said == [(Text("host"),), (Text("one"),)]
    assert not any(message.unsent for message in await harness.messages())
    last = (await harness.messages())[-1]
    assert last.role == "assistant"


async def test_a_turn_handle_cannot_write_after_the_end_of_the_run(harness: EngineHarness) -> None:
    kept: list[TurnActions] = []

    @harness.turns.on("keep")
    async def keep(turn: TurnActions) -> Ending | None:
        kept.append(turn)
        await turn.finish("done")
        return None

    await harness.ended(await harness.accept("keep"))
    before = harness.store.last_number
    for attempt in (kept[0].say("more"), kept[0].finish("again")):
        with pytest.raises(Conflict):
            await attempt
    assert harness.store.last_number == before


@pytest.mark.promise("E3", "E5")
async def test_subscribers_get_text_and_progress_until_the_run_ends(harness: EngineHarness) -> None:
    kept: list[TurnActions] = []

    @harness.turns.on("talk")
    async def talk(turn: TurnActions) -> Ending | None:
        kept.append(turn)
        await turn.say("Once ")
        await turn.gate("midway")
        await turn.say("more")
        await turn.finish()
        return None

    accepted = await harness.accept("talk")
    await harness.gates.arrived("midway")
    seen: list[str] = []
    with harness.hub.subscribe(session_id="ses_1") as stream:
        async for item in stream:
            seen.append(item.kind)
            if item.kind == "snapshot":
                harness.gates.open("midway")
            if item.kind == "run.finished":
                break
        message_id = (await harness.ended(accepted)).message_id
        assert message_id is not None
        kept[0].handle.delta(message_id, 0, text="too late")
        kept[0].handle.progress("tool", "too late")
        harness.hub.send_heartbeat()
        async for item in stream:
            seen.append(item.kind)
            if item.kind == "heartbeat":
                break
    assert seen[:2] == ["hello", "snapshot"]
    assert {"delta", "run.progress"} <= set(seen)
    assert seen[-3:] == ["message.finished", "run.finished", "heartbeat"]


async def test_usage_is_summed_over_steps_in_the_run_and_the_session(harness: EngineHarness) -> None:
    @harness.turns.on("steps")
    async def steps(turn: TurnActions) -> Ending | None:
        await turn.tool("look")
        await turn.tool("look")
        assert turn.run.steps == 2
        await turn.finish("done")
        return None

    run = await harness.ended(await harness.accept("steps"))
    assert (run.steps, run.usage.input, run.usage.output) == (3, 30, 7)
    assert (await harness.store.session("ses_1")).usage == run.usage
    (day,) = await harness.store.usage_stats(since="2000-01-01", until="2999-01-01")
    assert (day.runs, day.steps, day.usage) == (1, 3, run.usage)


@pytest.mark.parametrize(
    "write",
    [
        EndRun(run_id="x", outcome=Outcome("completed", "end_turn"), finished_at=""),
        UpdateRun(run_id="x", state="queued"),
        SetLane(None),  # type: ignore[arg-type]
    ],
)
@pytest.mark.promise("R4")
async def test_a_turn_cannot_write_what_only_the_lane_writes(harness: EngineHarness, write: Any) -> None:
    caught: list[Exception] = []

    @harness.turns.on("meddles")
    async def meddles(turn: TurnActions) -> Ending | None:
        try:
            await turn.handle.commit([write])
        except TypeError as error:
            caught.append(error)
        await turn.finish("done")
        return None

    assert (await harness.ended(await harness.accept("meddles"))).state == "completed"
    assert len(caught) == 1


async def test_a_turn_knows_the_result_of_a_commit_that_a_cancel_interrupts(tmp_path: Path) -> None:
    async with open_harness(tmp_path / "own.db", controlled=True) as harness:
        await harness.session()
        assert isinstance(harness.store, ControlledStore)
        store, known = harness.store, list[int]()

        @harness.turns.on("commits")
        async def commits(turn: TurnActions) -> Ending | None:
            await turn.gates.pass_through("store is held")
            first = asyncio.ensure_future(turn.handle.commit([PutMessage(turn.new_message(Text("first")))]))
            await asyncio.sleep(0)  # it is posted
            try:
                await turn.handle.commit([PutMessage(turn.new_message(Text("second")))])
            finally:
                known.append(store.committed - before)
                await first
            return None

        await harness.accept("commits")
        store.open.clear()
        before = store.committed
        await harness.gates.arrived("store is held")
        harness.gates.open("store is held")
        mailbox = harness.engine._state.mailboxes["ses_1"]
        await harness.until(lambda: len(mailbox._requests) == 2)
        cancelling = asyncio.create_task(harness.engine.cancel_session("ses_1"))
        await harness.until(lambda: len(mailbox._requests) == 3)
        store.open.set()
        await cancelling
        assert known == [2], "both messages are written before the turn ends, and the turn knows it"
        said = [message.parts[0] for message in await harness.messages() if message.role == "assistant"]
        assert said[:2] == [Text("first"), Text("second")]


async def test_messages_of_a_boundary_are_published_as_finished_if_a_steer_joins(harness: EngineHarness) -> None:
    @harness.turns.on("host")
    async def host(turn: TurnActions) -> Ending | None:
        await turn.gate("before")
        crossing = await turn.finish("first answer")
        assert isinstance(crossing, GoOn)
        await turn.finish("second answer")
        return None

    await harness.accept("host")
    await harness.gates.arrived("before")
    steer = await harness.accept("more", delivery="steer")
    harness.gates.open("before")
    await harness.ended(steer)
    finished = [event.message for event in await harness.events() if isinstance(event, MessageFinished)]
    assert [message.parts[0] for message in finished] == [Text("first answer"), Text("second answer")]


async def refused_twice(store: ControlledStore) -> None:
    """Return when the store has refused a commit and then a retry."""
    for _ in range(2):
        store.was_refused.clear()
        await store.was_refused.wait()


@pytest.mark.promise("R14")
async def test_a_turn_waits_for_a_database_that_does_not_answer(tmp_path: Path) -> None:
    """The prompts of others are refused meanwhile; the turn goes on when the database is back."""
    async with open_harness(tmp_path / "controlled.db", controlled=True) as harness:
        await harness.session()
        harness.turns.scripts["host"] = two_steps
        hosting = await harness.accept("host")
        await harness.gates.arrived("first")
        store = harness.store
        assert isinstance(store, ControlledStore)
        store.refusing = StoreUnreachable("the database does not answer")
        harness.gates.open("first")
        await refused_twice(store)
        with pytest.raises(StoreUnreachable):
            await harness.accept("another")
        store.refusing = None
        await harness.gates.arrived("second")
        harness.gates.open("second")
        assert (await harness.ended(hosting)).state == "completed"
        calls = [part for message in await harness.messages() for part in message.parts if isinstance(part, ToolCall)]
        assert len(calls) == 1


@pytest.mark.promise("R14", "C1")
async def test_a_turn_that_waits_for_the_database_can_be_stopped(tmp_path: Path) -> None:
    async with open_harness(tmp_path / "controlled.db", controlled=True) as harness:
        await harness.session()
        harness.turns.scripts["host"] = two_steps
        hosting = await harness.accept("host")
        await harness.gates.arrived("first")
        store = harness.store
        assert isinstance(store, ControlledStore)
        store.refusing = StoreUnreachable("the database does not answer")
        harness.gates.open("first")
        await refused_twice(store)
        harness.engine.stop_turns()
        store.refusing = None
        assert (await harness.ended(hosting)).state == "interrupted"


async def test_a_run_is_starting_from_its_first_events_on_and_for_streams_that_come_later(
    harness: EngineHarness,
) -> None:
    may_begin = asyncio.Event()

    @harness.turns.on("slow")
    async def slow(turn: TurnActions) -> Ending | None:
        await may_begin.wait()
        return await answer_prompt(turn)

    stream = harness.hub.subscribe()
    await stream.read_batch()
    reading = asyncio.create_task(stream.read_batch())
    accepted = await harness.accept("slow")
    assert [item.kind for item in await reading] == ["run.accepted", "run.started", "message.created", "run.progress"]
    later = await harness.hub.subscribe().read_batch()
    assert [item.kind for item in later] == ["hello", "run.progress"]
    assert b'"phase":"starting"' in later[-1].body
    may_begin.set()
    await harness.ended(accepted)
