"""The file that text of open messages is appended to: emptied, rewritten, damaged, on a full disk."""

import errno
import os
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from holdfast.schema.messages import Finish, Text
from holdfast.store import Batch, SqliteStore
from holdfast.store import writes as w
from holdfast.store.open_drafts import DraftPiece
from holdfast.store.sqlite import draft_log
from holdfast.store.sqlite.draft_log import DraftLog, log_path, read_pieces
from tests.store.batches import a_message, a_run, accept, new_session, new_workspace

OpenSqlite = Callable[..., Awaitable[SqliteStore]]


def piece(text: str, offset: int = 0, *, message_id: str = "msg_1") -> DraftPiece:
    return DraftPiece("ses_1", message_id, 1, 0, offset, text)


def wait_for(path: Path, pieces: list[DraftPiece]) -> None:
    """Wait until the file has exactly these records."""
    until = time.monotonic() + 30
    while list(read_pieces(path)) != pieces:
        assert time.monotonic() < until, read_pieces(path)
        time.sleep(0.005)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "holdfast.db.drafts"


@pytest.mark.promise("E3")
def test_text_is_written_without_waiting_for_more_text(path: Path) -> None:
    log = DraftLog(path)
    log.append(piece("40 tokens, then the model hangs"))
    wait_for(path, [piece("40 tokens, then the model hangs")])
    log.close()


