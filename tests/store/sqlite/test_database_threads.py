"""The writer and reader threads: groups, and disks that are full or broken."""

import asyncio
import errno
import os
import random
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.errors import StoreConflict, StoreLocked, StoreUnwritable
from holdfast.store import Batch, SqliteStore, open_store
from holdfast.store.sqlite import database_file, database_threads, space_reserve
from tests.store.batches import a_run, accept, end, new_session, new_workspace, says
from tests.store.faulty_database import Faults, disk_error, failing, small_disk

OpenSqlite = Callable[..., Awaitable[SqliteStore]]


async def ready(store: SqliteStore) -> SqliteStore:
    await store.commit(new_workspace())
    await store.commit(new_session())
    return store


async def message_ids(store: SqliteStore) -> list[str]:
    return [message.id for message in (await store.messages("ses_1", limit=10_000)).items]


async def kinds(store: SqliteStore) -> list[str]:
    page = await store.events_after(0, upto=1 << 60, limit=10_000, max_bytes=1 << 30)
    return [event.kind for event in page.events]


class Gate:
    """Holds the writer at a statement until it is opened. Batches that arrive meanwhile form one group."""

    def __init__(self, start: str) -> None:
        self.start = start
        self.reached = threading.Event()
        self.open = threading.Event()

    def on(self, sql: str) -> None:
        if sql.startswith(self.start) and not self.open.is_set():
            self.reached.set()
            assert self.open.wait(30)


async def group_of(
    store: SqliteStore, faults: Faults, batches: list[Batch], then: Callable[[str], Exception | None]
) -> list[Any]:
    """Commit the batches as one group, with faults that begin with it."""
    gate = Gate("COMMIT")
    faults.on = gate.on
    first = asyncio.ensure_future(store.commit(says("msg_first", "x")))
    await asyncio.to_thread(gate.reached.wait, 30)
    rest = [asyncio.ensure_future(store.commit(batch)) for batch in batches]
    await asyncio.sleep(0)
    commits = []

    def counted(sql: str) -> Exception | None:
        if sql.startswith("COMMIT"):
            commits.append(sql)
        return then(sql)

    faults.on = counted
    gate.open.set()
    await first
    results = await asyncio.gather(*rest, return_exceptions=True)
    assert len(commits) <= 1
    return results


async def test_waiting_batches_share_one_durable_commit(open_sqlite: OpenSqlite) -> None:
    faults = Faults()
    store = await ready(await open_sqlite(connect=faults.connect))
    batches = [says(f"msg_{n}", "x") for n in range(50)]
    results = await group_of(store, faults, batches, lambda _: None)
    assert [result.numbers for result in results] == [(n,) for n in range(3, 53)]
    assert len(await message_ids(store)) == 51


async def test_commits_are_synchronous_in_wal_mode(open_sqlite: OpenSqlite) -> None:
    store = await open_sqlite()
    sql = store._writer._sql
    asked = ("journal_mode", "synchronous", "foreign_keys")
    found = await asyncio.to_thread(lambda: [sql.execute(f"PRAGMA {name}").fetchone()[0] for name in asked])
    assert found == ["wal", 2, 1]


@pytest.mark.promise("R14")
async def test_a_failed_commit_applies_none_of_its_batches(open_sqlite: OpenSqlite) -> None:
    faults = Faults()
    store = await ready(await open_sqlite(connect=faults.connect))
    heard: list[int] = []
    store.listen(lambda events: heard.extend(event.number for event in events))
    batches = [says(f"msg_{n}", "x") for n in range(5)]
    results = await group_of(store, faults, batches, failing("COMMIT"))
    assert [type(result) for result in results] == [StoreUnwritable] * 5
    assert "disk I/O error" in str(results[0])
    assert await message_ids(store) == ["msg_first"]
    assert store.last_number == 2
    assert (await store.commit(says("msg_after", "x"))).numbers == (3,)
    assert heard == [2, 3]
    assert await message_ids(store) == ["msg_first", "msg_after"]


@pytest.mark.promise("R14")
async def test_a_failed_statement_undoes_only_its_batch(open_sqlite: OpenSqlite) -> None:
    faults = Faults()
    store = await ready(await open_sqlite(connect=faults.connect))
    batches = [says("msg_1", "x"), accept(a_run()), says("msg_2", "x")]
    results = await group_of(store, faults, batches, failing("INSERT INTO runs"))
    assert [type(result).__name__ for result in results] == ["Committed", "StoreUnwritable", "Committed"]
    assert await message_ids(store) == ["msg_first", "msg_1", "msg_2"]
    assert await kinds(store) == ["session.created"] + ["message.updated"] * 3
    assert await store.run_record("run_1") is None


