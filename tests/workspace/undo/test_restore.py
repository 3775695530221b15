"""Undo and redo of real files restore only what the agent changed."""

import asyncio
import os
import stat
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.errors import StoreUnwritable, ToolError
from holdfast.store.writes import Batch, Committed
from holdfast.tools.apply_patch import ApplyPatchTool
from holdfast.tools.files import file_transaction
from holdfast.workspace.undo.undo_plan import NOT_COVERED
from tests.support.file_sessions import FileSession, FileWorkspace, MemoryRecords
from tests.support.stress import StressShare


@pytest.fixture
def workspace(tmp_path: Path) -> FileWorkspace:
    return FileWorkspace(tmp_path)


async def _patch(session: FileSession, *sections: str) -> None:
    await session.call(ApplyPatchTool(), patch="\n".join(["*** Begin Patch", *sections, "*** End Patch"]))


async def test_changed_created_and_deleted_files_are_undone_and_redone(workspace: FileWorkspace) -> None:
    workspace.put("changed", "one\r\n")
    workspace.put("deleted", "old\n").chmod(0o755)
    session = workspace.session()
    await session.view("changed")
    await session.view("deleted")
    before = workspace.tree()
    await _patch(
        session, "*** Update File: changed", "-one", "+two", "*** Delete File: deleted", "*** Add File: new", "+x"
    )
    after = workspace.tree()
    report = await session.undo()
    assert workspace.tree() == before
    assert stat.S_IMODE((workspace.directory / "deleted").stat().st_mode) == 0o755
    assert [restored.path for restored in report.restored] == [
        str(workspace.directory / name) for name in ("changed", "deleted", "new")
    ]
    assert (report.runs, report.skipped, report.note) == (("run_1",), (), NOT_COVERED)
    await session.redo()
    assert workspace.tree() == after
    await session.undo()
    assert workspace.tree() == before


async def test_a_restored_file_is_published_with_its_diff(workspace: FileWorkspace) -> None:
    session = workspace.session()
    await session.write("a", "x\n")
    workspace.records.events.clear()
    await session.undo()
    (event,) = workspace.records.events
    assert (event.change, event.run_id, event.path) == ("restored", "run_undo", str(workspace.directory / "a"))
    assert event.diff.endswith("+++ /dev/null\n@@ -1 +0,0 @@\n-x\n")


async def test_runs_are_undone_one_by_one_or_together(workspace: FileWorkspace) -> None:
    first, second = workspace.session(run_id="run_1"), workspace.session(run_id="run_2")
    workspace.put("a", "zero\n")
    await first.view("a")
    await first.write("a", "one\n")
    await second.write("a", "two\n")
    await second.write("b", "two\n")
    await first.undo()
    assert workspace.tree() == {"a": b"one\n"}
    await first.undo()
    assert workspace.tree() == {"a": b"zero\n"}
    assert (await first.undo()).runs == ()
    await first.redo()
    assert workspace.tree() == {"a": b"one\n"}
    await first.redo()
    assert workspace.tree() == {"a": b"two\n", "b": b"two\n"}
    await first.undo("run_1", "run_2")
    assert workspace.tree() == {"a": b"zero\n"}


async def test_a_file_changed_by_the_user_is_skipped_while_others_are_restored(
    workspace: FileWorkspace,
) -> None:
    session = workspace.session()
    for name in ("mine", "theirs", "gone"):
        await session.write(name, f"{name}\n")
    workspace.put("theirs", "theirs\nand more by the user\n")
    (workspace.directory / "gone").unlink()
    report = await session.undo()
    assert workspace.tree() == {"theirs": b"theirs\nand more by the user\n"}
    (skipped,) = report.skipped
    assert (skipped.path, skipped.why) == (str(workspace.directory / "theirs"), "changed")
    assert report.settled == (str(workspace.directory / "gone"),)


async def test_changes_of_another_session_are_not_undone(workspace: FileWorkspace) -> None:
    one, other = workspace.session("ses_1"), workspace.session("ses_2")
    await one.write("a", "one\n")
    await other.view("a")
    await other.write("a", "other\n")
    report = await one.undo()
    assert [file.why for file in report.skipped] == ["changed"]
    assert workspace.text("a") == "other\n"
    await other.undo()
    assert workspace.text("a") == "one\n"
    await one.undo()
    assert workspace.tree() == {}


