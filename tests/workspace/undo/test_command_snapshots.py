"""What commands change is recorded, undone after a confirmation, and redone."""

import asyncio
import os
import sqlite3
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.errors import StoreUnwritable
from holdfast.store.writes import Batch, Committed
from holdfast.tools.files.file_access import content_hash
from holdfast.workspace.undo.tree_scan import TreeLimits
from tests.support.command_workspace import CommandWorkspace
from tests.support.file_sessions import MemoryRecords


@pytest.fixture
def workspace(tmp_path: Path) -> CommandWorkspace:
    return CommandWorkspace(tmp_path)


@pytest.mark.parametrize(
    ("command", "changed"),
    [
        ("sed -i s/one/two/ src/a", ["src/a"]),
        ("rm src/a", ["src/a"]),
        ("rm -r src", ["src/a", "src/deep/b"]),
        ("mv src/a moved", ["moved", "src/a"]),
        ("mv src renamed", ["renamed/a", "renamed/deep/b", "src/a", "src/deep/b"]),
        ("chmod 755 src/a", ["src/a"]),
        ("chmod 444 src/a && echo x >x", ["src/a", "x"]),
        ("echo new >new", ["new"]),
        ("mkdir -p p/q/r && echo 1 >p/q/r/x && echo 2 >p/y", ["p/q/r/x", "p/y"]),
        ("printf '\\0\\377\\0' >binary && printf '\\0' >src/a", ["binary", "src/a"]),
        ("ln -s src/a link", ["link"]),
        ("ln -sfn elsewhere old-link", ["old-link"]),
        ("rm old-link", ["old-link"]),
        ("rm src/a && ln -s deep/b src/a", ["src/a"]),
        ("rm old-link && echo now a file >old-link", ["old-link"]),
        ("rm src/a && mkdir src/a && echo x >src/a/x", ["src/a", "src/a/x"]),
        ("rm -r src/deep && echo x >src/deep", ["src/deep", "src/deep/b"]),
        ("cp -p src/a copy; : >src/a", ["copy", "src/a"]),
        ("mv src/a t && mv src/deep/b src/a && mv t src/deep/b", ["src/a", "src/deep/b"]),
        ("echo 'ünï cödé' >'with spaces ü'", ["with spaces ü"]),
        ("touch src/a", []),
        ("echo x >src/a; echo one >src/a", []),
        ("mkdir empty", []),
        ("true", []),
    ],
)
async def test_what_a_command_changes_is_undone_and_redone(
    workspace: CommandWorkspace, command: str, changed: list[str]
) -> None:
    workspace.put("src/a", "one\n")
    workspace.put("src/deep/b", "b\n").chmod(0o755)
    (workspace.directory / "old-link").symlink_to("src/a")
    before = workspace.state()
    assert list(await workspace.command(command)) == changed
    after = workspace.state()
    report = await workspace.undo()
    assert (report.skipped, len(report.restored)) == ((), len(changed))
    assert {name: state for name, state in workspace.state().items() if name != "empty"} == before
    await workspace.redo()
    assert workspace.state() == after
    await workspace.undo()
    assert {name: state for name, state in workspace.state().items() if name != "empty"} == before


async def test_without_a_confirmation_only_what_the_tools_wrote_is_undone(workspace: CommandWorkspace) -> None:
    workspace.put("tool", "old\n")
    workspace.put("command", "old\n")
    session = workspace.session()
    await session.view("tool")
    await session.write("tool", "new\n")
    await workspace.command("echo new >command")
    report = await workspace.undo(confirmed=False)
    assert workspace.tree() == {"tool": b"old\n", "command": b"new\n"}
    (skipped,) = report.skipped
    assert (Path(skipped.path).name, skipped.why) == ("command", "unconfirmed")
    assert "may have been changed by you" in skipped.message
    await workspace.undo()
    assert workspace.tree() == {"tool": b"old\n", "command": b"old\n"}
    await workspace.redo()
    assert workspace.tree() == {"tool": b"new\n", "command": b"new\n"}


async def test_an_edit_followed_by_a_command_on_the_same_file_is_undone_as_one(workspace: CommandWorkspace) -> None:
    """The case of the issue: `edit`, then `sed -i`, in one run."""
    workspace.put("a", "one\n")
    session = workspace.session()
    await session.view("a")
    await session.edit("a", "one", "two")
    await workspace.command("sed -i s/two/three/ a")
    assert [file.why for file in (await workspace.undo(confirmed=False)).skipped] == ["unconfirmed"]
    assert workspace.text("a") == "three\n"
    await workspace.undo()
    assert workspace.text("a") == "one\n"
    await workspace.redo()
    assert workspace.text("a") == "three\n"