@pytest.mark.promise("R14")
async def test_all_batches_fail_if_sqlite_rolls_the_transaction_back(open_sqlite: OpenSqlite) -> None:
    faults = Faults()
    store = await ready(await open_sqlite(connect=faults.connect))

    def give_up(sql: str) -> Exception | None:
        if sql.startswith("INSERT INTO runs"):
            store._writer._sql.rollback()
            return disk_error("database or disk is full")
        return None

    batches = [says("msg_1", "x"), accept(a_run()), says("msg_2", "x")]
    results = await group_of(store, faults, batches, give_up)
    assert [type(result) for result in results] == [StoreUnwritable] * 3
    assert "disk is full" in str(results[0])
    faults.on = lambda _: None
    assert await message_ids(store) == ["msg_first"]
    assert (await store.commit(says("msg_3", "x"))).numbers == (3,)


@pytest.mark.promise("R14")
@pytest.mark.parametrize("start", ["BEGIN", "UPDATE log", "INSERT INTO messages", "COMMIT"])
async def test_a_disk_error_at_any_statement_changes_nothing_and_the_next_commit_works(
    open_sqlite: OpenSqlite, start: str
) -> None:
    faults = Faults()
    store = await ready(await open_sqlite(connect=faults.connect))
    faults.on = failing(start)
    with pytest.raises(StoreUnwritable) as caught:
        await store.commit(says("msg_1", "x"))
    assert caught.value.status == 507
    assert await message_ids(store) == []
    assert await kinds(store) == ["session.created"]
    committed = await store.commit(says("msg_1", "x"))
    assert (committed.numbers, committed.seqs) == ((2,), {"msg_1": 1})


@pytest.mark.promise("E1")
async def test_event_numbers_of_a_failed_batch_are_used_by_the_next(open_sqlite: OpenSqlite) -> None:
    faults = Faults()
    store = await ready(await open_sqlite(connect=faults.connect))
    told = says("msg_1", "x")
    midway = Batch((), (*told.events, *says("msg_2", "x", session_id="ses_unknown").events))
    results = await group_of(store, faults, [told, midway, says("msg_3", "x")], lambda _: None)
    assert isinstance(results[1], StoreConflict)
    assert (results[0].numbers, results[2].numbers) == ((3,), (4,))
    assert await kinds(store) == ["session.created"] + ["message.updated"] * 3


@pytest.mark.promise("R14")
@pytest.mark.parametrize("start", ["SAVEPOINT", "RELEASE", "ROLLBACK TO"])
async def test_all_batches_fail_if_a_savepoint_fails(open_sqlite: OpenSqlite, start: str) -> None:
    faults = Faults()
    store = await ready(await open_sqlite(connect=faults.connect))
    results = await group_of(store, faults, [says("msg_1", "x"), end(a_run()), says("msg_2", "x")], failing(start))
    assert [type(result) for result in results] == [StoreUnwritable] * 3
    assert await message_ids(store) == ["msg_first"]
    assert (await store.commit(says("msg_1", "x"))).numbers == (3,)


async def test_the_caller_gets_the_exception_of_a_bug_and_the_writer_continues(open_sqlite: OpenSqlite) -> None:
    store = await ready(await open_sqlite())
    with pytest.raises(UnicodeEncodeError):
        await store.commit(says("msg_1", "lone \ud800"))
    await store.commit(says("msg_2", "x"))
    assert await message_ids(store) == ["msg_2"]


async def _fill(store: SqliteStore, *, size: int = 50_000) -> int:
    """Commit until the store refuses. Return the number of commits."""
    done = 0
    while True:
        try:
            await store.commit(says(f"msg_{done}", "x" * size))
        except StoreUnwritable:
            return done
        done += 1
        assert done < 1000


@pytest.mark.promise("R14")
async def test_a_full_database_refuses_commits_until_there_is_space(open_sqlite: OpenSqlite) -> None:
    store = await ready(await open_sqlite())
    sql = store._writer._sql
    await asyncio.to_thread(lambda: sql.execute("PRAGMA max_page_count = 200").fetchone())
    done = await _fill(store)
    assert done > 0
    assert await message_ids(store) == [f"msg_{n}" for n in range(done)]
    assert await kinds(store) == ["session.created"] + ["message.updated"] * done
    await asyncio.to_thread(lambda: sql.execute("PRAGMA max_page_count = 100000").fetchone())
    assert (await store.commit(says("msg_more", "x" * 50_000))).numbers == (done + 2,)


