"""Queued runs can be edited, moved, cancelled and held back."""

import pytest

from holdfast.agent.protocol import Ending
from holdfast.errors import BadRequest, Conflict, NotFound
from holdfast.schema.events import QueueChanged, RunUpdated
from holdfast.schema.messages import File, Text
from tests.support.house import House
from tests.support.scripted import Actor


@pytest.fixture
async def queued(house: House) -> list[str]:
    """Three queued runs behind an active one that waits at ``go``."""

    @house.turns.on("wait")
    async def wait(actor: Actor) -> Ending | None:
        await actor.gate("go")
        await actor.finish("done")
        return None

    await house.accept("wait")
    await house.gates.arrived("go")
    return [(await house.accept(name)).run.id for name in ("a", "b", "c")]


@pytest.mark.promise("R5")
async def test_moving_a_run_changes_the_order_in_which_they_start(house: House, queued: list[str]) -> None:
    a, b, c = queued
    moved = await house.engine.change_queued(c, position=1)
    assert moved.rank < (await house.engine.get_run(a)).rank
    assert (await house.engine.queue("ses_1")).run_ids == (c, a, b)
    last = [event for event in await house.events() if isinstance(event, QueueChanged)][-1]
    assert last.queue.run_ids == (c, a, b)
    house.gates.open("go")
    await house.ended(b)
    assert house.turns.started[1:] == [c, a, b]


async def test_editing_and_moving_is_one_commit(house: House, queued: list[str]) -> None:
    told: list[tuple[str, ...]] = []
    house.store.listen(lambda events: told.append(tuple(event.kind for event in events)))
    file = File("a.txt", "text/plain", text="A")
    changed = await house.engine.change_queued(queued[1], prompt="better", attachments=[file], position=1)
    assert (changed.prompt, changed.attachments) == ("better", (file,))
    assert len(told) == 1
    house.gates.open("go")
    await house.ended(queued[1])
    assert (Text("better"), file) in [message.parts for message in await house.messages()]
    updates = [event.run for event in await house.events() if isinstance(event, RunUpdated)]
    assert updates[0].prompt == "better"


async def test_only_a_queued_run_can_be_changed(house: House, queued: list[str]) -> None:
    active = (await house.engine.queue("ses_1")).active
    assert active is not None
    with pytest.raises(Conflict) as caught:
        await house.engine.change_queued(active, prompt="too late")
    assert caught.value.error_code == "not_queued"
    with pytest.raises(BadRequest):
        await house.engine.change_queued(queued[0])
    with pytest.raises(BadRequest):
        await house.engine.change_queued(queued[0], prompt=" ")
    with pytest.raises(BadRequest):
        await house.engine.change_queued(queued[0], position=0)
    with pytest.raises(NotFound):
        await house.engine.change_queued("run_no", prompt="x")
    assert (await house.engine.get_run(queued[0])).prompt == "a"


@pytest.mark.promise("C10", "R7")
async def test_a_cancelled_queued_run_ends_once_and_keeps_its_text(house: House, queued: list[str]) -> None:
    for _ in range(2):
        await house.engine.cancel_run(queued[0])
    cancelled = await house.engine.get_run(queued[0])
    assert (cancelled.state, cancelled.reason, cancelled.prompt) == ("cancelled", "user_cancel", "a")
    assert (await house.engine.queue("ses_1")).run_ids == tuple(queued[1:])
    assert [message.parts for message in await house.messages() if message.unsent] == [(Text("a"),)]


@pytest.mark.promise("R5")
async def test_a_paused_lane_says_why_and_resume_ends_it(house: House, queued: list[str]) -> None:
    assert (await house.engine.pause("ses_1")).paused == "user"
    house.gates.open("go")
    await house.until(lambda: house.engine.count_active() == 0)
    assert (await house.engine.queue("ses_1")).run_ids == tuple(queued)
    assert (await house.engine.resume("ses_1")).paused is None
    await house.ended(queued[-1])


@pytest.mark.promise("R5")
async def test_a_pause_outlives_the_lane_in_memory(house: House) -> None:
    await house.engine.pause("ses_1")
    await house.quiet()
    assert house.engine._state.mailboxes == {}
    assert (await house.engine.queue("ses_1")).paused == "user"
    assert (await house.accept("held back")).decision == "queued"
    await house.engine.cancel_session("ses_1")
    assert (await house.accept("free again")).decision == "started"