async def test_a_save_by_the_user_during_the_restore_is_not_lost(
    workspace: FileWorkspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace.put("a", "zero\n")
    session = workspace.session()
    await session.view("a")
    await session.write("a", "one\n")
    real = file_transaction.exchange_files

    def exchange(one: Path, other: Path) -> None:
        monkeypatch.setattr(file_transaction, "exchange_files", real)
        workspace.put("a", "the user's\n")
        real(one, other)

    monkeypatch.setattr(file_transaction, "exchange_files", exchange)
    report = await session.undo()
    assert [file.why for file in report.skipped] == ["raced"]
    assert workspace.tree() == {"a": b"the user's\n"}
    assert (await session.undo()).skipped[0].why == "changed"


@pytest.mark.parametrize("what", ["directory", "symlink", "pipe"])
async def test_a_path_that_is_no_longer_a_regular_file_is_skipped(workspace: FileWorkspace, what: str) -> None:
    session = workspace.session()
    await session.write("a", "x\n")
    path = workspace.directory / "a"
    path.unlink()
    if what == "directory":
        path.mkdir()
    elif what == "symlink":
        path.symlink_to("elsewhere")
        workspace.put("elsewhere", "x\n")
    else:
        os.mkfifo(path)
    report = await session.undo()
    assert [file.path for file in report.skipped] == [str(path)]
    assert os.path.lexists(path)


async def test_a_path_that_now_resolves_to_another_one_is_skipped(workspace: FileWorkspace, tmp_path: Path) -> None:
    workspace.put("dir/a", "old\n")
    session = workspace.session()
    await session.view("dir/a")
    await _patch(session, "*** Delete File: dir/a")
    (workspace.directory / "dir").rmdir()
    (tmp_path / "outside").mkdir()
    (workspace.directory / "dir").symlink_to(tmp_path / "outside")
    report = await session.undo()
    assert [file.why for file in report.skipped] == ["moved"]
    assert list((tmp_path / "outside").iterdir()) == []


async def test_a_content_that_is_lost_or_damaged_is_not_restored(workspace: FileWorkspace) -> None:
    workspace.put("a", "zero\n")
    workspace.put("b", "zero b\n")
    session = workspace.session()
    for name in "ab":
        await session.view(name)
        await session.write(name, "new\n")
    for number, path in enumerate(sorted(path for path in workspace.snapshots.rglob("*") if path.is_file())):
        path.unlink() if number else path.write_bytes(b"damaged")
    report = await session.undo()
    assert [file.why for file in report.skipped] == ["not_kept", "not_kept"]
    assert workspace.tree() == {"a": b"new\n", "b": b"new\n"}


async def test_a_crash_between_the_write_of_an_undo_and_its_record_is_detected_by_the_next_undo(
    workspace: FileWorkspace,
) -> None:
    class Failing(MemoryRecords):
        broken = False

        async def commit(self, batch: Batch) -> Committed:
            if self.broken:
                raise StoreUnwritable("the disk is full")
            return await super().commit(batch)

    workspace.ledger = ledger = Failing()
    session = workspace.session()
    await session.write("a", "x\n")
    ledger.broken = True
    with pytest.raises(StoreUnwritable):
        await session.undo()
    assert workspace.tree() == {}
    ledger.broken = False
    report = await session.undo()
    assert (report.settled, report.skipped) == ((str(workspace.directory / "a"),), ())
    await session.redo()
    assert workspace.text("a") == "x\n"


async def test_a_crash_in_mid_write_can_be_undone(workspace: FileWorkspace, monkeypatch: pytest.MonkeyPatch) -> None:
    """The record is stored before the file changes, so the old content is not lost."""
    workspace.put("a", "old\n")
    session = workspace.session()
    await session.view("a")
    files = session.context().files
    await files.before_write(workspace.directory / "a", b"old\n", new=b"new\n")
    workspace.put("a", "new\n")  # written, and then the server died
    report = await session.undo()
    assert [restored.path for restored in report.restored] == [str(workspace.directory / "a")]
    assert workspace.text("a") == "old\n"


async def test_undo_needs_no_git_and_does_not_change_it(workspace: FileWorkspace) -> None:
    def git(*arguments: str) -> str:
        done = subprocess.run(
            ["git", "-C", str(workspace.directory), *arguments], check=True, capture_output=True, text=True
        )
        return done.stdout

    git("init", "-q")
    workspace.put("a", "committed\n")
    workspace.put("untouched", "u\n")
    git("add", ".")
    git("commit", "-qm", "first")
    workspace.put("a", "staged\n")
    git("add", "a")
    state = {name: data for name, data in workspace.tree().items() if name.startswith(".git/")}
    session = workspace.session()
    await session.view("a")
    await session.write("a", "by the agent\n")
    await session.undo()
    await session.redo()
    await session.undo()
    assert {name: data for name, data in workspace.tree().items() if name.startswith(".git/")} == state
    assert workspace.text("a") == "staged\n"
    assert not workspace.snapshots.is_relative_to(workspace.directory)


async def test_after_an_undo_the_agent_must_read_the_file_again(workspace: FileWorkspace) -> None:
    workspace.put("a", "zero\n")
    session = workspace.session()
    await session.view("a")
    await session.write("a", "one\n")
    await session.undo()
    with pytest.raises(ToolError, match="changed since you last read it"):
        await session.edit("a", "zero", "two")


_NAMES = st.sampled_from(["a", "b"])
_STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["user", "user deletes"]), _NAMES),
        st.tuples(st.sampled_from(["agent", "agent", "agent without reading", "other agent", "agent deletes"]), _NAMES),
        st.tuples(st.sampled_from(["undo", "undo all", "redo", "other undo", "other redo"]), st.just("")),
    ),
    max_size=12,
)