@pytest.mark.promise("E3")
def test_text_is_flushed_to_the_disk_without_more_text(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flushed: list[int] = []
    flush = os.fdatasync

    def noted(descriptor: int) -> None:
        flushed.append(os.fstat(descriptor).st_size)
        flush(descriptor)

    monkeypatch.setattr(os, "fdatasync", noted)
    log = DraftLog(path)
    log.append(piece("text"))
    until = time.monotonic() + 30
    while not flushed and time.monotonic() < until:
        time.sleep(0.01)
    assert flushed == [path.stat().st_size]
    log.close()


@pytest.mark.promise("E3")
def test_a_slow_disk_does_not_delay_what_is_appended(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flushing, go_on = threading.Event(), threading.Event()
    flush = os.fdatasync

    def slow(descriptor: int) -> None:
        flushing.set()
        go_on.wait()
        flush(descriptor)

    monkeypatch.setattr(os, "fdatasync", slow)
    log = DraftLog(path)
    log.append(piece("before "))
    assert flushing.wait(30)
    log.append(piece("during", 7))
    wait_for(path, [piece("before "), piece("during", 7)])
    go_on.set()
    log.close()


def test_a_log_without_drafts_creates_no_file(path: Path) -> None:
    log = DraftLog(path)
    log.append(piece("short answer"))
    log.clear()
    log.close()
    assert not path.exists()


def test_clearing_empties_the_file_and_later_text_is_kept(path: Path) -> None:
    log = DraftLog(path)
    log.append(piece("one"))
    wait_for(path, [piece("one")])
    log.clear()
    log.append(piece("two", message_id="msg_2"))
    log.close()
    assert read_pieces(path) == (piece("two", message_id="msg_2"),)


def test_pieces_of_many_messages_are_joined_by_message(path: Path) -> None:
    log = DraftLog(path)
    for number in range(100):
        for message_id in ("msg_1", "msg_2"):
            log.append(piece("x", number, message_id=message_id))
    log.close()
    pieces = read_pieces(path)
    assert len(pieces) < 100
    for message_id in ("msg_1", "msg_2"):
        assert "".join(one.text for one in pieces if one.message_id == message_id) == "x" * 100


def test_damaged_and_torn_records_are_left_out(path: Path) -> None:
    log = DraftLog(path)
    log.append(piece("good"))
    log.close()
    with path.open("ab") as file:
        file.write(b'\xff\x00 nonsense\n[1,2]\n\n["ses_1","msg_1",1,0,4,"torn')
    assert read_pieces(path) == (piece("good"),)


def test_a_log_that_is_a_link_or_a_directory_is_not_read(path: Path, tmp_path: Path) -> None:
    (tmp_path / "other").write_bytes(b'["ses_1","msg_1",1,0,0,"foreign"]\n')
    path.symlink_to(tmp_path / "other")
    assert read_pieces(path) == ()
    path.unlink()
    path.mkdir()
    assert read_pieces(path) == ()


def test_on_a_full_disk_text_is_written_when_there_is_space_again(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draft_log, "_RETRY_SECONDS", 0.01)
    write, full = os.write, True
    refused: list[int] = []

    def limited(descriptor: int, data: bytes) -> int:
        if not full:
            return write(descriptor, data)
        if refused and len(refused) % 2:
            refused.append(len(data))
            raise OSError(errno.ENOSPC, "No space left on device")
        refused.append(len(data))
        return write(descriptor, bytes(data)[:5])  # a torn record

    monkeypatch.setattr(os, "write", limited)
    log = DraftLog(path)
    log.append(piece("before "))
    until = time.monotonic() + 30
    while len(refused) < 2 and time.monotonic() < until:
        time.sleep(0.005)
    full = False
    log.append(piece("after", 7))
    log.close()
    assert "".join(one.text for one in read_pieces(path)) == "before after"


async def test_the_file_does_not_grow_with_messages_that_are_finished(
    tmp_path: Path, open_sqlite: OpenSqlite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(draft_log, "_COMPACT_BYTES", 10_000)
    store = await open_sqlite()
    await store.commit(new_workspace())
    await store.commit(new_session())
    await store.commit(accept(a_run(state="active")))
    for number in range(30):  # there is always an open message
        message = a_message(f"msg_{number}")
        await store.commit(Batch((w.PutMessage(message),)))
        store.append_draft("ses_1", message.id, 0, "x" * 1000)
        if number:
            before = a_message(f"msg_{number - 1}", Text("x" * 1000), Finish("end_turn"))
            await store.commit(Batch((w.PutMessage(before),)))
    await store.close()
    path = log_path(tmp_path / "holdfast.db")
    assert path.stat().st_size < 15_000
    store = await open_sqlite()
    assert (await store.message("msg_29")).parts == (Text("x" * 1000),)
    assert (await store.message("msg_28")).parts == (Text("x" * 1000), Finish("end_turn"))
    await store.commit(Batch((w.PutMessage(replace(a_message("msg_29"), parts=(Finish("interrupted"),))),)))
    await store.close()
    assert path.stat().st_size == 0


def test_a_long_open_message_is_rewritten_only_when_it_has_doubled(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rewriting it with every delta would cost the square of its length, in time and in memory."""
    monkeypatch.setattr(draft_log, "_COMPACT_BYTES", 100)
    log, text, rewritten = DraftLog(path), "", []
    for offset in range(0, 10_000, 10):
        log.append(piece("x" * 10, offset))
        text += "x" * 10
        if log.is_long:
            rewritten.append(len(text))
            log.replace([piece(text)])
    log.close()
    assert rewritten == [110, 230, 470, 950, 1910, 3830, 7670]
    assert "".join(one.text for one in read_pieces(path)) == text


async def open_while_collecting(open_sqlite: OpenSqlite, monkeypatch: pytest.MonkeyPatch) -> SqliteStore:
    """A store that was given text of an open message, and has not logged it yet."""
    monkeypatch.setattr(draft_log, "COLLECT_SECONDS", 3600)
    store = await open_sqlite()
    for batch in (new_workspace(), new_session(), accept(a_run(state="active"))):
        await store.commit(batch)
    await store.commit(Batch((w.PutMessage(a_message("msg_1")),)))
    store.append_draft("ses_1", "msg_1", 0, "streamed")
    return store


@pytest.mark.promise("E3")
async def test_collected_text_is_written_when_the_store_closes(
    tmp_path: Path, open_sqlite: OpenSqlite, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await open_while_collecting(open_sqlite, monkeypatch)
    await store.close()
    store = await open_sqlite()
    assert (await store.message("msg_1")).parts == (Text("streamed"),)
    await store.close()


async def test_text_that_is_stored_while_it_is_collected_is_not_logged(
    tmp_path: Path, open_sqlite: OpenSqlite, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await open_while_collecting(open_sqlite, monkeypatch)
    await store.commit(Batch((w.PutMessage(a_message("msg_1", Text("streamed"), Finish("end_turn"))),)))
    await store.close()
    assert not log_path(tmp_path / "holdfast.db").exists()
