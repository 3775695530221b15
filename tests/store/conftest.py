"""Stores for tests. Each implementation is a parameter of `reopen`, so that the conformance tests run against it."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from holdfast.store import SqliteStore, Store, open_store
from holdfast.store.postgres import open_postgres_store
from tests.store.batches import new_session, new_workspace
from tests.support.operated_programs import PgBouncer
from tests.support.postgres_cluster import shared_cluster

Reopen = Callable[[], Awaitable[Store]]


@pytest.fixture(scope="module")
def pooler() -> Iterator[PgBouncer]:
    bouncer = PgBouncer(shared_cluster().directory)
    bouncer.start()
    yield bouncer
    bouncer.close()


@pytest.fixture(params=["sqlite", "postgres", pytest.param("pgbouncer", marks=pytest.mark.stress(weight=0.02))])
async def reopen(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Reopen]:
    """Return a function that opens the same store again, and closes it first if it is open."""
    current: list[Store] = []
    address = None if request.param == "sqlite" else request.getfixturevalue("postgres_database")
    if address is not None and request.param == "pgbouncer":
        address = request.getfixturevalue("pooler").address(address)

    async def reopened() -> Store:
        while current:
            await current.pop().close()
        if address is None:
            current.append(await open_store(tmp_path / "ledger" / "holdfast.db"))
        else:
            current.append(await open_postgres_store(address, home=tmp_path))
        return current[0]

    yield reopened
    while current:
        await current.pop().close()


@pytest.fixture
async def store(reopen: Reopen) -> Store:
    return await reopen()


@pytest.fixture
async def ledger(store: Store) -> Store:
    """A store with one workspace and one session."""
    await store.commit(new_workspace())
    await store.commit(new_session())
    return store


@pytest.fixture
async def open_sqlite(tmp_path: Path) -> AsyncIterator[Callable[..., Awaitable[SqliteStore]]]:
    """Return a function that opens SQLite stores, which are closed at the end."""
    async with AsyncExitStack() as stack:

        async def opened(path: Path | None = None, **options: object) -> SqliteStore:
            store = await open_store(path or tmp_path / "holdfast.db", **options)  # type: ignore[arg-type]
            stack.push_async_callback(store.close)
            return store

        yield opened