async def test_a_command_followed_by_an_edit_is_undone_up_to_the_command(workspace: CommandWorkspace) -> None:
    workspace.put("a", "one\n")
    await workspace.command("echo two >a")
    session = workspace.session()
    await session.view("a")
    await session.edit("a", "two", "three")
    report = await workspace.undo(confirmed=False)
    assert workspace.text("a") == "two\n"
    assert "confirmation" in report.restored[0].note
    await workspace.undo()
    assert workspace.text("a") == "one\n"


async def test_a_change_after_the_command_is_never_lost(workspace: CommandWorkspace) -> None:
    workspace.put("a", "one\n")
    await workspace.command("echo two >a; echo x >b; chmod 755 a")
    workspace.put("a", "mine\n")
    (workspace.directory / "b").chmod(0o600)
    report = await workspace.undo()
    assert [file.why for file in report.skipped] == ["changed", "changed"]
    assert workspace.tree() == {"a": b"mine\n", "b": b"x\n"}


async def test_a_file_that_the_person_saves_while_a_command_runs_comes_back_with_redo(
    workspace: CommandWorkspace,
) -> None:
    workspace.put("notes", "draft\n")
    call = await workspace.begin()
    workspace.put("notes", "an hour of work\n")
    await workspace.end(call)
    await workspace.undo()
    assert workspace.text("notes") == "draft\n"
    await workspace.redo()
    assert workspace.text("notes") == "an hour of work\n"


async def test_changes_between_commands_are_not_attributed_to_them(workspace: CommandWorkspace) -> None:
    workspace.put("a", "one\n")
    await workspace.command("true")
    workspace.put("a", "by the person\n")
    workspace.put("mine", "x\n")
    assert await workspace.command("true") == ()
    assert await workspace.command("echo agent >>a") == ("a",)
    await workspace.undo()
    assert workspace.tree() == {"a": b"by the person\n", "mine": b"x\n"}


async def test_ignored_files_and_those_of_git_are_left_out(workspace: CommandWorkspace) -> None:
    workspace.put(".gitignore", "build/\n*.log\n!keep.log\n")
    workspace.put("build/out", "1")
    workspace.put("sub/.gitignore", "secret\n")
    subprocess.run(["git", "init", "-q", str(workspace.directory)], check=True)
    line = "echo 2 >build/out; echo x >x.log; echo x >keep.log; echo x >sub/secret; echo x >secret; echo x >.git/x"
    assert await workspace.command(line) == ("keep.log", "secret")


async def test_a_file_that_is_no_longer_ignored_was_not_created(workspace: CommandWorkspace) -> None:
    workspace.put(".gitignore", "*.log\nbuild/\n")
    workspace.put("a.log", "precious\n")
    workspace.put("build/b", "precious\n")
    workspace.put("c.txt", "c\n")
    assert await workspace.command("echo '*.txt' >.gitignore") == (".gitignore",)
    await workspace.undo()
    assert workspace.text("a.log") == workspace.text("build/b") == "precious\n"
    assert workspace.text("c.txt") == "c\n"
    assert await workspace.command("echo x >>c.txt; echo x >>a.log") == ("c.txt",)


async def test_an_ignored_file_that_the_session_has_read_is_covered(workspace: CommandWorkspace) -> None:
    workspace.put(".gitignore", ".env\n")
    workspace.put(".env", "PORT=1\n")
    await workspace.session().view(".env")
    assert await workspace.command("echo PORT=2 >.env") == (".env",)
    await workspace.undo()
    assert workspace.text(".env") == "PORT=1\n"


