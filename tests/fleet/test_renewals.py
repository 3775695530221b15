"""Nothing delays a renewal: no read, no other work on leases, no connection that leads nowhere."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

import psycopg
import pytest

from holdfast.fleet.lease_keeper import LeaseKeeper
from holdfast.fleet.lease_rules import LeaseTimes
from holdfast.store.postgres import PostgresStore, open_postgres_store
from holdfast.store.postgres.connection import PostgresConnection
from holdfast.store.postgres.reader_pool import Ask
from holdfast.store.rows.sql import Sql
from tests.support.cutting_proxy import CuttingProxy

T = TypeVar("T")

_TIMES = LeaseTimes(lasts=60, stops_after=40)


def _keeper(times: LeaseTimes = _TIMES) -> LeaseKeeper:
    return LeaseKeeper(host_id="one", times=times, home="h", on_dead=lambda: None)


@asynccontextmanager
async def _kept(keeper: LeaseKeeper) -> AsyncIterator[None]:
    keeping = asyncio.create_task(keeper.keep())
    try:
        yield
    finally:
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)


class Watcher:
    """Looks at the table of servers over a connection of its own."""

    def __init__(self, admin: psycopg.AsyncConnection[tuple[str]]) -> None:
        self._admin = admin

    async def renewal(self) -> str:
        found = await (await self._admin.execute("SELECT expires_at::text FROM servers")).fetchone()
        assert found is not None
        return found[0]

    async def until_renewed_after(self, before: str) -> str:
        while (now := await self.renewal()) == before:  # noqa: ASYNC110 - in another process
            await asyncio.sleep(0.01)
        return now


@pytest.fixture
async def watcher(postgres_database: str) -> AsyncIterator[Watcher]:
    async with await psycopg.AsyncConnection.connect(postgres_database, autocommit=True) as admin:
        yield Watcher(admin)


@pytest.mark.promise("W16")
async def test_a_renewal_does_not_wait_for_reads(postgres_database: str, tmp_path: Path, watcher: Watcher) -> None:
    keeper = _keeper()
    store = await open_postgres_store(postgres_database, home=tmp_path, fences=keeper, readers=1)
    try:
        await keeper.register(store)
        before = await watcher.renewal()
        async with await psycopg.AsyncConnection.connect(postgres_database) as admin:
            await admin.execute("SELECT pg_advisory_xact_lock(1)")
            reads = [asyncio.create_task(store._read(_slow_read)) for _ in range(3)]
            async with _kept(keeper):
                await watcher.until_renewed_after(before)
                assert not any(read.done() for read in reads)
        await asyncio.gather(*reads)
    finally:
        await store.close()


def _slow_read(sql: Sql) -> None:
    sql.execute("SELECT pg_advisory_xact_lock(1)").fetchone()


@pytest.mark.promise("W16")
async def test_a_renewal_is_sent_again_over_another_connection_if_one_leads_nowhere(
    postgres_database: str,
    tmp_path: Path,
    watcher: Watcher,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The first attempt has not failed when the second succeeds."""
    monkeypatch.setattr(LeaseTimes, "asks_again_after", 0.1)
    (tmp_path / "socket").mkdir()
    proxy = CuttingProxy(tmp_path / "socket", database=postgres_database)
    keeper = _keeper()
    store = await open_postgres_store(proxy.address, home=tmp_path, fences=keeper, renewal_seconds=30.0)
    try:
        await keeper.register(store)
        await store.exchange(lambda sql: sql.execute("SELECT 1").fetchall)  # there is a connection for renewals
        before = await watcher.renewal()
        proxy.swallow_all()
        with caplog.at_level(logging.WARNING, logger="holdfast.fleet.lease_keeper"):
            async with _kept(keeper):
                await watcher.until_renewed_after(before)
        assert caplog.messages == []
    finally:
        proxy.close()
        await store.close()


class BusyStore:
    """A store whose threads for reads and short transactions are all busy."""

    def __init__(self, store: PostgresStore) -> None:
        self._store = store
        self.is_busy = asyncio.Event()

    async def transact(self, work: Callable[[PostgresConnection], T]) -> T:
        self.is_busy.set()
        return await asyncio.get_running_loop().create_future()

    async def exchange(self, ask: Ask[T]) -> T:
        return await self._store.exchange(ask)


@pytest.mark.promise("W16")
async def test_renewals_go_on_while_a_forgotten_lease_cannot_be_freed(
    postgres_database: str, tmp_path: Path, watcher: Watcher
) -> None:
    keeper = _keeper(LeaseTimes(lasts=0.6, stops_after=0.5))
    store = await open_postgres_store(postgres_database, home=tmp_path, fences=keeper)
    try:
        await keeper.register(store)
        assert await keeper.take("wsp_1", "caretaker")
        keeper._fences.clear()  # the answer was lost
        busy = BusyStore(store)
        keeper._store = busy
        async with _kept(keeper):
            await busy.is_busy.wait()
            renewal = await watcher.renewal()
            for _ in range(3):
                renewal = await watcher.until_renewed_after(renewal)
    finally:
        await store.close()


def test_the_limits_of_a_connection_for_renewals_follow_from_the_lease(postgres_database: str) -> None:
    times = LeaseTimes(lasts=3, stops_after=2.1)
    sql = PostgresConnection.open(f"{postgres_database}&connect_timeout=60", answer_seconds=times.gives_up_after)
    try:
        limits = sql.raw.info.get_parameters()
        assert (limits["connect_timeout"], limits["tcp_user_timeout"]) == ("2", "1600")
    finally:
        sql.close()
    assert times.renews_after + 2 * times.asks_again_after < times.stops_after
    assert times.renews_after + times.gives_up_after == pytest.approx(times.stops_after)
