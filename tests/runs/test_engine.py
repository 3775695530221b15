"""The engine: queued runs, pauses, and waiting for the end of a run."""

import asyncio

import pytest

from holdfast import errors
from holdfast.agent.protocol import Ending
from holdfast.errors import BadRequest, Conflict, NotFound
from holdfast.schema.events import QueueChanged, RunUpdated
from holdfast.schema.messages import File, Text
from tests.support.engine_harness import EngineHarness
from tests.support.scripted_turns import TurnActions


@pytest.fixture
async def queued(harness: EngineHarness) -> list[str]:
    """Three queued runs behind an active one that waits at `go`."""

    @harness.turns.on("wait")
    async def wait(turn: TurnActions) -> Ending | None:
        await turn.gate("go")
        await turn.finish("done")
        return None

    await harness.accept("wait")
    await harness.gates.arrived("go")
    return [(await harness.accept(name)).run.id for name in ("a", "b", "c")]


@pytest.mark.promise("R5")
async def test_moving_a_run_changes_the_start_order(harness: EngineHarness, queued: list[str]) -> None:
    a, b, c = queued
    moved = await harness.engine.change_queued(c, position=1)
    assert moved.rank < (await harness.engine.get_run(a)).rank
    assert (await harness.engine.queue("ses_1")).run_ids == (c, a, b)
    last = [event for event in await harness.events() if isinstance(event, QueueChanged)][-1]
    assert last.queue.run_ids == (c, a, b)
    harness.gates.open("go")
    await harness.ended(b)
    assert harness.turns.started[1:] == [c, a, b]


async def test_editing_and_moving_is_one_commit(harness: EngineHarness, queued: list[str]) -> None:
    told: list[tuple[str, ...]] = []
    harness.store.listen(lambda events: told.append(tuple(event.kind for event in events)))
    file = File("a.txt", "text/plain", text="A")
    changed = await harness.engine.change_queued(queued[1], prompt="better", attachments=[file], position=1)
    assert (changed.prompt, changed.attachments) == ("better", (file,))
    assert len(told) == 1
    harness.gates.open("go")
    await harness.ended(queued[1])
    assert (Text("better"), file) in [message.parts for message in await harness.messages()]
    updates = [event.run for event in await harness.events() if isinstance(event, RunUpdated)]
    assert updates[0].prompt == "better"


async def test_only_a_queued_run_can_be_changed(harness: EngineHarness, queued: list[str]) -> None:
    active = (await harness.engine.queue("ses_1")).active
    assert active is not None
    with pytest.raises(Conflict) as caught:
        await harness.engine.change_queued(active, prompt="too late")
    assert caught.value.error_code == "not_queued"
    with pytest.raises(BadRequest):
        await harness.engine.change_queued(queued[0])
    with pytest.raises(BadRequest):
        await harness.engine.change_queued(queued[0], prompt=" ")
    with pytest.raises(BadRequest):
        await harness.engine.change_queued(queued[0], position=0)
    with pytest.raises(NotFound):
        await harness.engine.change_queued("run_no", prompt="x")
    assert (await harness.engine.get_run(queued[0])).prompt == "a"


@pytest.mark.promise("C10", "R7")
async def test_a_cancelled_queued_run_ends_once_and_keeps_its_text(harness: EngineHarness, queued: list[str]) -> None:
    for _ in range(2):
        await harness.engine.cancel_run(queued[0])
    cancelled = await harness.engine.get_run(queued[0])
    assert (cancelled.state, cancelled.reason, cancelled.prompt) == ("cancelled", "user_cancel", "a")
    assert (await harness.engine.queue("ses_1")).run_ids == tuple(queued[1:])
    assert [message.parts for message in await harness.messages() if message.unsent] == [(Text("a"),)]


@pytest.mark.promise("R5")
async def test_a_paused_lane_shows_the_reason_and_resume_ends_it(harness: EngineHarness, queued: list[str]) -> None:
    assert (await harness.engine.pause("ses_1")).paused == "user"
    harness.gates.open("go")
    await harness.until(lambda: harness.engine.count_active() == 0)
    assert (await harness.engine.queue("ses_1")).run_ids == tuple(queued)
    assert (await harness.engine.resume("ses_1")).paused is None
    await harness.ended(queued[-1])


@pytest.mark.promise("R5")
async def test_a_pause_is_kept_when_the_lane_is_dropped_from_memory(harness: EngineHarness) -> None:
    await harness.engine.pause("ses_1")
    await harness.quiet()
    assert harness.engine._state.mailboxes == {}
    assert (await harness.engine.queue("ses_1")).paused == "user"
    assert (await harness.accept("held back")).decision == "queued"
    await harness.engine.cancel_session("ses_1")
    assert (await harness.accept("free again")).decision == "started"


@pytest.mark.promise("R5")
async def test_after_success_waits_if_the_predecessor_failed(harness: EngineHarness) -> None:
    @harness.turns.on("fails")
    async def fails(turn: TurnActions) -> Ending | None:
        await turn.gate("fail")
        raise errors.ModelRefused("no")

    await harness.accept("fails")
    careful = await harness.accept("careful", after="success")
    harness.gates.open("fail")
    await harness.until(lambda: harness.engine.count_active() == 0)
    queue = await harness.engine.queue("ses_1")
    assert (queue.paused, queue.run_ids) == ("predecessor", (careful.run.id,))
    await harness.engine.resume("ses_1")
    assert (await harness.ended(careful)).state == "completed"


@pytest.mark.promise("R9")
async def test_many_callers_can_wait_for_the_end_and_later_callers_can_read_it(harness: EngineHarness) -> None:
    @harness.turns.on("wait")
    async def wait(turn: TurnActions) -> Ending | None:
        await turn.gate("go")
        await turn.finish("done")
        return None

    accepted = await harness.accept("wait")
    waiting = [asyncio.create_task(harness.ended(accepted)) for _ in range(10)]
    assert (await harness.engine.wait_run(accepted.run.id, timeout=0)).state == "active"
    await harness.gates.arrived("go")
    harness.gates.open("go")
    assert {run.state for run in await asyncio.gather(*waiting)} == {"completed"}
    assert (await harness.engine.wait_run(accepted.run.id, timeout=0)).text == "done"
    with pytest.raises(NotFound):
        await harness.engine.wait_run("run_no", timeout=1)


@pytest.mark.promise("R9")
async def test_waiting_for_a_run_ends_after_the_timeout(harness: EngineHarness) -> None:
    @harness.turns.on("wait")
    async def wait(turn: TurnActions) -> Ending | None:
        await turn.gate("go")
        await turn.finish("done")
        return None

    accepted = await harness.accept("wait")
    assert (await harness.engine.wait_run(accepted.run.id, timeout=0.01)).state == "active"
    harness.gates.open("go")
    await harness.ended(accepted)


async def test_a_run_shows_what_it_is_doing(harness: EngineHarness) -> None:
    @harness.turns.on("wait")
    async def wait(turn: TurnActions) -> Ending | None:
        turn.handle.progress("approval", "bash: rm -rf build")
        await turn.gates.pass_through("go")
        await turn.finish("done")
        return None

    accepted = await harness.accept("wait")
    await harness.gates.arrived("go")
    now = (await harness.engine.get_run(accepted.run.id)).now
    assert now is not None
    assert (now.phase, now.what) == ("approval", "bash: rm -rf build")
    harness.gates.open("go")
    assert (await harness.ended(accepted)).now is None