async def test_a_file_outside_that_the_session_has_read_is_covered_and_read_once(
    workspace: CommandWorkspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    outside = workspace.directory.parent / "outside.txt"
    outside.write_text("one\n")
    os.utime(workspace.directory)
    await workspace.session().view(str(outside))
    monkeypatch.setattr("holdfast.workspace.undo.state_reader.SETTLE_NS", -(10**18))
    await workspace.command("true")
    monkeypatch.setattr("holdfast.workspace.undo.state_reader.read_state", lambda path: pytest.fail(f"reads {path}"))
    await workspace.command("true")
    monkeypatch.undo()
    assert await workspace.command("echo two >../outside.txt") == (str(outside),)
    await workspace.undo()
    assert outside.read_text() == "one\n"


async def test_a_tree_beyond_the_limit_covers_what_the_session_has_read_and_says_so(
    workspace: CommandWorkspace,
) -> None:
    limits = TreeLimits(names=10)
    for number in range(20):
        workspace.put(f"f{number}", "x\n")
    await workspace.session().view("f1")
    assert await workspace.command("echo y >f1; echo y >f2", limits=limits) == ("f1",)
    await workspace.undo()
    assert (workspace.text("f1"), workspace.text("f2")) == ("x\n", "y\n")
    (note,) = (await asyncio.to_thread(workspace.blobs.shadow.gaps, "ses_1"))["run_1"]
    assert "more than 10 files" in note


async def test_a_file_that_is_too_large_is_told_and_not_touched(
    workspace: CommandWorkspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("tree_scan", "state_reader"):
        monkeypatch.setattr(f"holdfast.workspace.undo.{module}.MAX_FILE_BYTES", 1_000)
    workspace.put("large", "x" * 2_000)
    line = "printf y >>large; head -c 3000 /dev/zero >made; echo a >small"
    assert await workspace.command(line) == ("large", "made", "small")
    report = await workspace.undo()
    assert {Path(file.path).name: file.why for file in report.skipped} == {"large": "not_kept", "made": "not_kept"}
    assert len(workspace.text("large")) == 2_001
    assert not (workspace.directory / "small").exists()


async def test_the_first_look_at_a_large_tree_is_bounded_and_continued_by_the_next_one(
    workspace: CommandWorkspace,
) -> None:
    limits = TreeLimits(names=1_000, scan_bytes=50)
    for number in range(10):
        workspace.put(f"f{number}", f"{number}" * 10)
    await workspace.command("echo y >f1; echo y >f7", limits=limits)
    assert {file.why for file in (await workspace.undo()).skipped} <= {"not_kept"}
    for _ in range(3):
        assert await workspace.command("true", limits=limits) == ()
    await workspace.command("echo z >f1; echo z >f7", run_id="run_2", limits=limits)
    assert (await workspace.undo("run_2")).skipped == ()


async def test_a_name_that_is_not_text_a_pipe_and_a_closed_directory_do_no_harm(workspace: CommandWorkspace) -> None:
    workspace.put("closed/a", "x\n")
    os.mkfifo(workspace.directory / "pipe")
    (workspace.directory / os.fsdecode(b"\xff\xfe")).write_text("x")
    line = "echo y >b; chmod 000 closed; mkfifo other"
    assert await workspace.command(line) == ("b",)
    (workspace.directory / "closed").chmod(0o755)
    await workspace.undo()
    assert workspace.text("closed/a") == "x\n"


async def test_a_change_within_one_tick_of_the_clock_with_the_same_size_is_found(workspace: CommandWorkspace) -> None:
    path = workspace.put("a", "one\n")
    status = path.stat()
    call = await workspace.begin()
    with open(path, "r+b") as file:
        file.write(b"two\n")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert await workspace.end(call) == ("a",)


async def test_directories_are_removed_only_if_the_change_made_them_and_they_are_empty(
    workspace: CommandWorkspace,
) -> None:
    (workspace.directory / "was-there").mkdir()
    session = workspace.session()
    await session.write("was-there/tool", "x\n")
    await session.write("by-tool/deep/x", "x\n")
    await workspace.command("echo x >was-there/command; mkdir -p by-command/deep kept; echo x >by-command/deep/x")
    await workspace.command("echo x >kept/x")
    workspace.put("by-command/mine", "mine\n")
    await workspace.undo()
    assert set(workspace.state()) == {"was-there", "by-command", "by-command/mine", "kept"}


async def test_two_commands_at_once_see_the_same_change_and_a_tool_write_is_nobodys(
    workspace: CommandWorkspace,
) -> None:
    workspace.put("a", "one\n")
    first = await workspace.begin(run_id="run_1")
    second = await workspace.begin(session_id="ses_2", run_id="run_2")
    workspace.put("a", "two\n")
    path = workspace.put("tool", "by a tool\n")
    workspace.snapshots_of_commands.note_write(path, content_hash(b"by a tool\n"))
    assert await workspace.end(first) == ("a",)
    assert await workspace.end(second) == ("a",)
    assert await workspace.command("true") == ()
    await workspace.undo("run_1")
    assert workspace.text("a") == "one\n"


async def test_a_crash_while_a_command_runs_loses_nothing(workspace: CommandWorkspace) -> None:
    workspace.put("a", "one\n")
    workspace.put("dir/b", "b\n")
    await workspace.begin()
    workspace.put("a", "two\n")
    (workspace.directory / "dir/b").unlink()
    workspace.put("new", "x\n")
    await workspace.reopen().recover(TreeLimits(names=10_000))
    assert {Path(row.path).name for row in workspace.records.rows.values()} == {"a", "b", "new"}
    assert {row.by for row in workspace.records.rows.values()} == {"command"}
    await workspace.undo()
    assert workspace.tree() == {"a": b"one\n", "dir/b": b"b\n"}
    await workspace.reopen().recover(TreeLimits(names=10_000))
    assert len(workspace.records.rows) == 3


async def test_a_crash_before_the_command_records_nothing(workspace: CommandWorkspace) -> None:
    workspace.put("a", "one\n")
    await workspace.begin()
    await workspace.reopen().recover(TreeLimits(names=10_000))
    assert workspace.records.rows == {}


async def test_a_crash_of_two_commands_keeps_what_changed_before_the_second_began(workspace: CommandWorkspace) -> None:
    workspace.put("a", "one\n")
    await workspace.begin(run_id="run_1")
    workspace.put("a", "two\n")
    await workspace.begin(session_id="ses_2", run_id="run_2")
    await workspace.reopen().recover(TreeLimits(names=10_000))
    assert [(row.run_id, Path(row.path).name) for row in workspace.records.rows.values()] == [("run_1", "a")]


async def test_records_that_could_not_be_committed_are_committed_by_the_next_use(workspace: CommandWorkspace) -> None:
    class Failing(MemoryRecords):
        broken = False

        async def commit(self, batch: Batch) -> Committed:
            if self.broken:
                raise StoreUnwritable("the disk is full")
            return await super().commit(batch)

    workspace.records = records = Failing()
    workspace.ledger = records
    workspace.reopen()
    workspace.put("a", "one\n")
    call = await workspace.begin()
    workspace.put("a", "two\n")
    records.broken = True
    with pytest.raises(StoreUnwritable):
        await workspace.end(call)
    records.broken = False
    assert await workspace.command("true", run_id="run_2") == ()
    assert [row.run_id for row in records.rows.values()] == ["run_1"]
    await workspace.undo()
    assert workspace.text("a") == "one\n"


async def test_a_command_still_runs_if_nothing_can_be_stored(workspace: CommandWorkspace) -> None:
    workspace.put("a", "one\n")
    workspace.snapshots.parent.mkdir(parents=True, exist_ok=True)
    workspace.snapshots.write_text("a file where the directory should be")
    assert await workspace.command("echo two >a") == ()
    assert workspace.text("a") == "two\n"


async def test_a_damaged_store_is_put_aside(workspace: CommandWorkspace) -> None:
    workspace.put("a", "one\n")
    await workspace.command("true")
    workspace.blobs.close()
    path = workspace.snapshots / "shadow.db"
    path.write_bytes(b"not a database" * 1_000)
    workspace.reopen()
    assert await workspace.command("echo two >a") == ("a",)
    assert path.with_suffix(".damaged").exists()
    await workspace.undo()
    assert workspace.text("a") == "one\n"


async def test_contents_are_stored_once_and_removed_when_nothing_refers_to_them(workspace: CommandWorkspace) -> None:
    workspace.put("a", "same\n")
    workspace.put("b", "same\n")
    await workspace.command("echo other >a")
    shadow = workspace.blobs.shadow
    with sqlite3.connect(workspace.snapshots / "shadow.db") as sql:
        assert sql.execute("SELECT count(*) FROM contents").fetchone() == (2,)
    assert await asyncio.to_thread(shadow.sweep, lambda names: (), before=0.0) == 0
    assert await asyncio.to_thread(shadow.sweep, lambda names: (), before=2**40) == 2
    assert (workspace.snapshots / "shadow.db").stat().st_mode & 0o077 == 0


_COMMANDS = [
    "echo $RANDOM >a",
    "echo $RANDOM >d/b",
    "rm -f a",
    "rm -rf d",
    "mkdir -p d && echo $RANDOM >d/b",
    "mkdir -p d/e && echo $RANDOM >d/e/c",
    "[ ! -e a ] || chmod 755 a",
    "[ ! -e a ] || mv a moved",
    "ln -sfn d link",
    "rm -f link moved",
]


@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)
@given(lines=st.lists(st.sampled_from(_COMMANDS), min_size=1, max_size=5))
async def test_any_sequence_of_commands_is_undone_and_redone(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str]
) -> None:
    workspace = CommandWorkspace(tmp_path_factory.mktemp("history"))
    workspace.put("a", "at first\n")
    workspace.put("d/b", "at first\n")
    before = workspace.state()
    for line in lines:
        await workspace.command(f"mkdir -p d; {line}")
    after = {name: state for name, state in workspace.state().items() if state[0] != "directory"}
    await workspace.undo()
    assert workspace.state() == before
    await workspace.redo()
    assert {name: state for name, state in workspace.state().items() if state[0] != "directory"} == after
