"""Databases of every released version are opened, and keep what they have.

When a migration is added, `python -m dev.record_database` adds the dump of the new version.
"""

import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path

import pytest

from holdfast.schema.events import MessageFinished, RunFinished, read_event
from holdfast.schema.messages import text_of
from holdfast.store import SqliteStore
from holdfast.store.rows.migrations import MIGRATIONS
from tests.store.batches import says
from tests.store.sqlite.old_databases import DUMPS
from tests.support.log_consistency import check_log_matches_tables

VERSIONS = range(1, len(MIGRATIONS) + 1)


def restore(version: int, path: Path) -> None:
    with closing(sqlite3.connect(path)) as sql:
        sql.executescript((DUMPS / f"version_{version}.sql").read_text())


def columns(path: Path) -> dict[str, list[tuple[object, ...]]]:
    """The columns of each table and index."""
    with closing(sqlite3.connect(path)) as sql:
        names = sql.execute("SELECT type, name FROM sqlite_master WHERE name NOT LIKE 'search%'").fetchall()
        return {name: sql.execute(f"PRAGMA {kind}_info({name!r})").fetchall() for kind, name in names}


def test_there_is_a_dump_of_every_version() -> None:
    found = {path.stem for path in DUMPS.glob("*.sql")}
    assert found == {f"version_{number}" for number in VERSIONS}, "run python -m dev.record_database"


@pytest.mark.promise("W10")
@pytest.mark.parametrize("version", VERSIONS)
async def test_a_migrated_database_has_the_tables_of_a_new_one(
    tmp_path: Path, open_sqlite: Callable[..., Awaitable[SqliteStore]], version: int
) -> None:
    """Fails if a released migration is edited."""
    old, new = tmp_path / "old.db", tmp_path / "new.db"
    restore(version, old)
    for path in (old, new):
        await (await open_sqlite(path)).close()
    assert columns(old) == columns(new)
    assert "messages" in columns(new)


@pytest.mark.promise("W10")
@pytest.mark.parametrize("version", VERSIONS)
async def test_an_old_database_keeps_its_messages_runs_and_events(
    tmp_path: Path, open_sqlite: Callable[..., Awaitable[SqliteStore]], version: int
) -> None:
    path = tmp_path / "holdfast.db"
    restore(version, path)
    with closing(sqlite3.connect(path)) as sql:
        logged = [bytes(body) for (body,) in sql.execute("SELECT body FROM events ORDER BY number")]
        (session_id,) = sql.execute("SELECT id FROM sessions").fetchone()
    store = await open_sqlite(path)
    page = await store.events_after(0, upto=store.last_number, limit=1000)
    if version == 1:
        assert [event.body for event in page.events] == logged
    finished = [event for body in page.events if isinstance(event := read_event(body.body), MessageFinished)]
    stored = (await store.messages(session_id, limit=100)).items
    assert [message.parts for message in stored if message.role == "assistant"] == [
        one.message.parts for one in finished
    ]
    ends = [event.run for body in page.events if isinstance(event := read_event(body.body), RunFinished)]
    assert [run.prompt for run in ends] == ["hello number one", "hello number two"]
    assert [run.text.splitlines()[-1] for run in ends] == ["hello number one", "hello number two"]
    for run in ends:
        assert await store.run(run.id) == run
        assert (await store.message(run.message_id or "")).run_id == run.id
    assert text_of(stored[-1].parts) == ends[-1].text
    await check_log_matches_tables(store)
    await store.commit(says("msg_new", "written by this version", session_id=session_id))
    assert [hit.message_id for hit in await store.search("version")] == ["msg_new"]
