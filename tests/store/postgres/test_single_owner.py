"""One server per database: a second is refused, a killed one comes back, a replaced one cannot write."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import psycopg
import pytest

from holdfast.errors import StoreDamaged, StoreLocked, StoreNewer, StoreUnreachable
from holdfast.store.postgres import PostgresStore, open_postgres_store
from tests.store.batches import new_session, new_workspace
from tests.support.postgres_cluster import shared_cluster

OpenAt = Callable[[str], Awaitable[PostgresStore]]


@pytest.fixture
async def open_at(postgres_database: str, tmp_path: Path) -> AsyncIterator[OpenAt]:
    """Return a function that opens the database as the server of a directory."""
    async with AsyncExitStack() as stack:

        async def opened(home: str) -> PostgresStore:
            (tmp_path / home).mkdir(exist_ok=True)
            store = await open_postgres_store(postgres_database, home=tmp_path / home)
            stack.push_async_callback(store.close)
            return store

        yield opened


def change(address: str, statement: str) -> None:
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute(statement.encode())


@pytest.mark.promise("W10")
async def test_a_second_server_is_refused_until_the_first_is_closed(open_at: OpenAt) -> None:
    first = await open_at("one")
    with pytest.raises(StoreLocked, match="in use by another Holdfast server"):
        await open_at("two")
    with pytest.raises(StoreLocked, match="in use by another Holdfast server"):
        await open_at("one")  # the lock of its directory
    await first.close()
    second = await open_at("two")
    await second.commit(new_workspace())


@pytest.mark.promise("W10")
async def test_a_server_that_was_replaced_cannot_write(open_at: OpenAt, postgres_database: str) -> None:
    paused = await open_at("paused")
    await paused.commit(new_workspace())
    change(postgres_database, "UPDATE servers SET expires_at = clock_timestamp() - interval '1 second'")
    other = await open_at("other")
    with pytest.raises(StoreLocked, match="taken over") as refused:
        await paused.commit(new_session())
    assert refused.value.error_code == "store_taken_over"
    assert (await other.sessions("wsp_1", limit=9)).items == ()
    await other.commit(new_session())
    assert other.last_number == 1


@pytest.mark.promise("W10")
async def test_a_newer_schema_and_foreign_tables_are_refused(open_at: OpenAt, postgres_database: str) -> None:
    store = await open_at("one")
    await store.close()
    change(postgres_database, "UPDATE schema_version SET shared = shared + 1")
    with pytest.raises(StoreNewer, match="newer Holdfast"):
        await open_at("one")
    change(postgres_database, "UPDATE schema_version SET shared = shared - 1")


async def test_a_database_of_another_program_is_not_touched(tmp_path: Path) -> None:
    cluster = shared_cluster()
    cluster.admin("CREATE DATABASE foreign_tables")
    address = cluster.conninfo("foreign_tables")
    change(address, "CREATE TABLE sessions (id int)")
    with pytest.raises(StoreDamaged, match="another program"):
        await open_postgres_store(address, home=tmp_path)
    with psycopg.connect(address) as connection:
        found = connection.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").fetchone()
    assert found == (1,)
    cluster.admin("DROP DATABASE foreign_tables")


async def test_an_address_without_a_server_says_so(tmp_path: Path) -> None:
    with pytest.raises(StoreUnreachable, match="does not answer"):
        await open_postgres_store(f"postgresql:///x?host={tmp_path}", home=tmp_path)
