"""Turns begin after the prompts that are being accepted, but soon."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from holdfast.agent.protocol import Ending
from holdfast.runs.start_order import StartOrder
from holdfast.schema.runs import Accepted
from tests.support.engine_harness import LONG_LIMITS, EngineHarness, open_harness
from tests.support.scripted_turns import TurnActions, answer_prompt

LONG = 60.0


async def begin(order: StartOrder, begun: list[str]) -> None:
    await order.turn_may_begin()
    begun.append("turn")


async def test_a_turn_begins_at_once_if_nothing_is_accepted() -> None:
    begun: list[str] = []
    await begin(StartOrder(most_seconds=LONG), begun)
    assert begun == ["turn"]


async def test_turns_begin_after_the_last_acceptance() -> None:
    order, begun = StartOrder(most_seconds=LONG), list[str]()
    with order.accepting():
        with order.accepting():
            turns = [asyncio.create_task(begin(order, begun)) for _ in range(2)]
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert begun == []
    await asyncio.gather(*turns)
    assert begun == ["turn", "turn"]


async def test_turns_do_not_wait_longer_than_the_limit_and_later_ones_wait_again() -> None:
    order, begun = StartOrder(most_seconds=0.0), list[str]()
    with order.accepting():
        await begin(order, begun)
        await begin(order, begun)
        assert begun == ["turn", "turn"]


async def test_a_cancelled_turn_does_not_keep_others_from_beginning() -> None:
    order, begun = StartOrder(most_seconds=LONG), list[str]()
    with order.accepting():
        cancelled, other = (asyncio.create_task(begin(order, begun)) for _ in range(2))
        await asyncio.sleep(0)
        cancelled.cancel()
        await asyncio.wait((cancelled,))
    await other
    assert begun == ["turn"]


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[EngineHarness]:
    """Two sessions. A prompt in the second one is being accepted: its commit is held."""
    limits = replace(LONG_LIMITS, accept_first_seconds=LONG)
    async with open_harness(tmp_path / "holdfast.db", limits=limits, controlled=True) as harness:
        await harness.session("ses_1")
        await harness.session("ses_2")
        harness.store.holds_only = "ses_2"
        harness.store.open.clear()
        yield harness


async def test_a_prompt_that_is_being_accepted_is_answered_before_the_turn_of_another_one_begins(
    harness: EngineHarness,
) -> None:
    order: list[str] = []

    async def note(turn: TurnActions) -> Ending | None:
        await turn.handle.may_begin()
        order.append(turn.run.prompt)
        return await answer_prompt(turn)

    harness.turns.scripts["first"] = harness.turns.scripts["second"] = note

    async def accept_second() -> Accepted:
        accepted = await harness.accept("second", session_id="ses_2")
        order.append("answer")
        return accepted

    accepting = asyncio.create_task(accept_second())
    await harness.until(lambda: harness.store.held == 1)
    first = await harness.accept("first")
    assert (await harness.engine.get_run(first.run.id)).state == "active"
    assert order == []
    harness.store.open.set()
    for accepted in (await accepting, first):
        await harness.ended(accepted)
    assert order[0] == "answer"
    assert sorted(order[1:]) == ["first", "second"]


@pytest.mark.promise("C7")
async def test_a_cancel_stops_a_run_whose_turn_waits_for_an_acceptance(harness: EngineHarness) -> None:
    async def wait(turn: TurnActions) -> Ending | None:
        await turn.handle.may_begin()
        return await answer_prompt(turn)

    harness.turns.scripts["first"] = wait
    accepting = asyncio.create_task(harness.accept("second", session_id="ses_2"))
    await harness.until(lambda: harness.store.held == 1)
    first = await harness.accept("first")
    receipt = await harness.engine.cancel_run(first.run.id)
    assert [(one.run_id, one.ended_as) for one in receipt.runs] == [(first.run.id, "cancelled")]
    harness.store.open.set()
    await harness.ended(await accepting)
