"""Reading is bounded and never hangs."""

import os
from pathlib import Path

import pytest

from holdfast.errors import ToolError
from holdfast.tools.files.file_content import ABSENT, content_hash, hash_file, mode_of, read_file


def test_what_is_not_there_is_none(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x")
    assert read_file(tmp_path / "nothing") is None
    assert read_file(tmp_path / "file/below") is None
    assert hash_file(tmp_path / "nothing") == content_hash(None) == ABSENT
    assert mode_of(tmp_path / "nothing") is None


def test_a_pipe_does_not_hang_the_reader(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ToolError, match="no regular file"):
        read_file(tmp_path / "pipe")


def test_devices_and_directories_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="no regular file"):
        read_file(Path("/dev/zero"))
    with pytest.raises(ToolError, match="is a directory; use ls"):
        read_file(tmp_path)


def test_a_file_over_the_limit_is_refused_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "big").write_bytes(b"x" * 101)
    assert read_file(tmp_path / "big", limit=101) == b"x" * 101
    with pytest.raises(ToolError, match=r"too large.*use grep"):
        read_file(tmp_path / "big", limit=100)


def test_a_file_that_says_it_is_empty_is_bounded_too() -> None:
    with pytest.raises(ToolError, match="too large"):
        read_file(Path("/proc/self/status"), limit=10)


def test_a_symlink_in_the_last_place_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/etc/hostname")
    with pytest.raises(ToolError, match="became a symlink"):
        read_file(tmp_path / "link")
