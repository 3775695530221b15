"""Two sessions and a person on the same file: nobody's bytes are lost, and each refusal says why."""

import asyncio
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec import UNSET, UnsetType

from holdfast.errors import StoreUnwritable, ToolError
from holdfast.tools.edit import EditTool
from holdfast.tools.files import file_changes, file_transaction
from holdfast.tools.files.file_transaction import FileWrite, write_files
from holdfast.tools.write import WriteTool
from holdfast.workspace.undo.file_snapshots import SessionFiles
from tests.support.file_sessions import FileSession, FileWorkspace


@pytest.fixture
def workspace(tmp_path: Path) -> FileWorkspace:
    return FileWorkspace(tmp_path)


class Gated:
    """A session's files that wait for the others where a write is announced."""

    def __init__(self, files: SessionFiles, barrier: asyncio.Barrier) -> None:
        self._files = files
        self._barrier = barrier
        self.last_read = files.last_read
        self.record_read = files.record_read
        self.after_write = files.after_write
        self.drop_write = files.drop_write

    async def before_write(self, path: Path, old: bytes | None, *, new: bytes | UnsetType | None = UNSET) -> None:
        await self._barrier.wait()
        await self._files.before_write(path, old, new=new)


def _gated(session: FileSession, barrier: asyncio.Barrier) -> FileSession:
    return session.workspace.session(
        session.session_id,
        run_id=session.run_id,
        files=Gated(session.context().files, barrier),  # type: ignore[arg-type]
    )


async def _outcome(work: Any) -> str:
    try:
        return str(await work)
    except ToolError as error:
        return error.error_code


async def test_a_session_does_not_overwrite_changes_of_another(workspace: FileWorkspace) -> None:
    workspace.put("a", "one\n")
    first, second = workspace.session("ses_1"), workspace.session("ses_2")
    await first.view("a")
    await second.view("a")
    await first.edit("a", "one", "first")
    with pytest.raises(ToolError, match="'a' has changed since you last read it; view it again") as refused:
        await second.write("a", "second\n")
    assert refused.value.error_code == "file_changed"
    assert workspace.text("a") == "first\n"
    await second.view("a")
    await second.edit("a", "first", "first, then second")
    assert workspace.text("a") == "first, then second\n"


async def test_a_session_does_not_overwrite_changes_of_the_user(workspace: FileWorkspace) -> None:
    workspace.put("a", "one\n")
    session = workspace.session()
    await session.view("a")
    workspace.put("a", "one\nby the user\n")
    with pytest.raises(ToolError, match="changed since you last read it"):
        await session.edit("a", "one", "1")
    assert workspace.text("a") == "one\nby the user\n"


async def test_contents_are_compared_and_not_times(workspace: FileWorkspace) -> None:
    workspace.put("a", "one\n")
    session = workspace.session()
    await session.view("a")
    workspace.put("a", "other\n")
    workspace.put("a", "one\n")
    await session.edit("a", "one", "two")
    assert workspace.text("a") == "two\n"


async def test_a_change_after_the_plan_raises_an_error(workspace: FileWorkspace) -> None:
    """A person is asked, edits the file while the question stands, and then says yes."""
    workspace.put("a", "one\ntwo\n")
    session = workspace.session()
    await session.view("a")

    def person() -> None:
        workspace.put("a", "one\ntwo\nthree\n")

    with pytest.raises(ToolError, match="changed since"):
        await session.call(EditTool(), between=person, path="a", old_text="one", new_text="1")
    assert workspace.text("a") == "one\ntwo\nthree\n"


async def test_only_the_approved_change_is_written_even_if_the_session_read_again(workspace: FileWorkspace) -> None:
    """The new content is known to the session, but it is not what the person approved."""
    workspace.put("a", "one\n")
    session = workspace.session()
    await session.view("a")
    arguments = EditTool.arguments(path="a", old_text="one", new_text="1")
    plan = await EditTool().plan(arguments, session.context())
    workspace.put("a", "one\nmore\n")
    await session.view("a")
    with pytest.raises(ToolError, match=r"changed after this call was planned; view it again\nNothing was changed\."):
        await EditTool().run(arguments, session.context(), plan)
    assert workspace.text("a") == "one\nmore\n"


async def test_a_path_that_leads_to_another_file_after_the_plan_raises_an_error(workspace: FileWorkspace) -> None:
    workspace.put("dir/a", "one\n")
    workspace.put("other/a", "one\n")
    (workspace.directory / "link").symlink_to("dir")
    session = workspace.session()
    await session.view("dir/a")
    await session.view("other/a")

    def turn() -> None:
        (workspace.directory / "link").unlink()
        (workspace.directory / "link").symlink_to("other")

    with pytest.raises(ToolError, match="Nothing was changed"):
        await session.call(EditTool(), between=turn, path="link/a", old_text="one", new_text="1")
    assert workspace.tree() == {"dir/a": b"one\n", "other/a": b"one\n"}


async def test_one_of_two_simultaneous_writes_fails(workspace: FileWorkspace) -> None:
    """Both have passed every check when the barrier opens; the exchange decides."""
    workspace.put("a", "one\n")
    barrier = asyncio.Barrier(2)
    sessions = [_gated(workspace.session(f"ses_{name}"), barrier) for name in "xy"]
    for session in sessions:
        await session.view("a")
    outcomes = await asyncio.gather(*(_outcome(session.edit("a", "one", session.session_id)) for session in sessions))
    assert sorted(outcomes)[1] == "file_changed"
    (winner,) = [session for session, outcome in zip(sessions, outcomes, strict=True) if outcome != "file_changed"]
    assert workspace.text("a") == f"{winner.session_id}\n"
    assert list(workspace.tree()) == ["a"]
    assert [event.session_id for event in workspace.records.events] == [winner.session_id]


