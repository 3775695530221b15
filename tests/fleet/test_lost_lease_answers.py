"""A lease whose release or taking had no answer is not kept for ever by a server that does not know of it."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import TypeVar

import pytest

from holdfast.errors import StoreUnreachable
from holdfast.fleet.lease_keeper import LeaseKeeper
from holdfast.fleet.lease_rules import LeaseTimes
from holdfast.store.postgres import open_postgres_store
from holdfast.store.postgres.connection import PostgresConnection
from holdfast.store.postgres.reader_pool import Ask
from tests.store.batches import new_workspace

T = TypeVar("T")

_TIMES = LeaseTimes(lasts=60, stops_after=40)


class LossyStore:
    """Commits, and then says that the database does not answer; or does not even commit."""

    def __init__(self, address: str) -> None:
        self._sql = PostgresConnection.open(address)
        self._lock = asyncio.Lock()
        self.loses: str | None = None

    async def transact(self, work: Callable[[PostgresConnection], T]) -> T:
        loses, self.loses = self.loses, None
        async with self._lock:
            if loses == "request":
                raise StoreUnreachable("the database does not answer")
            result = await asyncio.to_thread(self._transact, work)
        if loses == "answer":
            raise StoreUnreachable("the database does not answer")
        return result

    async def exchange(self, ask: Ask[T]) -> T:
        return (await self.transact(ask))()

    def _transact(self, work: Callable[[PostgresConnection], T]) -> T:
        self._sql.begin(seconds=10.0)
        result = work(self._sql)
        self._sql.commit()
        return result

    def close(self) -> None:
        self._sql.close()


@pytest.fixture
async def store(postgres_database: str, tmp_path: Path) -> AsyncIterator[LossyStore]:
    ledger = await open_postgres_store(postgres_database, home=tmp_path)
    await ledger.commit(new_workspace())
    await ledger.close()
    store = await asyncio.to_thread(LossyStore, postgres_database)
    yield store
    store.close()


@pytest.mark.promise("W16", "R5")
@pytest.mark.parametrize(("change", "loses"), [("take", "answer"), ("release", "answer"), ("release", "request")])
async def test_a_lease_that_only_the_table_knows_is_released(store: LossyStore, change: str, loses: str) -> None:
    keeper = LeaseKeeper(host_id="one", times=_TIMES, home="h", on_dead=lambda: None)
    await keeper.register(store)
    workspace_id = "wsp_1"
    if change == "release":
        assert await keeper.take(workspace_id, "caretaker")
    store.loses = loses
    with pytest.raises(StoreUnreachable):
        await (keeper.take(workspace_id, "caretaker") if change == "take" else keeper.release(workspace_id))
    assert keeper.fence(workspace_id) is None

    other = LeaseKeeper(host_id="one", times=_TIMES, home="other", on_dead=lambda: None)
    await other.register(store)
    keeping = asyncio.create_task(keeper.keep())
    try:
        while True:  # until the first renewal has released it
            if await other.take(workspace_id, "owner"):
                break
            await asyncio.sleep(0.01)
        assert other.kind(workspace_id) == "owner"
    finally:
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)


@pytest.mark.promise("W16", "R5")
@pytest.mark.parametrize(("change", "loses"), [("take", "answer"), ("release", "answer"), ("release", "request")])
async def test_the_server_itself_takes_it_again_at_once(store: LossyStore, change: str, loses: str) -> None:
    keeper = LeaseKeeper(host_id="one", times=_TIMES, home="h", on_dead=lambda: None)
    await keeper.register(store)
    workspace_id = "wsp_1"
    if change == "release":
        assert await keeper.take(workspace_id, "caretaker")
    store.loses = loses
    with pytest.raises(StoreUnreachable):
        await (keeper.take(workspace_id, "caretaker") if change == "take" else keeper.release(workspace_id))

    assert await keeper.take(workspace_id, "owner")
    assert keeper.kind(workspace_id) == "owner"
    # What was written with the lease before is refused from now on.
    assert keeper.fence(workspace_id) == (3 if (change, loses) == ("release", "answer") else 2)
