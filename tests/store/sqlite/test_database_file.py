"""Opening the database: one owner, migrations, and damaged or foreign files that stay unchanged (W10)."""

import asyncio
import os
import shutil
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path

import pytest

from holdfast.errors import BadRequest, StoreDamaged, StoreLocked, StoreNewer, StoreUnwritable
from holdfast.store import SqliteStore, open_store
from holdfast.store.rows.migrations import APPLICATION_ID, MIGRATIONS
from holdfast.store.sqlite import database_file
from tests.store.batches import new_session, new_workspace, says
from tests.store.faulty_database import Faults, disk_error, small_disk

OpenSqlite = Callable[..., Awaitable[SqliteStore]]


async def filled(path: Path, *, messages: int = 40) -> None:
    """Create a database with some messages and close it."""
    store = await open_store(path)
    await store.commit(new_workspace())
    await store.commit(new_session())
    for n in range(messages):
        await store.commit(says(f"msg_{n}", "some words " * 100))
    await store.close()


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir() if path.suffix not in (".lock", ".db-shm")}


async def test_a_new_database_is_private(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "data" / "holdfast.db"
    store = await open_store(path)
    await store.commit(new_workspace())
    modes = {found.name: stat.S_IMODE(found.stat().st_mode) for found in [path.parent, *path.parent.iterdir()]}
    await store.close()
    assert modes.pop("data") == 0o700
    assert modes == dict.fromkeys(
        ["holdfast.db", "holdfast.db-wal", "holdfast.db-shm", "holdfast.db.lock", "holdfast.db.reserve"], 0o600
    )


@pytest.mark.promise("W10")
async def test_a_second_owner_is_refused_and_told_the_process_id(open_sqlite: OpenSqlite, tmp_path: Path) -> None:
    await open_sqlite()
    with pytest.raises(StoreLocked, match=rf"in use by another Holdfast server \(process {os.getpid()}\)") as caught:
        await open_store(tmp_path / "holdfast.db")
    assert caught.value.detail["pid"] == os.getpid()


@pytest.mark.promise("W10")
async def test_the_lock_ends_with_its_process(tmp_path: Path) -> None:
    path = tmp_path / "holdfast.db"
    program = (
        "import asyncio, sys; from pathlib import Path; from holdfast.store import open_store\n"
        "async def main():\n"
        "    store = await open_store(Path(sys.argv[1])); print('open', flush=True); await asyncio.Event().wait()\n"
        "asyncio.run(main())"
    )
    child = await asyncio.create_subprocess_exec(sys.executable, "-c", program, str(path), stdout=subprocess.PIPE)
    assert child.stdout is not None
    assert await child.stdout.readline() == b"open\n"
    with pytest.raises(StoreLocked, match=f"process {child.pid}"):
        await open_store(path)
    child.kill()
    await child.wait()
    await (await open_store(path)).close()


@pytest.mark.promise("W10")
async def test_a_failed_open_releases_the_lock(tmp_path: Path) -> None:
    path = tmp_path / "holdfast.db"
    path.write_bytes(b"not a database at all" * 100)
    for _ in range(2):
        with pytest.raises(StoreDamaged):
            await open_store(path)


@pytest.mark.promise("W10")
@pytest.mark.parametrize("garbage", [b"x", b"hello world " * 1000, b"\0" * 8192, b"SQLite format 3\0" + b"\xff" * 8000])
async def test_a_file_that_is_not_a_database_is_not_changed(tmp_path: Path, garbage: bytes) -> None:
    path = tmp_path / "holdfast.db"
    path.write_bytes(garbage)
    with pytest.raises(StoreDamaged, match=r"is damaged: .* not changed"):
        await open_store(path)
    assert contents(tmp_path) == {"holdfast.db": garbage}


@pytest.mark.promise("W10")
async def test_an_empty_file_in_place_of_a_used_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "holdfast.db"
    await (await open_store(path)).close()
    path.write_bytes(b"")
    with pytest.raises(StoreDamaged, match="it is empty, but it was a database"):
        await open_store(path)
    assert path.read_bytes() == b""
    path.unlink()  # the user wants a new one
    await (await open_store(path)).close()
    assert path.stat().st_size > 0


@pytest.mark.promise("W10")
async def test_damage_in_the_middle_of_a_closed_database_is_found_at_the_start(tmp_path: Path) -> None:
    path = tmp_path / "holdfast.db"
    store = await open_store(path)
    await store.commit(new_workspace())
    await store.commit(new_session())
    for number in range(50):
        await store.commit(says(f"msg_{number}", "words " * 500))
    await store.close()
    content = bytearray(path.read_bytes())
    middle = len(content) // 2 // 4096 * 4096
    content[middle : middle + 8192] = os.urandom(8192)
    path.write_bytes(content)
    with pytest.raises(StoreDamaged, match="holdfast restore"):
        await open_store(path)
    assert path.read_bytes() == content


@pytest.mark.promise("W10")
async def test_a_truncated_database_is_not_changed(tmp_path: Path) -> None:
    path = tmp_path / "holdfast.db"
    await filled(path)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    before = contents(tmp_path)
    with pytest.raises(StoreDamaged, match="truncated"):
        await open_store(path)
    assert contents(tmp_path) == before


@pytest.mark.promise("W10")
@pytest.mark.parametrize(("name", "found"), [("jobs_of_workspace", "Page"), ("jobs", "malformed|Page")])
async def test_damage_is_found_after_a_crash_and_not_changed(tmp_path: Path, name: str, found: str) -> None:
    path = tmp_path / "a" / "holdfast.db"
    await filled(path)
    with closing(sqlite3.connect(path)) as sql:
        (root,) = sql.execute("SELECT rootpage FROM sqlite_schema WHERE name = ?", (name,)).fetchone()
    store = await open_store(path)
    await store.commit(new_workspace("wsp_2"))
    crashed = tmp_path / "b"
    await asyncio.to_thread(shutil.copytree, path.parent, crashed)
    await store.close()
    with (crashed / "holdfast.db").open("r+b") as file:
        file.seek((root - 1) * 4096)
        file.write(b"\xa5" * 64)
    before = contents(crashed)
    assert "holdfast.db-wal" in before
    with pytest.raises(StoreDamaged, match=f"is damaged: .*({found})"):
        await open_store(crashed / "holdfast.db")
    assert contents(crashed) == before


@pytest.mark.promise("W10")
async def test_damage_in_any_page_is_reported_as_damage(tmp_path: Path) -> None:
    path = tmp_path / "holdfast.db"
    await filled(path)
    whole = path.read_bytes()
    met: list[str] = []
    for page in range(1, len(whole) // 4096):
        path.write_bytes(whole[: page * 4096] + b"\xa5" * 4096 + whole[(page + 1) * 4096 :])
        try:
            store = await open_store(path)
        except StoreDamaged as error:
            met.append(error.message)
        else:
            await store.close()
        for beside in ("-wal", "-shm"):
            path.with_name(path.name + beside).unlink(missing_ok=True)
    assert met
    assert all("is damaged" in message for message in met)


async def crashed_with_log(tmp_path: Path, *, commits: int) -> Path:
    """A database as a crash leaves it, with this many commits in its log."""
    path = tmp_path / "a" / "holdfast.db"
    await filled(path, messages=1)
    store = await open_store(path)
    for number in range(commits):
        await store.commit(says(f"msg_{number}_more", "left in the write-ahead log"))
    await asyncio.to_thread(shutil.copytree, path.parent, tmp_path / "b")
    await store.close()
    return tmp_path / "b" / "holdfast.db"


@pytest.mark.promise("W10")
@pytest.mark.parametrize("place", [0, 20, 32 + 8, 32 + 24 + 500, 32 + 4120 + 24])
async def test_damage_in_the_write_ahead_log_is_found_after_a_crash(tmp_path: Path, place: int) -> None:
    path = await crashed_with_log(tmp_path, commits=5)
    log = path.with_name("holdfast.db-wal")
    whole = log.read_bytes()
    log.write_bytes(whole[:place] + b"\xa5" * 8 + whole[place + 8 :])
    before = log.read_bytes()
    with pytest.raises(StoreDamaged, match=r"write-ahead log .* has wrong bytes"):
        await open_store(path)
    assert log.read_bytes() == before


@pytest.mark.promise("W10")
async def test_a_last_transaction_that_is_half_written_is_no_damage(tmp_path: Path) -> None:
    path = await crashed_with_log(tmp_path, commits=5)
    log = path.with_name("holdfast.db-wal")
    whole = log.read_bytes()
    for cut in (1, 3000, 4120, 4121, 9000):
        log.write_bytes(whole[:-cut])
        assert not await asyncio.to_thread(inspected_as_damaged, path)
    log.write_bytes(whole[:-4120] + b"\xa5" * 4120)
    assert not await asyncio.to_thread(inspected_as_damaged, path)


async def test_frames_of_commits_that_the_disk_refused_are_no_damage(tmp_path: Path) -> None:
    path = await crashed_with_log(tmp_path, commits=5)
    log = path.with_name("holdfast.db-wal")
    whole = log.read_bytes()
    log.write_bytes(whole + whole[32 : 32 + 3 * 4120] + whole[32 + 4120 : 32 + 2 * 4120])
    assert not await asyncio.to_thread(inspected_as_damaged, path)


def inspected_as_damaged(path: Path) -> bool:
    try:
        database_file.inspect(path)
    except StoreDamaged:
        return True
    return False


async def test_the_write_ahead_log_is_recovered_after_a_crash(tmp_path: Path) -> None:
    path = tmp_path / "a" / "holdfast.db"
    await filled(path, messages=1)
    store = await open_store(path)
    await store.commit(says("msg_more", "left in the write-ahead log"))
    await asyncio.to_thread(shutil.copytree, path.parent, tmp_path / "b")
    await store.close()
    store = await open_store(tmp_path / "b" / "holdfast.db")
    assert (await store.message("msg_more")).seq == 2
    assert store.last_number == 3
    await store.close()


@pytest.mark.promise("W10")
async def test_a_database_of_another_program_is_not_changed(tmp_path: Path) -> None:
    path = tmp_path / "holdfast.db"
    with closing(sqlite3.connect(path)) as sql:
        sql.execute("CREATE TABLE theirs (x)")
    before = contents(tmp_path)
    with pytest.raises(StoreDamaged, match="of another program"):
        await open_store(path)
    assert contents(tmp_path) == before


@pytest.mark.promise("W10")
async def test_a_newer_database_is_not_changed(tmp_path: Path) -> None:
    path = tmp_path / "holdfast.db"
    await filled(path, messages=1)
    with closing(sqlite3.connect(path)) as sql:
        sql.execute(f"PRAGMA user_version = {len(MIGRATIONS) + 1}")
    before = contents(tmp_path)
    with pytest.raises(StoreNewer, match="newer Holdfast") as caught:
        await open_store(path)
    assert caught.value.detail == {"found": len(MIGRATIONS) + 1, "known": len(MIGRATIONS)}
    assert contents(tmp_path) == before


@pytest.mark.promise("W10")
async def test_the_error_names_a_path_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(StoreUnwritable, match=r"file/holdfast\.db.* cannot be written"):
        await open_store(tmp_path / "file" / "holdfast.db")
    (tmp_path / "holdfast.db").mkdir()
    with pytest.raises(StoreUnwritable, match="cannot be written"):
        await open_store(tmp_path / "holdfast.db")


@pytest.mark.promise("W10")
@pytest.mark.parametrize("start", ["PRAGMA journal_mode", "BEGIN"])
async def test_the_error_says_why_a_database_cannot_be_written(tmp_path: Path, start: str) -> None:
    path = tmp_path / "holdfast.db"
    await filled(path, messages=1)
    before = contents(tmp_path)
    faults = Faults()
    faults.on = lambda sql: disk_error("attempt to write a readonly database") if sql.startswith(start) else None
    with pytest.raises(StoreUnwritable, match="readonly"):
        await open_store(path, connect=faults.connect)
    assert contents(tmp_path) == before


@pytest.mark.promise("W10")
async def test_a_read_only_disk_is_reported_and_nothing_is_changed(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "4m") as disk:
        if disk is None:
            pytest.skip("mounting is not permitted here")
        await filled(disk / "holdfast.db", messages=1)
        before = contents(disk)
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True, timeout=10)
        with pytest.raises(StoreUnwritable, match="cannot be written"):
            await open_store(disk / "holdfast.db")
        assert contents(disk) == before


async def test_a_database_whose_first_open_was_interrupted_opens(tmp_path: Path) -> None:
    path = tmp_path / "holdfast.db"
    with closing(sqlite3.connect(path)) as sql:
        sql.execute("PRAGMA journal_mode = WAL")
    store = await open_store(path)
    await store.commit(new_workspace())
    await store.close()


def tables(sql: sqlite3.Connection) -> list[str]:
    return [row[0] for row in sql.execute("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name")]


def test_a_failed_migration_leaves_the_previous_version() -> None:
    steps = (MIGRATIONS[0], ("CREATE TABLE extra (x)",), ("CREATE TABLE more (x)", "CREATE TABLE nonsense"))
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as sql:
        with pytest.raises(sqlite3.OperationalError):
            database_file.migrate(sql, steps)
        assert sql.execute("PRAGMA user_version").fetchone() == (2,)
        assert "extra" in tables(sql)
        assert "more" not in tables(sql)
        assert not sql.in_transaction
        database_file.migrate(sql, (*steps[:2], ("CREATE TABLE more (x)",)))
        assert sql.execute("PRAGMA user_version").fetchone() == (3,)
        assert sql.execute("PRAGMA application_id").fetchone() == (APPLICATION_ID,)


@pytest.mark.parametrize("version", range(1, len(MIGRATIONS) + 1))
async def test_every_released_version_is_migrated(tmp_path: Path, version: int) -> None:
    path = tmp_path / "holdfast.db"

    def make() -> None:
        with closing(sqlite3.connect(path, isolation_level=None)) as sql:
            database_file.migrate(sql, MIGRATIONS[:version])

    await asyncio.to_thread(make)
    store = await open_store(path)
    await store.commit(new_workspace())
    await store.commit(new_session())
    await store.commit(says("msg_1", "words"))
    assert len(await store.search("words")) == 1
    await store.close()


def indexed(path: Path) -> tuple[int, int]:
    """Return how many texts are indexed, and how many are not."""
    with closing(sqlite3.connect(path)) as sql:
        (known,) = sql.execute("SELECT count(*) FROM search WHERE search MATCH 'some'").fetchone()
        (new,) = sql.execute("SELECT count(*) FROM message_text WHERE indexed = 0").fetchone()
        return known, new


async def test_text_is_indexed_when_the_store_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "holdfast.db"
    await filled(path, messages=3)
    assert indexed(path) == (3, 0)


async def test_a_missing_index_is_rebuilt_from_the_text(tmp_path: Path) -> None:
    path = tmp_path / "holdfast.db"
    await filled(path, messages=3)
    with closing(sqlite3.connect(path)) as sql:
        sql.execute("DROP TABLE search")
    store = await open_store(path)
    assert len(await store.search("words")) == 3
    await store.close()
    assert indexed(path) == (3, 0)


async def test_without_fts5_search_scans_the_text(open_sqlite: OpenSqlite, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database_file, "has_fts5", lambda _: False)
    store = await open_sqlite()
    await store.commit(new_workspace())
    await store.commit(new_session())
    await store.commit(says("msg_1", "Red and blue"))
    await store.commit(says("msg_2", "red"))
    assert [hit.message_id for hit in await store.search("RED")] == ["msg_2", "msg_1"]
    assert [hit.message_id for hit in await store.search("blue red")] == ["msg_1"]


@pytest.mark.promise("W10")
async def test_a_backup_during_commits_is_consistent(open_sqlite: OpenSqlite, tmp_path: Path) -> None:
    store = await open_sqlite()
    await store.commit(new_workspace())
    await store.commit(new_session())

    async def write() -> None:
        for n in range(300):
            await store.commit(says(f"msg_{n}", "words " * 50))

    writing = asyncio.create_task(write())
    copies = []
    for n in range(5):
        copies.append(tmp_path / "copies" / f"{n}.db")
        copies[-1].parent.mkdir(exist_ok=True)
        await store.backup(copies[-1])
    await writing
    sizes = []
    for copy in copies:
        assert stat.S_IMODE(copy.stat().st_mode) == 0o600
        copied = await open_store(copy)
        messages = (await copied.messages("ses_1", limit=1000)).items
        events = (await copied.events_after(0, upto=copied.last_number, limit=1000, max_bytes=1 << 30)).events
        await copied.close()
        assert [message.seq for message in messages] == list(range(1, len(messages) + 1))
        assert [event.number for event in events] == list(range(1, len(messages) + 2))
        assert copied.last_number == len(messages) + 1
        assert copied.log_id == store.log_id
        sizes.append(len(messages))
    assert sizes == sorted(sizes)
    leftovers = {path.name for path in (tmp_path / "copies").iterdir()}
    assert leftovers == {f"{n}.db{end}" for n in range(5) for end in ("", ".lock")}


async def test_a_backup_does_not_overwrite_a_file(open_sqlite: OpenSqlite, tmp_path: Path) -> None:
    store = await open_sqlite()
    (tmp_path / "mine").write_text("precious")
    with pytest.raises(BadRequest, match="exists"):
        await store.backup(tmp_path / "mine")
    with pytest.raises(StoreUnwritable, match="could not be written"):
        await store.backup(tmp_path / "nowhere" / "copy")
    assert (tmp_path / "mine").read_text() == "precious"
