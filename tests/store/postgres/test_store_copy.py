"""Moving all sessions from SQLite to PostgreSQL and back: resumable, compared, with the same event log."""

import asyncio
from functools import partial
from pathlib import Path

import psycopg
import pytest

from holdfast.errors import BadRequest, StoreDamaged, StoreLocked
from holdfast.schema.messages import Finish, Text
from holdfast.schema.usage import Usage
from holdfast.store import Batch, Store, open_store
from holdfast.store import writes as w
from holdfast.store.postgres import open_postgres_store, store_copy
from holdfast.store.postgres.store_copy import copy_to_postgres, copy_to_sqlite
from tests.store.batches import a_message, a_run, accept, an_approval, end, new_session, new_workspace, says


async def fill(store: Store) -> None:
    await store.commit(new_workspace())
    await store.commit(new_session(title="Plans ☃"))
    await store.commit(new_session("ses_0", parent_id="ses_1"))
    await store.commit(new_session("ses_00", parent_id="ses_0"))
    for n in range(1, 25):
        await store.commit(accept(a_run(f"run_{n}", seq=n, prompt=f"prompt {n}")))
        await store.commit(says(f"msg_{n}", f"words about subject{n} \0"))
        await store.commit(end(a_run(f"run_{n}", seq=n)))
    usage = w.AddUsage(session_id="ses_1", day="2026-01-01", model="m", usage=Usage(input=5, cost=0.1), runs=1)
    approval = w.OpenApproval(an_approval("apr_1"))
    await store.commit(Batch((usage, approval, w.RecordRead(session_id="ses_1", path="/a", content_hash="h"))))
    await store.commit(Batch((w.PutMessage(a_message("msg_open", Text("x"), Finish("end_turn"))),)))


async def everything(store: Store) -> list[object]:
    return [
        store.log_id,
        store.last_number,
        await store.workspaces(),
        await store.session("ses_1"),
        await store.descendants("ses_1"),
        (await store.runs("ses_1", limit=100)).items,
        (await store.messages("ses_1", limit=100)).items,
        (await store.events_after(0, upto=store.last_number, limit=1000)).events,
        (await store.open_approvals()).items,
        await store.usage_stats(since="2026", until="2027"),
        await store.read_hashes("ses_1"),
        [hit.message_id for hit in await store.search("subject7")],
    ]


def ignore(name: str, rows: int) -> None:
    pass


def stop_at(table: str, name: str, rows: int) -> None:
    if name == table:
        raise KeyboardInterrupt


async def test_all_sessions_are_moved_to_postgresql_and_back(
    tmp_path: Path, postgres_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_copy, "_ROWS", 10)
    file, back = tmp_path / "holdfast.db", tmp_path / "back.db"
    store: Store = await open_store(file)
    await fill(store)
    before = await everything(store)
    with pytest.raises(StoreLocked):
        await asyncio.to_thread(copy_to_postgres, file, postgres_database, progress=ignore)
    await store.close()

    for table in ("events", "sessions", "messages"):
        with pytest.raises(KeyboardInterrupt):
            await asyncio.to_thread(_copy_until, partial(stop_at, table), file, postgres_database)
        with pytest.raises(StoreDamaged, match="not finished"):
            await open_postgres_store(postgres_database, home=tmp_path)
    copied = await asyncio.to_thread(copy_to_postgres, file, postgres_database, progress=ignore)
    rows = {table.name: table.rows for table in copied}
    assert (rows["sessions"], rows["runs"], rows["messages"], rows["events"]) == (3, 24, 25, 75)

    store = await open_postgres_store(postgres_database, home=tmp_path)
    assert await everything(store) == before
    assert (await store.commit(says("msg_new", "y"))).numbers == (76,)
    await store.close()
    with pytest.raises(BadRequest, match="has sessions already"):
        await asyncio.to_thread(copy_to_postgres, file, postgres_database, progress=ignore)

    await asyncio.to_thread(copy_to_sqlite, postgres_database, back, progress=ignore)
    store = await open_store(back)
    after = await everything(store)
    assert (after[0], after[1]) == (before[0], 76)
    assert after[2:6] == before[2:6]
    assert (await store.commit(says("msg_newer", "y"))).numbers == (77,)
    await store.close()


def _copy_until(progress: store_copy.Progress, file: Path, address: str) -> None:
    """A copy that is stopped. Its lease is given back, as after Ctrl-C."""
    copy_to_postgres(file, address, progress=progress)


async def test_a_copy_that_differs_is_told(
    tmp_path: Path, postgres_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "holdfast.db"
    store = await open_store(file)
    await fill(store)
    await store.close()

    def damage(name: str, rows: int) -> None:
        if name == "usage_days":
            with psycopg.connect(postgres_database) as admin:
                admin.execute("UPDATE runs SET body_hash = 'other' WHERE id = 'run_3'")

    with pytest.raises(StoreDamaged, match="the copy of the table 'runs' differs"):
        await asyncio.to_thread(copy_to_postgres, file, postgres_database, progress=damage)
    with pytest.raises(StoreDamaged, match="not finished"):
        await open_postgres_store(postgres_database, home=tmp_path)