class History:
    """Plays steps on real files, and records what the user wrote last."""

    def __init__(self, workspace: FileWorkspace) -> None:
        self.workspace = workspace
        self.by_user: dict[str, bytes] = {}
        """Files whose present content the user wrote."""
        self._runs: dict[str, list[str]] = {"ses_1": [], "ses_2": []}

    async def play(self, steps: Sequence[tuple[str, str]]) -> None:
        for number, (action, name) in enumerate(steps):
            await self._step(action, name, f"{number} by {action}\n")
            for path, content in self.by_user.items():
                assert self.workspace.tree().get(path) == content, f"{action} lost what the user wrote into {path!r}"

    async def _step(self, action: str, name: str, content: str) -> None:
        match action:
            case "user":
                self.workspace.put(name, content)
                self.by_user[name] = content.encode()
            case "user deletes":
                (self.workspace.directory / name).unlink(missing_ok=True)
                self.by_user.pop(name, None)
            case "undo" | "redo" | "undo all" | "other undo" | "other redo":
                await self._undo_or_redo(action)
            case _:
                await self._agent(action, name, content)

    async def _undo_or_redo(self, action: str) -> None:
        session_id = "ses_2" if action.startswith("other") else "ses_1"
        runs = self._runs[session_id] if action == "undo all" else ()
        before = self.workspace.tree()
        session = self.workspace.session(session_id)
        report = await (session.redo(*runs) if "redo" in action else session.undo(*runs))
        reported = {Path(restored.path).name for restored in report.restored}
        after = self.workspace.tree()
        assert {name for name in before | after if before.get(name) != after.get(name)} == reported

    async def _agent(self, action: str, name: str, content: str) -> None:
        session_id = "ses_2" if action.startswith("other") else "ses_1"
        run_id = f"run_{session_id}_{len(self._runs[session_id])}"
        session = self.workspace.session(session_id, run_id=run_id)
        self._runs[session_id].append(run_id)
        try:
            if action != "agent without reading" and name in self.workspace.tree():
                await session.view(name)
            if action == "agent deletes":
                await _patch(session, f"*** Delete File: {name}")
            else:
                await session.write(name, content)
        except ToolError as error:
            assert error.error_code in ("not_read", "file_changed", "file_missing")  # noqa: PT017 - which refusals are fair
        else:
            self.by_user.pop(name, None)


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(steps=_STEPS)
async def test_undo_never_loses_an_edit_of_the_user(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, str]]
) -> None:
    """The user, two agents, undo and redo in any order: what the user wrote last stays."""
    await History(FileWorkspace(tmp_path_factory.mktemp("history"))).play(steps)


@pytest.mark.stress(weight=2)
def test_undo_never_loses_an_edit_of_the_user_in_many_histories(tmp_path: Path, share: StressShare) -> None:
    def play(steps: list[tuple[str, str]]) -> None:
        with tempfile.TemporaryDirectory(dir=tmp_path) as directory:
            asyncio.run(History(FileWorkspace(Path(directory))).play(steps))

    share.examples(_STEPS, play)


@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(steps=st.lists(st.sampled_from(["user", "agent", "undo", "redo"]), max_size=10))
async def test_undoing_everything_leaves_what_the_user_wrote_last(
    tmp_path_factory: pytest.TempPathFactory, steps: list[str]
) -> None:
    workspace = FileWorkspace(tmp_path_factory.mktemp("history"))
    workspace.put("a", "at first\n")
    last = b"at first\n"
    for number, action in enumerate(steps):
        session = workspace.session(run_id=f"run_{number}")
        if action == "user":
            last = workspace.put("a", f"{number} by the user\n").read_bytes()
        elif action == "agent":
            await session.view("a")
            await session.write("a", f"{number} by the agent\n")
        else:
            await (session.undo() if action == "undo" else session.redo())
    await workspace.session().undo(*{record.run_id for record in workspace.records.rows.values()})
    assert workspace.tree() == {"a": last}
