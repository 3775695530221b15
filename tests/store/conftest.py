"""The implementations of `Store` that the conformance suite runs against: a second one is one more parameter."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from holdfast.store import SqliteStore, Store, open_store

Reopen = Callable[[], Awaitable[Store]]


@pytest.fixture(params=["sqlite"])
async def reopen(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Reopen]:
    """Opens the same ledger, each time closing the one before; everything must have survived that."""
    current: list[Store] = []

    async def reopened() -> Store:
        assert request.param == "sqlite"
        while current:
            await current.pop().close()
        current.append(await open_store(tmp_path / "ledger" / "holdfast.db"))
        return current[0]

    yield reopened
    while current:
        await current.pop().close()


@pytest.fixture
async def store(reopen: Reopen) -> Store:
    return await reopen()


@pytest.fixture
async def open_sqlite(tmp_path: Path) -> AsyncIterator[Callable[..., Awaitable[SqliteStore]]]:
    """Opens SQLite ledgers, and closes them at the end."""
    async with AsyncExitStack() as stack:

        async def opened(path: Path | None = None, **options: object) -> SqliteStore:
            store = await open_store(path or tmp_path / "holdfast.db", **options)  # type: ignore[arg-type]
            stack.push_async_callback(store.close)
            return store

        yield opened
