"""Files are replaced all or nothing, and what somebody else wrote in between is never lost."""

import os
import stat
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from holdfast.errors import ToolError
from holdfast.tools.files import file_transaction, safe_rename
from holdfast.tools.files.file_access import ABSENT, content_hash, read_file
from holdfast.tools.files.file_transaction import FileConflict, FileWrite, lock_directories, write_files
from holdfast.tools.files.held_directory import HeldDirectory
from tests.support.stress import StressShare


def _write(path: Path, old: bytes, new: bytes | None) -> FileWrite:
    return FileWrite(path, content_hash(old), new)


def _create(path: Path, new: bytes) -> FileWrite:
    return FileWrite(path, ABSENT, new)


def _files(directory: Path) -> dict[str, bytes]:
    found = {path for path in directory.rglob("*") if path.is_file()}
    return {str(path.relative_to(directory)): path.read_bytes() for path in found}


@pytest.fixture(params=["atomic", "without renameat2", "without hard links"])
def kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Also on systems and file systems that have less."""
    if request.param != "atomic":
        monkeypatch.setattr(safe_rename, "_system_call", lambda: None)
    if request.param == "without hard links":

        def refuse(*args: object, **kwargs: object) -> None:
            raise PermissionError(1, "no hard links here")

        monkeypatch.setattr(os, "link", refuse)
    return str(request.param)


class Intruder:
    """Does something right before or after the nth call of one of the steps."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._patch = monkeypatch

    def at(self, step: str, act: Callable[[], object], *, call: int = 1, after: bool = False) -> None:
        real = getattr(file_transaction, step)
        calls = 0

        def intruded(*args: object) -> object:
            nonlocal calls
            calls += 1
            if calls == call and not after:
                act()
            answer = real(*args)
            if calls == call and after:
                act()
            return answer

        self._patch.setattr(file_transaction, step, intruded)


@pytest.fixture
def intruder(monkeypatch: pytest.MonkeyPatch) -> Intruder:
    return Intruder(monkeypatch)


def test_all_kinds_of_change_are_made_together(tmp_path: Path, kernel: str) -> None:
    (tmp_path / "a").write_bytes(b"old")
    (tmp_path / "b").write_bytes(b"gone")
    write_files(
        [
            _write(tmp_path / "a", b"old", b"new"),
            _write(tmp_path / "b", b"gone", None),
            _create(tmp_path / "deep/er/c", b"made"),
        ]
    )
    assert _files(tmp_path) == {"a": b"new", "deep/er/c": b"made"}


@pytest.mark.parametrize("mode", [0o644, 0o755, 0o600, 0o4755, 0o444])
def test_mode_bits_stay(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "run.sh"
    path.write_bytes(b"old")
    path.chmod(mode)
    write_files([_write(path, b"old", b"new")])
    assert stat.S_IMODE(path.stat().st_mode) == mode
    assert path.read_bytes() == b"new"


def test_a_new_file_has_the_rights_that_any_program_would_give_it(tmp_path: Path) -> None:
    write_files([_create(tmp_path / "made", b"x"), FileWrite(tmp_path / "tool", ABSENT, b"x", 0o755)])
    (tmp_path / "plain").write_bytes(b"x")
    assert (tmp_path / "made").stat().st_mode == (tmp_path / "plain").stat().st_mode
    assert stat.S_IMODE((tmp_path / "tool").stat().st_mode) == 0o755


@pytest.mark.skipif(os.getuid() != 0, reason="only root may give files away")
def test_the_owner_stays_where_that_is_possible(tmp_path: Path) -> None:
    path = tmp_path / "theirs"
    path.write_bytes(b"old")
    os.chown(path, 12_345, 23_456)
    write_files([_write(path, b"old", b"new")])
    assert (path.stat().st_uid, path.stat().st_gid) == (12_345, 23_456)


def test_extended_attributes_stay(tmp_path: Path) -> None:
    path = tmp_path / "tagged"
    path.write_bytes(b"old")
    try:
        os.setxattr(path, "user.tag", b"red")
    except OSError:
        pytest.skip("this file system has no user attributes")
    write_files([_write(path, b"old", b"new")])
    assert os.getxattr(path, "user.tag") == b"red"


def test_a_note_says_that_other_hard_links_keep_the_old_content(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"old")
    os.link(path, tmp_path / "twin")
    (note,) = write_files([_write(path, b"old", b"new")])
    assert "1 more hard link" in note
    assert _files(tmp_path) == {"a": b"new", "twin": b"old"}


@pytest.mark.parametrize("found", [b"edited by the user", None])
def test_an_unexpected_content_stops_all_writes(tmp_path: Path, kernel: str, found: bytes | None) -> None:
    (tmp_path / "a").write_bytes(b"a")
    if found is not None:
        (tmp_path / "b").write_bytes(found)
    before = _files(tmp_path)
    with pytest.raises(FileConflict, match="changed by another program") as refused:
        write_files([_write(tmp_path / "a", b"a", b"A"), _write(tmp_path / "b", b"b", b"B")])
    assert _files(tmp_path) == before
    assert refused.value.detail == {"path": str(tmp_path / "b")}


def test_a_file_that_appeared_is_not_overwritten(tmp_path: Path, kernel: str) -> None:
    (tmp_path / "a").write_bytes(b"the user was faster")
    with pytest.raises(FileConflict, match="created by another program"):
        write_files([_create(tmp_path / "a", b"mine")])
    assert _files(tmp_path) == {"a": b"the user was faster"}


def test_a_save_between_the_check_and_the_write_is_not_lost(tmp_path: Path, intruder: Intruder) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"old")
    intruder.at("exchange_files", lambda: path.write_bytes(b"the user's"))
    with pytest.raises(FileConflict):
        write_files([_write(path, b"old", b"new")])
    assert _files(tmp_path) == {"a": b"the user's"}


