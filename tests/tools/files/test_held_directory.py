"""No symlink redirects a read or a write, also if another process flips a directory and a link all the time."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.errors import ToolError
from holdfast.tools.files import held_directory
from holdfast.tools.files.file_access import ABSENT, content_hash, read_file, resolve_path
from holdfast.tools.files.file_transaction import FileWrite, write_files
from holdfast.tools.files.held_directory import HeldDirectory, LinkInPath, open_without_links

FLIP = """
import ctypes, os, sys
directory, link, outside = map(os.fsencode, sys.argv[1:])
os.symlink(outside, link)
exchange = ctypes.CDLL(None, use_errno=True).renameat2
print("ready", flush=True)
while exchange(-100, directory, -100, link, 2) == 0:
    pass
"""
"""Exchanges a directory and a link to a directory outside, each time in one step."""


@pytest.fixture(params=["openat2", "one component after the other"])
def system(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param != "openat2":
        monkeypatch.setattr(held_directory, "_openat2", lambda: None)
        monkeypatch.delattr(os, "O_NOFOLLOW_ANY", raising=False)
    elif sys.platform != "linux":
        pytest.skip("requires Linux")
    return str(request.param)


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    for name in ("ws/d", "outside"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "outside" / "present").write_text("not yours")
    return tmp_path / "ws"


@pytest.fixture
def flipping(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A process that exchanges a directory and a link until the test ends."""
    if sys.platform != "linux":
        pytest.skip("requires Linux")
    monkeypatch.setattr(os, "fsync", lambda _: None)  # thousands of writes; durability is tested elsewhere
    arguments = [str(workspace / "d"), str(workspace / "link"), str(workspace.parent / "outside")]
    with subprocess.Popen([sys.executable, "-c", FLIP, *arguments], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        yield
        assert process.poll() is None, "the process did not flip until the end"
        process.kill()


@pytest.mark.promise("W8")
def test_no_write_lands_outside_while_a_directory_and_a_link_are_flipped(
    workspace: Path, flipping: None, system: str
) -> None:
    outcomes: Counter[str] = Counter()
    for number in range(1_500):
        path = workspace / "d" / f"{number % 7}"
        try:
            expected = content_hash(read_file(path))
            write_files([FileWrite(path, expected, f"{number}".encode())])
            outcomes["written"] += 1
        except ToolError as error:
            outcomes[error.error_code] += 1
        try:
            write_files([FileWrite(workspace / "d" / "new" / f"{number}", ABSENT, b"x")])
            outcomes["created"] += 1
        except ToolError as error:
            outcomes[error.error_code] += 1
    print(dict(outcomes))
    assert sorted(path.name for path in (workspace.parent / "outside").iterdir()) == ["present"]
    assert (workspace.parent / "outside" / "present").read_text() == "not yours"
    assert sum(outcomes.values()) == 3_000


def test_no_read_comes_from_outside_while_a_directory_and_a_link_are_flipped(
    workspace: Path, flipping: None, system: str
) -> None:
    found: set[object] = set()
    for _ in range(3_000):
        try:
            found.add(read_file(workspace / "d" / "present"))
        except ToolError as error:
            found.add("became a symlink" in error.message)
    assert found <= {None, True}


def test_a_link_anywhere_in_the_path_is_refused(workspace: Path, system: str) -> None:
    (workspace / "link").symlink_to(workspace.parent / "outside")
    for path in (workspace / "link" / "a", workspace / "link" / "b" / "c"):
        with pytest.raises(LinkInPath, match="replaced by a symlink; try again"):
            write_files([FileWrite(path, ABSENT, b"x")])
    with pytest.raises(OSError, match=r"symbolic links|Not a directory"):
        open_without_links(workspace / "link" / "present", os.O_RDONLY)
    assert sorted(path.name for path in (workspace.parent / "outside").iterdir()) == ["present"]


def test_the_root_and_long_paths_can_be_opened(workspace: Path, system: str) -> None:
    for path in (Path("/"), workspace, workspace / "d"):
        directory = HeldDirectory.open(path)
        assert os.fstat(directory.descriptor).st_ino == path.stat().st_ino
        directory.close()


def test_a_resolved_path_through_a_link_is_written_where_it_leads(workspace: Path, system: str) -> None:
    (workspace / "inner").symlink_to(workspace / "d")
    write_files([FileWrite(resolve_path("inner/deep/er/file", workspace), ABSENT, b"x")])
    assert (workspace / "d" / "deep" / "er" / "file").read_bytes() == b"x"