@pytest.mark.promise("R14", "W10")
async def test_a_full_disk_refuses_commits_until_there_is_space(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "5m") as disk:
        if disk is None:
            pytest.skip("mounting is not permitted here")
        (disk / "filler").write_bytes(b"x" * 1_000_000)
        store = await ready(await open_store(disk / "holdfast.db"))
        try:
            done = await _fill(store)
            assert done > 0
            assert await message_ids(store) == [f"msg_{n}" for n in range(done)]
            with pytest.raises(StoreUnwritable, match="full"):
                await store.commit(says("msg_more", "x" * 50_000))
            (disk / "filler").unlink()
            assert (await store.commit(says("msg_more", "x" * 50_000))).numbers == (done + 2,)
        finally:
            await store.close()
        store = await open_store(disk / "holdfast.db")
        assert await message_ids(store) == [*(f"msg_{n}" for n in range(done)), "msg_more"]
        await store.close()


@pytest.mark.promise("R14", "C7")
async def test_on_a_full_disk_cancels_and_ends_use_the_reserved_space_and_prompts_do_not(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "8m") as disk:
        if disk is None:
            pytest.skip("mounting is not permitted here")
        store = await ready(await open_store(disk / "holdfast.db"))
        try:
            filler = disk / "filler"
            await asyncio.to_thread(_fill_disk, filler)
            await _fill(store)
            for number in range(100):
                await store.commit(replace(says(f"msg_end_{number}", "x" * 5000), uses_reserve=True))
            assert not (disk / "holdfast.db.reserve").exists()
            with pytest.raises(StoreUnwritable, match="cancels and ends"):
                await store.commit(says("msg_prompt", "x"))
            filler.unlink()
            await store.commit(says("msg_prompt", "x"))
            assert (disk / "holdfast.db.reserve").stat().st_blocks * 512 >= space_reserve.RESERVED_BYTES
        finally:
            await store.close()


@pytest.mark.promise("W6")
async def test_a_store_opens_on_a_full_disk_with_the_space_that_was_reserved(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "8m") as disk:
        if disk is None:
            pytest.skip("mounting is not permitted here")
        await (await ready(await open_store(disk / "holdfast.db"))).close()
        await asyncio.to_thread(_fill_disk, disk / "filler")
        store = await open_store(disk / "holdfast.db")
        try:
            assert await kinds(store) == ["session.created"]
            with pytest.raises(StoreUnwritable, match="cancels and ends"):
                await store.commit(says("msg_prompt", "x"))
            await store.commit(replace(says("msg_end", "x"), uses_reserve=True))
            (disk / "filler").unlink()
            await store.commit(says("msg_prompt", "x"))
        finally:
            await store.close()
        await asyncio.to_thread(_fill_disk, disk / "filler")
        (disk / "holdfast.db.reserve").unlink()
        await asyncio.to_thread(_fill_disk, disk / "more")
        with pytest.raises(StoreUnwritable, match="space on its disk"):
            await open_store(disk / "holdfast.db")


def _fill_disk(path: Path) -> None:
    with path.open("wb", buffering=0) as file, suppress(OSError):
        for size in (65536, 4096):
            with suppress(OSError):
                while True:
                    file.write(b"x" * size)