def test_an_editor_that_saves_by_renaming_loses_nothing_either(tmp_path: Path, intruder: Intruder) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"old")
    (tmp_path / "a.swp").write_bytes(b"the user's")
    intruder.at("exchange_files", lambda: os.rename(tmp_path / "a.swp", path))
    with pytest.raises(FileConflict):
        write_files([_write(path, b"old", b"new")])
    assert _files(tmp_path) == {"a": b"the user's"}


def test_two_saves_during_a_write_are_both_kept(tmp_path: Path, intruder: Intruder) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"old")
    intruder.at("exchange_files", lambda: path.write_bytes(b"first"), call=1)
    intruder.at("exchange_files", lambda: path.write_bytes(b"second"), call=2)
    with pytest.raises(FileConflict, match="changed twice; one of its contents is in"):
        write_files([_write(path, b"old", b"new")])
    assert sorted(_files(tmp_path).values()) == [b"first", b"second"]


@pytest.mark.parametrize("call", [1, 2])
def test_a_deletion_during_a_write_is_not_undone(tmp_path: Path, intruder: Intruder, call: int) -> None:
    """Before the first exchange the file is gone and stays so; before the second, the person's content comes back."""
    path = tmp_path / "a"
    path.write_bytes(b"old")
    if call == 2:
        intruder.at("exchange_files", lambda: path.write_bytes(b"the user's"))
    intruder.at("exchange_files", path.unlink, call=call)
    with pytest.raises(FileConflict):
        write_files([_write(path, b"old", b"new")])
    assert _files(tmp_path) == ({} if call == 1 else {"a": b"the user's"})


def test_a_directory_or_pipe_that_took_the_place_is_put_back(tmp_path: Path, intruder: Intruder) -> None:
    path = tmp_path / "a"

    def become_directory() -> None:
        path.unlink()
        path.mkdir()
        (path / "inside").write_bytes(b"theirs")

    path.write_bytes(b"old")
    intruder.at("exchange_files", become_directory)
    with pytest.raises(FileConflict):
        write_files([_write(path, b"old", b"new")])
    assert _files(tmp_path) == {"a/inside": b"theirs"}


def test_a_file_that_appears_in_the_last_moment_is_not_overwritten(
    tmp_path: Path, kernel: str, intruder: Intruder
) -> None:
    path = tmp_path / "a"
    intruder.at("rename_to_free", lambda: path.write_bytes(b"the user's"))
    with pytest.raises(FileConflict, match="created by another program"):
        write_files([_create(path, b"mine")])
    assert _files(tmp_path) == {"a": b"the user's"}


def test_a_file_that_changes_in_the_moment_of_its_deletion_stays(
    tmp_path: Path, kernel: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"old")
    rename = os.rename

    def rename_late(source: str, target: str, **directories: int) -> None:
        monkeypatch.setattr(os, "rename", rename)
        path.write_bytes(b"the user's")
        rename(source, target, **directories)

    monkeypatch.setattr(os, "rename", rename_late)
    with pytest.raises(FileConflict):
        write_files([_write(path, b"old", None)])
    assert _files(tmp_path) == {"a": b"the user's"}


def test_when_the_last_of_several_fails_the_others_are_put_back(
    tmp_path: Path, kernel: str, intruder: Intruder
) -> None:
    for name in "abz":
        (tmp_path / name).write_bytes(name.encode())
    changes = [
        _write(tmp_path / "a", b"a", b"A"),
        _write(tmp_path / "b", b"b", None),
        _create(tmp_path / "new/c", b"C"),
        _write(tmp_path / "z", b"z", b"Z"),
    ]
    before = _files(tmp_path)
    intruder.at("_flush_directories", _full_disk)
    with pytest.raises(ToolError, match="could not be written: No space left on device\nNothing was changed"):
        write_files(changes)
    assert _files(tmp_path) == before
    assert not (tmp_path / "new").exists()


