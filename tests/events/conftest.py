"""A hub on a real store."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from holdfast.events import Hub
from holdfast.store import SqliteStore, open_store
from tests.store.batches import new_session, new_workspace


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    """A store with one workspace and one session, which is event 1."""
    store = await open_store(tmp_path / "holdfast.db")
    await store.commit(new_workspace())
    await store.commit(new_session())
    yield store
    await store.close()


@pytest.fixture
async def hub(store: SqliteStore) -> AsyncIterator[Hub]:
    hub = Hub(store, heartbeat_seconds=10.0, clock=lambda: 1767225600.0)
    yield hub
    hub.close()