@pytest.mark.promise("R14")
@pytest.mark.parametrize("error", [errno.EOPNOTSUPP, errno.ENOSPC])
async def test_only_a_full_disk_makes_commits_wait_for_the_reserve(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: int
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(error, os.strerror(error))

    monkeypatch.setattr(os, "posix_fallocate", refuse)
    store = await open_store(tmp_path / "db")
    try:
        if error == errno.ENOSPC:
            with pytest.raises(StoreUnwritable, match="full"):
                await store.commit(new_workspace())
            monkeypatch.undo()
        await ready(store)
    finally:
        await store.close()


class ForeignLock:
    """Another process that holds the write lock."""

    def __init__(self, path: Path) -> None:
        program = (
            "import sqlite3, sys; sql = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
            "sql.execute('BEGIN IMMEDIATE'); print('locked', flush=True); sys.stdin.read()"
        )
        self._process = subprocess.Popen(
            [sys.executable, "-c", program, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert self._process.stdout is not None
        self._process.stdout.readline()

    def release(self) -> None:
        self._process.communicate()


@pytest.mark.promise("R14")
async def test_commits_wait_once_for_a_foreign_lock_and_reads_continue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database_threads, "FOREIGN_LOCK_SECONDS", 0.5)
    store = await ready(await open_store(tmp_path / "db"))
    try:
        lock = await asyncio.to_thread(ForeignLock, tmp_path / "db")
        busy: list[float] = []
        begin = store._writer._begin

        def counted() -> None:
            try:
                begin()
            except Exception:
                busy.append(store._writer._busy_since)
                raise

        monkeypatch.setattr(store._writer, "_begin", counted)
        for number in range(4):  # one after the other, so each is a group of its own
            with pytest.raises(StoreLocked, match="another process") as caught:
                await store.commit(says(f"msg_{number}", "x"))
            assert (caught.value.status, caught.value.error_code) == (503, "store_locked")
            assert (await store.session("ses_1")).id == "ses_1"
        assert len(busy) == 4
        assert len(set(busy)) == 1, "each group waits for the lock anew"
        await asyncio.to_thread(lock.release)
        assert (await store.commit(says("msg_after", "x"))).numbers
    finally:
        await store.close()


async def test_a_database_that_is_locked_at_the_start_is_called_locked_and_not_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database_file, "_BUSY_SECONDS", 0.1)
    store = await open_store(tmp_path / "db")
    await store.close()
    lock = await asyncio.to_thread(ForeignLock, tmp_path / "db")
    try:
        with pytest.raises(StoreUnwritable, match="end that process") as caught:
            await open_store(tmp_path / "db")
        assert caught.value.error_code == "store_locked"
        assert "space" not in caught.value.message
    finally:
        await asyncio.to_thread(lock.release)


READ_WITHOUT_DESCRIPTORS = """
import asyncio, os, resource, sys
from pathlib import Path
from holdfast.errors import StoreUnwritable
from holdfast.files import is_out_of_descriptors
from holdfast.store.sqlite import open_store

async def main():
    store = await open_store(Path(sys.argv[1]))
    lowest_free = os.dup(0)
    os.close(lowest_free)
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free, limit[1]))
    try:
        await store.workspaces()
    except StoreUnwritable as error:
        print(is_out_of_descriptors(error))
    resource.setrlimit(resource.RLIMIT_NOFILE, limit)
    print(await store.workspaces())
    await store.close()

asyncio.run(main())
"""


def test_a_read_that_lacks_descriptors_says_so_and_the_next_one_works(tmp_path: Path) -> None:
    command = [sys.executable, "-c", READ_WITHOUT_DESCRIPTORS, str(tmp_path / "db")]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=50)
    assert done.stdout.split() == ["True", "()"]


async def test_a_commit_that_waits_for_a_short_foreign_lock_succeeds(tmp_path: Path) -> None:
    store = await ready(await open_store(tmp_path / "db"))
    try:
        lock = await asyncio.to_thread(ForeignLock, tmp_path / "db")
        commit = asyncio.ensure_future(store.commit(says("msg_1", "x")))
        await asyncio.to_thread(lock.release)
        assert (await commit).numbers
    finally:
        await store.close()