def _full_disk() -> None:
    raise OSError(28, os.strerror(28))


def test_changes_made_after_the_write_are_not_undone(tmp_path: Path, intruder: Intruder) -> None:
    for name in "abc":
        (tmp_path / name).write_bytes(name.encode())

    def user_then_full_disk() -> None:
        (tmp_path / "a").write_bytes(b"A, and more by the user")
        (tmp_path / "b").write_bytes(b"made anew by the user")
        (tmp_path / "d").write_bytes(b"D, and more by the user")
        _full_disk()

    intruder.at("_flush_directories", user_then_full_disk)
    with pytest.raises(ToolError) as refused:
        write_files(
            [
                _write(tmp_path / "a", b"a", b"A"),
                _write(tmp_path / "b", b"b", None),
                _write(tmp_path / "c", b"c", b"C"),
                _create(tmp_path / "d", b"D"),
            ]
        )
    assert _files(tmp_path) == {
        "a": b"A, and more by the user",
        "b": b"made anew by the user",
        "c": b"c",
        "d": b"D, and more by the user",
    }
    assert refused.value.message.count("was changed by another program in the meantime and keeps that content") == 3


def test_a_content_that_cannot_be_restored_is_kept_and_named(tmp_path: Path, intruder: Intruder) -> None:
    (tmp_path / "a").write_bytes(b"a")

    def deleted_then_full_disk() -> None:
        (tmp_path / "a").unlink()
        _full_disk()

    intruder.at("_flush_directories", deleted_then_full_disk)
    with pytest.raises(ToolError, match="could not be restored") as refused:
        write_files([_write(tmp_path / "a", b"a", b"A")])
    ((kept, content),) = _files(tmp_path).items()
    assert content == b"a"
    assert kept in refused.value.message


def test_writers_at_the_same_time_lose_no_line(tmp_path: Path) -> None:
    _write_side_by_side(tmp_path, writers=4, turns=12)


@pytest.mark.stress(weight=0.5)
def test_many_writers_at_the_same_time_lose_no_line(tmp_path: Path, share: StressShare) -> None:
    for number in share.rounds():
        (tmp_path / str(number)).mkdir()
        written, refused = _write_side_by_side(tmp_path / str(number), writers=8, turns=50)
        share.count("lines written", written)
        share.count("refused", refused)


def _write_side_by_side(tmp_path: Path, *, writers: int, turns: int) -> tuple[int, int]:
    """Real threads, no barriers: each adds a line to what it read, and what was not refused is there once."""
    path = tmp_path / "a"
    path.write_bytes(b"")
    written: list[bytes] = []
    refused: list[str] = []
    start = threading.Barrier(writers)

    def write(name: int) -> None:
        start.wait()
        for turn in range(turns):
            line = f"{name}.{turn}\n".encode()
            old = read_file(path) or b""
            try:
                write_files([_write(path, old, old + line)])
            except FileConflict as error:
                refused.append(error.message)
            else:
                written.append(line)

    with ThreadPoolExecutor(writers) as pool:
        list(pool.map(write, range(writers)))
    assert sorted(path.read_bytes().splitlines(keepends=True)) == sorted(written)
    assert len(written) + len(refused) == writers * turns
    assert list(_files(tmp_path)) == ["a"]
    return len(written), len(refused)


def test_a_directory_that_stays_locked_is_written_without_the_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").write_bytes(b"old")
    monkeypatch.setattr(file_transaction, "lock_directories", partial(lock_directories, seconds=0))
    directory = HeldDirectory.open(tmp_path)
    with lock_directories([directory]):
        write_files([_write(tmp_path / "a", b"old", b"new")])
    assert _files(tmp_path) == {"a": b"new"}


def test_a_parent_that_is_a_file_is_an_error_that_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"a file")
    with pytest.raises(ToolError, match="Not a directory"):
        write_files([_create(tmp_path / "a/b/c", b"x")])
    assert _files(tmp_path) == {"a": b"a file"}


def test_a_symlink_that_appeared_is_not_written_through(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_bytes(b"old")
    (tmp_path / "a").symlink_to("elsewhere")
    with pytest.raises(FileConflict):
        write_files([_write(tmp_path / "a", b"old", b"new")])
    assert (tmp_path / "elsewhere").read_bytes() == b"old"


@pytest.mark.skipif(os.getuid() == 0, reason="root may write everything")
def test_a_read_only_file_raises_an_error(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"old")
    (tmp_path / "a").chmod(0o444)
    with pytest.raises(ToolError, match="read-only"):
        write_files([_write(tmp_path / "a", b"old", b"new")])
