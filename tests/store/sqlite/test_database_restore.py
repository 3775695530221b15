"""A backup is put in the place of a damaged database, and nothing is removed."""

import asyncio
import os
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest

from holdfast.errors import BadRequest, HoldfastError, StoreDamaged, StoreLocked
from holdfast.store import open_store
from holdfast.store.sqlite.database_restore import list_backups, restore_database
from tests.store.batches import new_session, new_workspace


async def make_database(path: Path) -> Path:
    """A database with one session, and a backup of it. The database has a second session that the backup lacks."""
    store = await open_store(path)
    await store.commit(new_workspace())
    await store.commit(new_session())
    backup = path.with_name("copy.db")
    await store.backup(backup)
    await store.commit(new_session("ses_2"))
    await store.close()
    return backup


def contents(directory: Path) -> dict[str, bytes]:
    files = (path for path in directory.rglob("*") if path.is_file() and path.suffix != ".lock")
    return {str(path.relative_to(directory)): path.read_bytes() for path in files}


def log_id(path: Path) -> str:
    with closing(sqlite3.connect(path)) as connection:
        (found,) = connection.execute("SELECT id FROM log").fetchone()
    return str(found)


@pytest.mark.promise("W10")
async def test_a_damaged_database_is_replaced_and_kept(tmp_path: Path) -> None:
    database = tmp_path / "holdfast.db"
    backup = await make_database(database)
    old_log = log_id(backup)
    await asyncio.to_thread(database.write_bytes, b"rubbish" * 5000)
    (tmp_path / "holdfast.intents").write_bytes(b"intent")
    (tmp_path / "holdfast.db.drafts").write_bytes(b"draft")
    with pytest.raises(StoreDamaged, match="holdfast restore latest"):
        await open_store(database)
    restored = await asyncio.to_thread(restore_database, database, backup, stamp="now")
    assert restored == (tmp_path / "damaged-now", 1, 0)
    moved = contents(tmp_path / "damaged-now")
    assert moved == {
        "holdfast.db": b"rubbish" * 5000,
        "holdfast.intents": b"intent",
        "holdfast.db.drafts": b"draft",
    }
    store = await open_store(database)
    assert (await store.session("ses_1")).id == "ses_1"
    await store.commit(new_session("ses_3"))
    await store.close()
    assert log_id(database) != old_log, "cursors of the old log would fit the new one"
    assert log_id(backup) == old_log, "the backup was changed"


@pytest.mark.promise("W10")
@pytest.mark.parametrize("broken", ["rubbish", "truncated", "other program", "missing", "a page"])
async def test_a_backup_that_cannot_be_used_changes_nothing(tmp_path: Path, broken: str) -> None:
    database = tmp_path / "holdfast.db"
    backup = await make_database(database)
    sound = backup.read_bytes()
    match broken:
        case "rubbish":
            backup.write_bytes(b"rubbish" * 1000)
        case "truncated":
            backup.write_bytes(sound[: len(sound) // 2])
        case "other program":
            backup.unlink()
            with closing(sqlite3.connect(backup)) as connection:
                connection.execute("CREATE TABLE other (x)")
        case "missing":
            backup.unlink()
        case "a page":
            backup.write_bytes(sound[:8192] + b"\xff" * 4096 + sound[12288:])
    before = contents(tmp_path)
    with pytest.raises((StoreDamaged, BadRequest)) as found:
        await asyncio.to_thread(restore_database, database, backup, stamp="now")
    assert str(backup) in str(found.value)
    assert contents(tmp_path) == before
    store = await open_store(database)
    assert (await store.session("ses_2")).id == "ses_2"
    await store.close()


@pytest.mark.promise("W10")
async def test_a_database_in_use_is_not_replaced(tmp_path: Path) -> None:
    database = tmp_path / "holdfast.db"
    backup = await make_database(database)
    store = await open_store(database)
    with pytest.raises(StoreLocked):
        await asyncio.to_thread(restore_database, database, backup, stamp="now")
    assert (await store.session("ses_2")).id == "ses_2"
    await store.close()


async def test_without_a_database_a_backup_becomes_one(tmp_path: Path) -> None:
    backup = await make_database(tmp_path / "a.db")
    fresh = tmp_path / "new" / "holdfast.db"
    assert (await asyncio.to_thread(restore_database, fresh, backup, stamp="now")).moved_to is None
    store = await open_store(fresh)
    with pytest.raises(HoldfastError):
        await store.session("ses_2")
    await store.close()


def test_backups_are_listed_newest_first(tmp_path: Path) -> None:
    for day, name in enumerate(
        ("holdfast-2026-11-02.db", "holdfast-2026-11-01.db", "other.db", "holdfast-3.unverified")
    ):
        (tmp_path / name).write_bytes(b"x" * day)
        os.utime(tmp_path / name, (day, day))
    assert [each.path.name for each in list_backups(tmp_path)] == ["holdfast-2026-11-01.db", "holdfast-2026-11-02.db"]
    assert list_backups(tmp_path / "missing") == []
    ahead = tmp_path / "holdfast-2040-01-01.db"
    ahead.write_bytes(b"of a clock that was ahead")
    os.utime(ahead, (time.time() + 86_400, time.time() + 86_400))
    assert list_backups(tmp_path)[-1].path == ahead