async def test_one_of_two_simultaneous_creations_fails(workspace: FileWorkspace) -> None:
    barrier = asyncio.Barrier(2)
    sessions = [_gated(workspace.session(f"ses_{name}"), barrier) for name in "xy"]
    outcomes = await asyncio.gather(*(_outcome(session.write("new", session.session_id)) for session in sessions))
    assert sorted(outcomes) == ["file_changed", "new: created (+1 −0 lines)"]
    assert workspace.text("new") == sessions[outcomes.index("new: created (+1 −0 lines)")].session_id


@pytest.mark.parametrize("moment", ["before the look", "between look and exchange", "after"])
async def test_a_save_by_the_user_during_a_write_is_not_lost(
    workspace: FileWorkspace, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    workspace.put("a", "one\n")
    session = workspace.session()
    await session.view("a")

    def person() -> None:
        workspace.put("a", "the user's\n")

    def with_person(changes: Sequence[FileWrite]) -> tuple[str, ...]:
        if moment == "between look and exchange":
            _before_first_exchange(monkeypatch, person)
        return write_files(changes)

    monkeypatch.setattr(file_changes, "write_files", with_person)
    between = person if moment == "before the look" else lambda: None
    outcome = await _outcome(session.call(EditTool(), between=between, path="a", old_text="one", new_text="1"))
    if moment == "after":
        person()
    assert workspace.text("a") == "the user's\n"
    assert (outcome == "file_changed") == (moment != "after")


def _before_first_exchange(monkeypatch: pytest.MonkeyPatch, act: Callable[[], None]) -> None:
    real = file_transaction.exchange_files

    def exchange(one: Path, other: Path) -> None:
        monkeypatch.setattr(file_transaction, "exchange_files", real)
        act()
        real(one, other)

    monkeypatch.setattr(file_transaction, "exchange_files", exchange)


async def test_a_failed_write_leaves_nothing_to_undo(workspace: FileWorkspace) -> None:
    workspace.put("a", "one\n")
    barrier = asyncio.Barrier(2)
    sessions = [_gated(workspace.session(f"ses_{name}"), barrier) for name in "xy"]
    for session in sessions:
        await session.view("a")
    outcomes = await asyncio.gather(*(_outcome(session.write("a", "the same\n")) for session in sessions))
    loser = sessions[outcomes.index("file_changed")]
    report = await workspace.restorer().undo(loser.session_id, run_id="run_undo", runs=[loser.run_id])
    assert report.restored == ()
    assert workspace.text("a") == "the same\n", "the other session wrote the very content that this one wanted to write"


async def test_a_write_whose_old_content_cannot_be_kept_does_not_happen(
    workspace: FileWorkspace, tmp_path: Path
) -> None:
    workspace.put("a", "one\n")
    session = workspace.session()
    await session.view("a")
    workspace.snapshots.parent.mkdir(parents=True)
    workspace.snapshots.write_text("a file where the directory should be")
    with pytest.raises(StoreUnwritable, match="cannot store the old content"):
        await session.edit("a", "one", "two")
    assert workspace.text("a") == "one\n"


@pytest.mark.promise("C7")
async def test_a_cancel_in_mid_write_waits_for_the_end_of_it(
    workspace: FileWorkspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Never half a write, never a write that the ledger does not know."""
    workspace.put("a", "one\n")
    session = workspace.session()
    await session.view("a")
    begun, go_on = threading.Event(), threading.Event()

    def slowly(changes: Sequence[FileWrite]) -> tuple[str, ...]:
        begun.set()
        go_on.wait()
        return write_files(changes)

    monkeypatch.setattr(file_changes, "write_files", slowly)
    task = asyncio.create_task(session.edit("a", "one", "two"))
    await asyncio.to_thread(begun.wait)
    task.cancel()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert workspace.text("a") == "two\n"
    assert [event.change for event in workspace.records.events] == ["modified"]
    assert (await session.undo()).restored[0].path == str(workspace.directory / "a")
    assert workspace.text("a") == "one\n"


async def test_a_failed_write_under_a_cancel_is_still_a_cancel(
    workspace: FileWorkspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def failing(changes: Sequence[FileWrite]) -> tuple[str, ...]:
        begun.set()
        go_on.wait()
        raise ToolError("the disk is full")

    monkeypatch.setattr(file_changes, "write_files", failing)
    task = asyncio.create_task(workspace.session().write("a", "x"))
    await asyncio.to_thread(begun.wait)
    task.cancel()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert workspace.tree() == {}


async def test_files_outside_the_workspace_are_shown_by_absolute_path(workspace: FileWorkspace, tmp_path: Path) -> None:
    plan = await workspace.session().plan(WriteTool(), path="../outside.txt", content="x")
    outside = str(tmp_path.resolve() / "outside.txt")
    assert (plan.subject.paths, plan.subject.title) == ((outside,), outside)
    assert not Path(outside).exists()


async def test_secrets_are_in_no_diff_that_leaves(workspace: FileWorkspace) -> None:
    workspace.put("env", "KEY=hunter2\n")
    session = workspace.session(redact=lambda text: text.replace("hunter2", "[secret]"))
    await session.view("env")
    plan = await session.plan(EditTool(), path="env", old_text="KEY", new_text="TOKEN")
    output = await session.call(EditTool(), path="env", old_text="KEY", new_text="TOKEN")
    assert workspace.text("env") == "TOKEN=hunter2\n"
    assert "hunter2" not in f"{plan} {output} {workspace.records.events}"
