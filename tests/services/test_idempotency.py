"""Idempotency keys: a repeated request gets the stored answer."""

import asyncio
from pathlib import Path

import pytest

from holdfast.errors import Conflict, ServerStopping, TooMany
from holdfast.schema.base import encode
from holdfast.services.idempotency import IdempotencyKeys, KeyedAnswer
from tests.support.engine_harness import EngineHarness, open_harness


class Work:
    """Work that must be done once."""

    def __init__(self) -> None:
        self.done = 0
        self.gate = asyncio.Event()
        self.gate.set()
        self.error: Exception | None = None

    async def __call__(self) -> KeyedAnswer:
        await self.gate.wait()
        self.done += 1
        if self.error is not None:
            raise self.error
        return KeyedAnswer(201, encode({"done": self.done}))


def keys(harness: EngineHarness) -> IdempotencyKeys:
    return IdempotencyKeys(harness.store, now=lambda: "2026-01-01T00:00:00.000Z")


async def test_the_stored_answer_is_returned_again_also_after_a_restart(tmp_path: Path) -> None:
    work = Work()
    async with open_harness(tmp_path / "db") as harness:
        first = await keys(harness).answer_once("k", "hash", work)
    async with open_harness(tmp_path / "db") as harness:
        again = await keys(harness).answer_once("k", "hash", work)
    assert (first.status, first.body) == (again.status, again.body) == (201, b'{"done":1}')
    assert work.done == 1


async def test_a_key_of_another_request_is_refused_during_and_after_the_work(tmp_path: Path) -> None:
    async with open_harness(tmp_path / "db") as harness:
        idempotency, work = keys(harness), Work()
        work.gate.clear()
        first = asyncio.create_task(idempotency.answer_once("k", "hash", work))
        await asyncio.sleep(0)
        for _ in range(2):
            with pytest.raises(Conflict) as refused:
                await idempotency.answer_once("k", "other", work)
            assert refused.value.error_code == "idempotency_key_reused"
            work.gate.set()
            await first
        assert work.done == 1


async def test_simultaneous_requests_with_one_key_are_done_once(tmp_path: Path) -> None:
    async with open_harness(tmp_path / "db") as harness:
        idempotency, work = keys(harness), Work()
        answers = await asyncio.gather(*(idempotency.answer_once("k", "hash", work) for _ in range(20)))
        assert {answer.body for answer in answers} == {b'{"done":1}'}


async def test_final_errors_are_stored_and_temporary_ones_are_not(tmp_path: Path) -> None:
    async with open_harness(tmp_path / "db") as harness:
        idempotency, work = keys(harness), Work()
        work.error = Conflict("busy", code="not_queued")
        assert [(await idempotency.answer_once("k", "hash", work)).status for _ in range(2)] == [409, 409]
        assert work.done == 1
        for number, error in enumerate((ServerStopping("later"), TooMany("later")), start=2):
            work.error = error
            with pytest.raises(type(error)):
                await idempotency.answer_once("l", "hash", work)
            assert work.done == number
        work.error = None
        assert (await idempotency.answer_once("l", "hash", work)).status == 201


async def test_a_waiting_request_does_the_work_when_the_first_is_cancelled(tmp_path: Path) -> None:
    async with open_harness(tmp_path / "db") as harness:
        idempotency, work = keys(harness), Work()
        work.gate.clear()
        first = asyncio.create_task(idempotency.answer_once("k", "hash", work))
        second = asyncio.create_task(idempotency.answer_once("k", "hash", work))
        await asyncio.sleep(0)
        first.cancel()
        work.gate.set()
        assert (await second).body == b'{"done":1}'


async def test_an_answer_that_cannot_be_stored_is_still_returned(tmp_path: Path) -> None:
    async with open_harness(tmp_path / "db", controlled=True) as harness:
        harness.store.refuse()  # type: ignore[attr-defined]
        answer = await keys(harness).answer_once("k", "hash", Work())
        assert answer.status == 201
        harness.store.refusing = None  # type: ignore[attr-defined]
