"""Reads and writes of a session are recorded, so that undo works after a restart."""

from pathlib import Path

import pytest

from holdfast.schema.base import encode
from holdfast.store import Batch, open_store
from holdfast.tools.files.file_access import ABSENT, content_hash
from holdfast.workspace.undo.file_snapshots import SessionFiles
from tests.store.batches import new_session, new_workspace
from tests.support.file_sessions import AT, FileWorkspace


@pytest.fixture
def workspace(tmp_path: Path) -> FileWorkspace:
    return FileWorkspace(tmp_path)


def _files(workspace: FileWorkspace) -> SessionFiles:
    files = workspace.session().context().files
    assert isinstance(files, SessionFiles)
    return files


async def test_reads_undo_and_redo_survive_a_restart(tmp_path: Path) -> None:
    """Each step opens the database again."""
    database = tmp_path / "ledger" / "holdfast.db"
    workspace = FileWorkspace(tmp_path)
    workspace.put("a", "zero\n")

    async def with_ledger(step: str) -> None:
        store = await open_store(database)
        try:
            workspace.ledger = store
            session = workspace.session()
            match step:
                case "begin":
                    await store.commit(new_workspace())
                    await store.commit(new_session())
                case "view":
                    await session.view("a")
                case "edit":
                    await session.edit("a", "zero", "one")
                case "edit again":
                    await session.edit("a", "one", "two")
                case "undo":
                    await session.undo()
                case "redo":
                    await session.redo()
        finally:
            await store.close()

    contents = []
    for step in ("begin", "view", "edit", "edit again", "undo", "redo", "undo"):
        await with_ledger(step)
        contents.append(workspace.text("a"))
    assert contents == ["zero\n", "zero\n", "one\n", "two\n", "zero\n", "two\n", "zero\n"]


async def test_the_old_content_and_the_record_are_stored_before_the_write(workspace: FileWorkspace) -> None:
    path = workspace.put("a", "old\n")
    path.chmod(0o640)
    files = _files(workspace)
    await files.before_write(path, b"old\n", new=b"new\n")
    (record,) = await workspace.records.snapshots("ses_1")
    assert (record.before, record.after) == (content_hash(b"old\n"), content_hash(b"new\n"))
    assert (record.mode, record.run_id, record.state) == (0o640, "run_1", "applied")
    (kept,) = [file for file in workspace.snapshots.rglob("*") if file.is_file()]
    assert (kept.name, kept.read_bytes()) == (content_hash(b"old\n"), b"old\n")
    assert workspace.records.events == []


@pytest.mark.parametrize(
    ("old", "new", "change"),
    [(None, b"new", "created"), (b"old", b"new", "modified"), (b"old", None, "deleted")],
)
async def test_after_the_write_an_event_is_published_and_the_content_counts_as_read(
    workspace: FileWorkspace, old: bytes | None, new: bytes | None, change: str
) -> None:
    files = _files(workspace)
    path = workspace.directory / "a"
    await files.before_write(path, old, new=new)
    await files.after_write(path, new, diff="the diff")
    assert await files.last_read(path) == (ABSENT if new is None else content_hash(new))
    (event,) = workspace.records.events
    assert (event.at, event.session_id, event.run_id, event.path) == (AT, "ses_1", "run_1", str(path))
    assert (event.change, event.diff) == (change, "the diff")
    assert encode(event)


async def test_a_write_whose_content_is_not_known_before_is_recorded_after(workspace: FileWorkspace) -> None:
    """A download, for example."""
    files = _files(workspace)
    path = workspace.directory / "a"
    await files.before_write(path, None)
    assert await workspace.records.snapshots("ses_1") == ()
    path.write_bytes(b"from the net")
    await files.after_write(path, b"from the net", diff="")
    (record,) = await workspace.records.snapshots("ses_1")
    assert (record.before, record.after) == (None, content_hash(b"from the net"))
    await workspace.session().undo()
    assert not path.exists()


async def test_a_write_of_other_content_than_announced_can_be_undone(workspace: FileWorkspace) -> None:
    path = workspace.put("a", "old")
    files = _files(workspace)
    await files.before_write(path, b"old", new=b"announced")
    path.write_bytes(b"written")
    await files.after_write(path, b"written", diff="")
    await workspace.session().undo()
    assert path.read_bytes() == b"old"


async def test_a_dropped_write_leaves_nothing_to_undo(workspace: FileWorkspace) -> None:
    path = workspace.put("a", "old")
    files = _files(workspace)
    await files.before_write(path, b"old", new=b"new")
    await files.drop_write(path)
    await files.drop_write(path)
    report = await workspace.session().undo()
    assert report.runs == ()
    assert path.read_bytes() == b"old"


async def test_a_read_counts_only_for_its_session(workspace: FileWorkspace) -> None:
    path = workspace.put("a", "x")
    await _files(workspace).record_read(path, "some hash")
    assert await _files(workspace).last_read(path) == "some hash"
    assert await workspace.session("ses_2").context().files.last_read(path) is None


async def test_the_read_record_and_the_event_of_a_write_are_one_commit(workspace: FileWorkspace) -> None:
    batches: list[Batch] = []

    class Listening(type(workspace.records)):  # type: ignore[misc]
        async def commit(self, batch: Batch) -> object:
            batches.append(batch)
            return await super().commit(batch)

    workspace.ledger = Listening()
    await workspace.session().write("a", "x\n")
    assert [(len(batch.writes), len(batch.events)) for batch in batches] == [(1, 0), (1, 1)]
