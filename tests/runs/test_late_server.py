"""A server that could not renew its leases in time begins nothing until it has renewed them."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from holdfast.agent.protocol import Ending
from tests.support.engine_harness import WORKSPACE, ControlledStore, EngineHarness, open_harness
from tests.support.scripted_turns import TurnActions, answer_prompt

pytestmark = pytest.mark.promise("W16")


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[EngineHarness]:
    async with open_harness(tmp_path / "late.db", controlled=True) as harness:
        await harness.session()
        yield harness


@pytest.fixture
def begun(harness: EngineHarness) -> list[str]:
    """The prompts of the turns that have begun. The first one waits for its stop."""
    prompts: list[str] = []

    async def turn(actions: TurnActions) -> Ending | None:
        prompts.append(actions.run.prompt)
        if actions.run.prompt == "first":
            await actions.gate("first")
        return await answer_prompt(actions)

    for prompt in ("first", "second", "third"):
        harness.turns.on(prompt)(turn)
    return prompts


async def _is_late(harness: EngineHarness) -> tuple[str, str]:
    """The server becomes late while one run is active. Returns the two that are queued."""
    first = await harness.accept("first")
    second, third = await harness.accept("second"), await harness.accept("third")
    await harness.gates.arrived("first")
    harness.engine.stop_turns()
    assert (await harness.ended(first)).state == "interrupted"
    return second.run.id, third.run.id


async def test_the_queue_goes_on_when_the_leases_are_renewed(harness: EngineHarness, begun: list[str]) -> None:
    second, third = await _is_late(harness)
    queue = await harness.engine.queue("ses_1")
    assert (queue.active, queue.run_ids, begun) == (None, (second, third), ["first"])
    harness.engine.allow_turns()
    assert [(await harness.ended(run)).state for run in (second, third)] == ["completed", "completed"]
    assert begun == ["first", "second", "third"]


async def _accept(harness: EngineHarness, second: str) -> None:
    assert (await harness.accept("third")).decision == "queued"


async def _accept_elsewhere(harness: EngineHarness, second: str) -> None:
    await harness.session("ses_2")
    assert (await harness.accept("third", session_id="ses_2")).decision == "queued"


async def _cancel(harness: EngineHarness, second: str) -> None:
    await harness.engine.cancel_run(second)


async def _pause_and_resume(harness: EngineHarness, second: str) -> None:
    await harness.engine.pause("ses_1")
    await harness.engine.resume("ses_1")


async def _open(harness: EngineHarness, second: str) -> None:
    await harness.engine.close_workspace(WORKSPACE)
    await harness.engine.open_workspace(WORKSPACE)
    await harness.engine.resume("ses_1")


@pytest.mark.parametrize("act", [_accept, _accept_elsewhere, _cancel, _pause_and_resume, _open])
async def test_no_command_starts_a_run_meanwhile(
    harness: EngineHarness, begun: list[str], act: Callable[[EngineHarness, str], Awaitable[None]]
) -> None:
    second, third = await _is_late(harness)
    await act(harness, second)
    assert harness.engine.count_active() == 0
    assert begun == ["first"]
    harness.engine.allow_turns()
    assert (await harness.ended(third)).state == "completed"
    await harness.until(lambda: not harness.engine.count_unfinished())


async def test_a_start_that_was_being_committed_waits(harness: EngineHarness, begun: list[str]) -> None:
    store = harness.store
    assert isinstance(store, ControlledStore)
    store.open.clear()
    accepting = asyncio.create_task(harness.accept("second"))
    await harness.until(lambda: store.held == 1)
    harness.engine.stop_turns()
    store.open.set()
    accepted = await accepting
    assert accepted.decision == "started"
    for _ in range(100):
        await asyncio.sleep(0)
    assert begun == []
    harness.engine.allow_turns()
    assert (await harness.ended(accepted)).state == "completed"


async def test_such_a_start_can_be_cancelled_meanwhile(harness: EngineHarness, begun: list[str]) -> None:
    store = harness.store
    assert isinstance(store, ControlledStore)
    store.open.clear()
    accepting = asyncio.create_task(harness.accept("second"))
    await harness.until(lambda: store.held == 1)
    harness.engine.stop_turns()
    store.open.set()
    accepted = await accepting
    await harness.engine.cancel_run(accepted.run.id)
    assert (await harness.ended(accepted)).state == "cancelled"
    assert begun == []


async def test_the_queue_goes_on_also_if_that_cannot_be_written_at_first(
    harness: EngineHarness, begun: list[str]
) -> None:
    second, third = await _is_late(harness)
    store = harness.store
    assert isinstance(store, ControlledStore)
    store.refuse()
    store.was_refused.clear()
    harness.engine.allow_turns()
    await store.was_refused.wait()
    store.refusing = None
    assert [(await harness.ended(run)).state for run in (second, third)] == ["completed", "completed"]