async def test_an_idle_writer_checkpoints_the_write_ahead_log(
    open_sqlite: OpenSqlite, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(database_threads, "MAINTENANCE_COMMITS", 10)
    faults = Faults()
    store = await ready(await open_sqlite(connect=faults.connect))
    folding = threading.Event()
    for n in range(30):
        await store.commit(says(f"msg_{n}", random.Random(n).randbytes(40_000).hex()))  # it cannot be compressed
    faults.on = lambda sql: folding.set() if sql.startswith("PRAGMA wal_checkpoint(PASSIVE)") else None
    for n in range(10):
        await store.commit(says(f"msg_small_{n}", "x"))
    assert await asyncio.to_thread(folding.wait, 30)
    await store.commit(says("msg_last", "x"))
    assert (tmp_path / "holdfast.db").stat().st_size > 1_000_000


async def test_a_failed_checkpoint_fails_no_commit(
    open_sqlite: OpenSqlite, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(database_threads, "MAINTENANCE_COMMITS", 1)
    faults = Faults()
    store = await ready(await open_sqlite(connect=faults.connect))
    tried = threading.Event()

    def fail(sql: str) -> Exception | None:
        if not sql.startswith("PRAGMA wal_checkpoint(PASSIVE)"):
            return None
        tried.set()
        return disk_error()

    faults.on = fail
    await store.commit(says("msg_1", "x"))
    assert await asyncio.to_thread(tried.wait, 30)
    await store.commit(says("msg_2", "x"))
    assert "database maintenance failed" in caplog.text
    assert await message_ids(store) == ["msg_1", "msg_2"]


async def test_close_commits_waiting_batches_and_refuses_later_ones(tmp_path: Path) -> None:
    store = await ready(await open_store(tmp_path / "db"))
    waiting = [asyncio.ensure_future(store.commit(says(f"msg_{n}", "x"))) for n in range(20)]
    await asyncio.sleep(0)
    await asyncio.gather(store.close(), store.close())
    assert all([(await commit).numbers for commit in waiting])
    with pytest.raises(StoreUnwritable, match="closed"):
        await store.commit(says("msg_x", "x"))
    with pytest.raises(StoreUnwritable, match="closed"):
        await store.session("ses_1")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["db", "db.lock", "db.reserve"]


async def test_a_failing_listener_affects_neither_the_commit_nor_other_listeners(open_sqlite: OpenSqlite) -> None:
    store = await ready(await open_sqlite())
    reported: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context["exception"]))
    heard: list[int] = []

    def broken(_: object) -> None:
        raise ValueError("mine")

    store.listen(broken)
    store.listen(lambda events: heard.extend(event.number for event in events))
    await store.commit(says("msg_1", "x"))
    assert heard == [2]
    assert [str(error) for error in reported] == ["mine"]


_CHILD = """
import asyncio, sys
from pathlib import Path
from holdfast.store import open_store
from tests.store.batches import a_run, accept, new_session, new_workspace

async def main():
    store = await open_store(Path(sys.argv[1]))
    await store.commit(new_workspace())
    await store.commit(new_session())
    async def accepting(k):
        for n in range(100):
            run = a_run(f"run_{k}_{n}", seq=k * 1000 + n)
            await store.commit(accept(run))
            print(run.id, flush=True)
    await asyncio.gather(*(accepting(k) for k in range(1, 5)))

asyncio.run(main())
"""


@pytest.mark.promise("R1", "E1")
@pytest.mark.parametrize("heard", [1, 7, 60])
async def test_commits_that_returned_survive_a_kill(tmp_path: Path, heard: int) -> None:
    path = tmp_path / "holdfast.db"
    command = [sys.executable, "-c", _CHILD, str(path)]
    root = Path(__file__).parents[3]
    child = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE, cwd=root)
    assert child.stdout is not None
    answered = [(await child.stdout.readline()).decode().strip() for _ in range(heard)]
    child.kill()
    answered += (await child.stdout.read()).decode().split("\n")[:-1]
    await child.wait()
    store = await open_store(path)
    try:
        stored = {run.id for run in await store.unfinished_runs()}
        assert stored.issuperset(answered)
        page = await store.events_after(0, upto=store.last_number, limit=1000)
        assert [event.number for event in page.events] == list(range(1, len(stored) + 2))
    finally:
        await store.close()


async def test_a_conflict_has_the_found_state_as_detail(open_sqlite: OpenSqlite) -> None:
    store = await ready(await open_sqlite())
    await store.commit(accept(a_run(state="active")))
    await store.commit(end(a_run()))
    with pytest.raises(StoreConflict) as caught:
        await store.commit(end(a_run()))
    assert caught.value.detail == {"run_id": "run_1", "state": "completed"}


async def test_readers_cannot_write(open_sqlite: OpenSqlite) -> None:
    store = await ready(await open_sqlite())
    await store.commit(says("msg_1", "x"))

    def write(sql: sqlite3.Connection) -> None:
        sql.execute("DELETE FROM messages")

    with pytest.raises(StoreUnwritable, match="readonly"):
        await store._read(write)
    assert await message_ids(store) == ["msg_1"]


@pytest.mark.promise("R1", "R14")
async def test_commits_are_refused_while_the_database_file_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "holdfast.db"
    store = await open_store(path)
    try:
        await store.commit(new_workspace("wsp_1"))
        path.rename(tmp_path / "elsewhere")
        with pytest.raises(StoreUnwritable, match="removed or replaced"):
            await store.commit(new_workspace("wsp_2"))
        (tmp_path / "elsewhere").rename(path)
        await store.commit(new_workspace("wsp_3"))
        assert {workspace.id for workspace in await store.workspaces()} == {"wsp_1", "wsp_3"}
    finally:
        await store.close()
