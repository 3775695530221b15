"""File primitives: their guarantees, and the error for each kind of path."""

import os
import stat
from pathlib import Path

import pytest

from holdfast.files import (
    FileTooLarge,
    FolderSearch,
    NotRegularFile,
    Repository,
    file_identity,
    lock,
    open_directory,
    programs_named,
    read_limited,
    repository_root,
    write_atomic,
)


def test_a_file_at_the_limit_is_read_and_a_larger_one_is_not(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"12345")
    assert read_limited(path, limit=5) == b"12345"
    with pytest.raises(FileTooLarge) as caught:
        read_limited(path, limit=4)
    assert (caught.value.size, caught.value.limit, caught.value.filename) == (5, 4, str(path))


def test_a_file_that_grows_while_it_is_read_does_not_pass_the_limit(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"1234")

    def grow(status: os.stat_result) -> None:
        path.write_bytes(b"123456")

    with pytest.raises(FileTooLarge):
        read_limited(path, limit=4, check=grow)


def test_an_empty_file_has_no_bytes(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert read_limited(tmp_path / "file", limit=0) == b""


def test_only_regular_files_are_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(NotRegularFile):
        read_limited(tmp_path / "pipe", limit=1)
    with pytest.raises(IsADirectoryError):
        read_limited(tmp_path, limit=1)
    with pytest.raises(FileNotFoundError):
        read_limited(tmp_path / "none", limit=1)
    with pytest.raises(OSError, match="symbolic links"):
        read_limited(tmp_path / "loop", limit=1)


def test_the_opener_decides_whether_links_are_followed(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"text")
    (tmp_path / "link").symlink_to("file")
    assert read_limited(tmp_path / "link", limit=9) == b"text"
    with pytest.raises(OSError, match="symbolic links"):
        read_limited(tmp_path / "link", limit=9, opener=lambda path, flags: os.open(path, flags | os.O_NOFOLLOW))


def test_the_check_gets_the_status_of_the_opened_file_and_can_refuse_it(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"text")

    def refuse(status: os.stat_result) -> None:
        raise PermissionError(status.st_size)

    with pytest.raises(PermissionError, match="4"):
        read_limited(tmp_path / "file", limit=9, check=refuse)


def test_a_new_file_is_private_and_an_existing_one_keeps_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_atomic(path, b"one")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.chmod(0o640)
    write_atomic(path, b"two")
    assert (path.read_bytes(), stat.S_IMODE(path.stat().st_mode)) == (b"two", 0o640)
    write_atomic(path, b"three", mode=0o600)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_link_is_replaced_unless_links_are_followed(tmp_path: Path) -> None:
    (tmp_path / "target").write_bytes(b"old")
    link = tmp_path / "link"
    link.symlink_to("target")
    write_atomic(link, b"new", follow_links=True)
    assert link.is_symlink()
    assert (tmp_path / "target").read_bytes() == b"new"
    write_atomic(link, b"own")
    assert not link.is_symlink()
    assert (tmp_path / "target").read_bytes() == b"new"


def test_a_failed_write_leaves_the_old_content_and_no_other_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def fail(descriptor: int) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        write_atomic(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_the_longest_file_name_can_be_written(tmp_path: Path) -> None:
    path = tmp_path / ("n" * 255)
    write_atomic(path, b"x")
    assert path.read_bytes() == b"x"


def test_a_lock_has_one_holder_and_ends_with_its_descriptor(tmp_path: Path) -> None:
    first, second = open_directory(tmp_path), open_directory(tmp_path)
    try:
        assert lock(first, seconds=0)
        assert not lock(second, seconds=0)
        assert not lock(second, seconds=0.02)
    finally:
        os.close(first)
    assert lock(second)
    os.close(second)


def test_a_file_has_one_identity_under_all_its_names(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("file")
    os.link(tmp_path / "file", tmp_path / "name")
    one = file_identity(tmp_path / "file")
    assert one is not None
    assert one == file_identity(tmp_path / "name") == file_identity(tmp_path / "link")
    assert one != file_identity(tmp_path / "link", follow_links=False)
    assert file_identity(tmp_path / "none") is None


def test_the_repository_root_is_the_nearest_directory_with_git(tmp_path: Path) -> None:
    inner = tmp_path / "outer" / "inner" / "deep"
    inner.mkdir(parents=True)
    assert repository_root(inner) == inner
    (tmp_path / "outer" / ".git").mkdir()
    assert repository_root(inner) == tmp_path / "outer"
    (tmp_path / "outer" / "inner" / ".git").write_text("gitdir: elsewhere")
    assert repository_root(inner) == tmp_path / "outer" / "inner"
    assert repository_root(inner / "none") == tmp_path / "outer" / "inner"


def test_programs_are_found_in_the_order_of_the_search_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, mode in (("one", 0o755), ("two", 0o755), ("data", 0o644), ("relative", 0o755)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "tool").touch(mode)
    (tmp_path / "directory" / "tool").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    entries = (tmp_path / "data", tmp_path / "directory", "relative", tmp_path / "two", tmp_path / "one", "", "/gone")
    found = programs_named("tool", os.pathsep.join(map(str, entries)))
    assert list(found) == [str(tmp_path / "two" / "tool"), str(tmp_path / "one" / "tool")]
    assert list(programs_named("tool", "")) == []


def test_a_repository_is_known_with_and_without_links(tmp_path: Path) -> None:
    (tmp_path / "real" / ".git").mkdir(parents=True)
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "link" / "below").mkdir()
    assert Repository.of(tmp_path / "link" / "below") == (tmp_path / "link", tmp_path.resolve() / "real")


def test_directories_are_found_also_behind_links_and_below_missing_parents(tmp_path: Path) -> None:
    (tmp_path / "one" / "folder").mkdir(parents=True)
    (tmp_path / "one" / "file").touch()
    (tmp_path / "link").symlink_to("one")
    names = ("one/folder", "one/file", "one/none", "link/folder", "missing/folder", "one/file/folder", "one")
    search = FolderSearch(tmp_path / name for name in names)
    assert search.existing() == {tmp_path / "one/folder", tmp_path / "link/folder", tmp_path / "one"}
