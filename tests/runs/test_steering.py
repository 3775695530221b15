"""Steers join the running turn at its next boundary, or become runs of their own."""

import pytest

from holdfast.agent.protocol import Ending
from holdfast.schema.events import RunFinished, RunJoined
from holdfast.schema.messages import Text
from holdfast.schema.runs import Ended, GoOn, Outcome, RunRequest
from tests.support.house import House
from tests.support.scripted import Actor, answer


async def two_steps(actor: Actor) -> Ending | None:
    await actor.gate("first")
    await actor.tool("look")
    await actor.gate("second")
    return await answer(actor)


@pytest.fixture(autouse=True)
def scripts(house: House) -> None:
    house.turns.scripts["host"] = two_steps


@pytest.mark.promise("R6", "R2")
async def test_steers_join_at_the_next_boundary_in_order_with_their_messages_in_that_commit(house: House) -> None:
    hosting = await house.accept("host")
    await house.gates.arrived("first")
    told: list[tuple[str, ...]] = []
    house.store.listen(lambda events: told.append(tuple(event.kind for event in events)))
    one = await house.accept("one", delivery="steer")
    two = await house.accept("two", delivery="steer")
    assert [(steer.decision, steer.host_run_id) for steer in (one, two)] == [("steered", hosting.run.id)] * 2
    house.gates.open("first")
    await house.gates.arrived("second")
    assert (
        "message.finished",
        "run.joined",
        "message.created",
        "run.joined",
        "message.created",
        "queue.changed",
    ) in told
    said = [message.parts for message in await house.messages() if message.role == "user"]
    assert said == [(Text("host"),), (Text("one"),), (Text("two"),)]
    house.gates.open("second")
    await house.ended(hosting)
    assert len(house.turns.started) == 1


@pytest.mark.promise("R7")
async def test_joined_runs_end_in_their_hosts_commit_with_its_state_and_name_it(house: House) -> None:
    hosting = await house.accept("host")
    await house.gates.arrived("first")
    steer = await house.accept("one", delivery="steer")
    house.gates.open("first")
    house.gates.open("second")
    host, joined = await house.ended(hosting), await house.ended(steer)
    assert (joined.state, joined.reason, joined.host_run_id) == ("completed", "end_turn", host.id)
    assert (joined.text, joined.message_id) == (host.text, host.message_id)
    ends = [event.run.id for event in await house.events() if isinstance(event, RunFinished)]
    assert ends == [host.id, joined.id]


@pytest.mark.promise("R6")
async def test_a_last_step_without_tool_calls_is_a_boundary_too(house: House) -> None:
    @house.turns.on("short")
    async def short(actor: Actor) -> Ending | None:
        await actor.gate("last step")
        assert isinstance(await actor.finish("almost done"), GoOn)
        assert isinstance(await actor.finish("now done"), Ended)
        return None

    hosting = await house.accept("short")
    await house.gates.arrived("last step")
    steer = await house.accept("one more thing", delivery="steer")
    house.gates.open("last step")
    assert (await house.ended(steer)).text == "now done"
    assert [event.run.host_run_id for event in await house.events() if isinstance(event, RunJoined)] == [hosting.run.id]


@pytest.mark.promise("R6")
async def test_a_steer_is_queued_when_there_is_nothing_it_could_join(house: House) -> None:
    assert (await house.accept("idle", delivery="steer")).decision == "started"
    await house.quiet()
    await house.accept("host")
    await house.gates.arrived("first")
    other_model = await house.accept("other", delivery="steer", model="x/y")
    assert (other_model.decision, other_model.position) == ("queued", 1)
    house.gates.open("first")
    house.gates.open("second")
    await house.ended(other_model)

    @house.turns.on("compact")
    async def compact(actor: Actor) -> Ending | None:
        await actor.gate("compacting")
        await actor.finish("done")
        return None

    await house.engine.accept("ses_1", RunRequest(kind="compact"), client="", body_hash="")
    await house.gates.arrived("compacting")
    assert (await house.accept("during", delivery="steer")).decision == "queued"
    house.gates.open("compacting")


@pytest.mark.promise("R6", "R5")
async def test_steers_that_nobody_took_go_to_the_queues_head_as_runs_of_their_own(house: House) -> None:
    @house.turns.on("limited")
    async def limited(actor: Actor) -> Ending | None:
        await actor.gate("at the limit")
        return Ending(Outcome("failed", "limit_steps"))

    await house.accept("limited")
    await house.gates.arrived("at the limit")
    queued = await house.accept("queued before")
    one = await house.accept("one", delivery="steer")
    two = await house.accept("two", delivery="steer")
    house.gates.open("at the limit")
    for run in (one, two, queued):
        assert (await house.ended(run)).state == "completed"
    assert house.turns.started[1:] == [one.run.id, two.run.id, queued.run.id]


@pytest.mark.promise("R6", "C1")
async def test_a_joined_steers_prompt_is_stored_once_also_when_the_host_is_cancelled(house: House) -> None:
    await house.accept("host")
    await house.gates.arrived("first")
    await house.accept("one", delivery="steer")
    house.gates.open("first")
    await house.gates.arrived("second")
    await house.engine.cancel_session("ses_1")
    said = [message.parts for message in await house.messages() if message.role == "user"]
    assert said == [(Text("host"),), (Text("one"),)]
    assert not any(message.unsent for message in await house.messages())
    last = (await house.messages())[-1]
    assert last.role == "assistant"
