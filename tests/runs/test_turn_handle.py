"""Step boundaries: steers join the active turn, or become their own runs."""

import pytest

from holdfast.agent.protocol import Ending
from holdfast.schema.events import RunFinished, RunJoined
from holdfast.schema.messages import Text
from holdfast.schema.runs import Ended, GoOn, Outcome, RunRequest
from tests.support.engine_harness import EngineHarness
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
