"""The same key, the same answer; over the real ledger, and over HTTP."""

import asyncio
from pathlib import Path

import pytest

from holdfast.errors import BadRequest, Conflict, ServerStopping, TooMany
from holdfast.server.http.idempotency import Answers, read_key, request_hash
from holdfast.server.http.responses import Reply
from tests.support.engine_harness import EngineHarness, open_harness
from tests.support.running_server import run_server


class Work:
    """Something that should be done once."""

    def __init__(self) -> None:
        self.done = 0
        self.gate = asyncio.Event()
        self.gate.set()
        self.error: Exception | None = None

    async def __call__(self) -> Reply:
        await self.gate.wait()
        self.done += 1
        if self.error is not None:
            raise self.error
        return Reply({"done": self.done}, status=201)


def answers(house: EngineHarness) -> Answers:
    return Answers(house.store, now=lambda: "2026-01-01T00:00:00.000Z")


async def test_the_first_answer_is_given_again_also_by_the_next_server(tmp_path: Path) -> None:
    work = Work()
    async with open_harness(tmp_path / "db") as house:
        first = await answers(house).once("k", "hash", work)
    async with open_harness(tmp_path / "db") as house:
        again = await answers(house).once("k", "hash", work)
    assert (first.status, first.body()) == (again.status, again.body()) == (201, b'{"done":1}')
    assert work.done == 1


async def test_a_key_of_another_request_is_refused_before_during_and_after_the_work(tmp_path: Path) -> None:
    async with open_harness(tmp_path / "db") as house:
        kept, work = answers(house), Work()
        work.gate.clear()
        first = asyncio.create_task(kept.once("k", "hash", work))
        await asyncio.sleep(0)
        for _ in range(2):
            with pytest.raises(Conflict) as refused:
                await kept.once("k", "other", work)
            assert refused.value.error_code == "idempotency_key_reused"
            work.gate.set()
            await first
        assert work.done == 1


async def test_many_at_once_are_one(tmp_path: Path) -> None:
    async with open_harness(tmp_path / "db") as house:
        kept, work = answers(house), Work()
        replies = await asyncio.gather(*(kept.once("k", "hash", work) for _ in range(20)))
        assert {reply.body() for reply in replies} == {b'{"done":1}'}


async def test_a_decision_is_kept_but_try_again_is_not(tmp_path: Path) -> None:
    async with open_harness(tmp_path / "db") as house:
        kept, work = answers(house), Work()
        work.error = Conflict("busy", code="not_queued")
        assert [(await kept.once("k", "hash", work)).status for _ in range(2)] == [409, 409]
        assert work.done == 1
        for number, error in enumerate((ServerStopping("later"), TooMany("later")), start=2):
            work.error = error
            with pytest.raises(type(error)):
                await kept.once("l", "hash", work)
            assert work.done == number
        work.error = None
        assert (await kept.once("l", "hash", work)).status == 201


async def test_when_the_first_is_cancelled_who_waits_does_the_work(tmp_path: Path) -> None:
    async with open_harness(tmp_path / "db") as house:
        kept, work = answers(house), Work()
        work.gate.clear()
        first = asyncio.create_task(kept.once("k", "hash", work))
        second = asyncio.create_task(kept.once("k", "hash", work))
        await asyncio.sleep(0)
        first.cancel()
        work.gate.set()
        assert (await second).body() == b'{"done":1}'


async def test_an_answer_that_cannot_be_kept_is_given_all_the_same(tmp_path: Path) -> None:
    async with open_harness(tmp_path / "db", controlled=True) as house:
        house.store.refuse()  # type: ignore[attr-defined]
        reply = await answers(house).once("k", "hash", Work())
        assert reply.status == 201
        house.store.refusing = None  # type: ignore[attr-defined]


def test_the_hash_knows_where_one_piece_ends_and_the_next_begins() -> None:
    hashes = {
        request_hash("POST", "/a", b"", b"bc"),
        request_hash("POST", "/a", b"b", b"c"),
        request_hash("POST", "/ab", b"", b"c"),
        request_hash("PATCH", "/a", b"", b"bc"),
    }
    assert len(hashes) == 4


@pytest.mark.parametrize("key", [b"", b"a b", b"x" * 129, b"\xff", b"a\n"])
def test_a_key_that_cannot_be_one_is_refused(key: bytes) -> None:
    with pytest.raises(BadRequest):
        read_key(key)


async def test_a_session_made_twice_with_one_key_is_one_session(home: Path) -> None:
    async with run_server(home) as house:
        target = f"/v1/workspaces/{house.workspace_id}/sessions"
        made = await asyncio.gather(
            *(house.http.post(target, {"title": "t"}, Idempotency_Key="key-1") for _ in range(5))
        )
        assert {answer.ok(201)["id"] for answer in made} == {made[0].json()["id"]}
        other = await house.http.post(target, {"title": "u"}, Idempotency_Key="key-1")
        assert (other.status, other.code) == (409, "idempotency_key_reused")
        listed = (await house.http.get(target)).ok()
        assert len(listed["items"]) == 1
        unkeyed = await house.http.post(target, {"title": "t"})
        assert unkeyed.ok(201)["id"] != made[0].json()["id"]


@pytest.mark.promise("R3")
async def test_a_key_names_the_run_that_it_made(home: Path) -> None:
    async with run_server(home) as house:
        target = f"/v1/sessions/{await house.session()}/runs"
        for key in ("run-key", "not/an/id"):
            first, second = await asyncio.gather(
                *(house.http.post(target, {"prompt": "hi"}, Idempotency_Key=key) for _ in range(2))
            )
            assert first.ok(202)["run"]["id"] == second.ok(202)["run"]["id"]
        assert len((await house.http.get(target)).ok()["items"]) == 2
