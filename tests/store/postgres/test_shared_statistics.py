"""The rows of a day's statistics are shared by all servers: these do not wait for each other in a circle."""

import asyncio

import psycopg
import pytest

from holdfast.schema.usage import Usage
from holdfast.store import Batch
from holdfast.store import writes as w
from holdfast.store.postgres import commit_thread
from tests.store.batches import new_session, new_workspace
from tests.store.postgres.held_leases import OpenServer

_DAY = "2026-01-31"


@pytest.fixture
def postgres_database(postgres_database: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Nothing but the time limit of a commit ends a deadlock, so that one is an error."""
    monkeypatch.setattr(commit_thread, "COMMIT_SECONDS", 30.0)
    return f"{postgres_database}&options=-c%20deadlock_timeout%3D1h"


def _tools(*tools: str) -> Batch:
    return Batch(tuple(w.AddToolUse(day=_DAY, tool=tool) for tool in tools))


def _models(server: str, *models: str) -> Batch:
    return Batch(
        tuple(w.AddUsage(session_id=f"ses_{server}", day=_DAY, model=model, usage=Usage(input=1)) for model in models)
    )


@pytest.mark.parametrize(
    ("batches", "middle"),
    [
        ((_tools("a", "m", "z"), _tools("z", "m", "a")), "tool_days WHERE tool = 'm'"),
        ((_models("one", "a", "m", "z"), _models("two", "z", "m", "a")), "usage_days WHERE model = 'm'"),
    ],
    ids=["tools", "models"],
)
async def test_servers_add_to_the_same_rows_in_one_order(
    open_server: OpenServer, postgres_database: str, batches: tuple[Batch, Batch], middle: str
) -> None:
    """Both commits wait for the row in the middle, so each would have its first one and need that of the other."""
    stores = [await open_server(name, {f"wsp_{name}": 1}) for name in ("one", "two")]
    for name, store in zip(("one", "two"), stores, strict=True):
        await store.commit(new_workspace(f"wsp_{name}"))
        await store.commit(new_session(f"ses_{name}", workspace_id=f"wsp_{name}"))
        await store.commit(_tools("a", "m", "z"))
        await store.commit(_models(name, "a", "m", "z"))
    async with await psycopg.AsyncConnection.connect(postgres_database) as admin:
        await admin.execute(f"SELECT 1 FROM {middle} FOR UPDATE")
        committing = [asyncio.create_task(store.commit(batch)) for store, batch in zip(stores, batches, strict=True)]
        async with await psycopg.AsyncConnection.connect(postgres_database, autocommit=True) as watcher:
            while await _count_waiting(watcher) < len(committing):  # noqa: ASYNC110 - in another process
                await asyncio.sleep(0.01)
    await asyncio.gather(*committing)


async def _count_waiting(watcher: psycopg.AsyncConnection[tuple[int]]) -> int:
    rows = await watcher.execute(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    )
    found = await rows.fetchone()
    assert found is not None
    return found[0]
