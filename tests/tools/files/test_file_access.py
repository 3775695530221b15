"""Paths are resolved to the real file, and a missing one has suggestions."""

import os
from pathlib import Path

import pytest

from holdfast.errors import ToolError
from holdfast.tools.files.file_access import (
    ABSENT,
    content_hash,
    display_path,
    hash_file,
    missing_file_error,
    mode_of,
    read_file,
    resolve_path,
    similar_paths,
)


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    directory = tmp_path.resolve() / "ws"
    directory.mkdir()
    return directory


def test_relative_paths_start_at_the_workspace(workspace: Path) -> None:
    assert resolve_path("src/../a.py", workspace) == workspace / "a.py"
    assert resolve_path("/etc/../etc/hosts", workspace) == Path("/etc/hosts")
    assert resolve_path("../x", workspace) == workspace.parent / "x"


def test_the_home_is_expanded(workspace: Path, home: Path) -> None:
    assert resolve_path("~/notes", workspace) == home.resolve() / "notes"


def test_symlinks_are_followed_to_the_real_target(workspace: Path, tmp_path: Path) -> None:
    (workspace / "out").symlink_to(tmp_path)
    assert resolve_path("out/secret", workspace) == tmp_path.resolve() / "secret"


@pytest.mark.parametrize("text", ["", "  ", "a\0b"])
def test_empty_paths_and_nul_characters_raise_errors(workspace: Path, text: str) -> None:
    with pytest.raises(ToolError, match="path"):
        resolve_path(text, workspace)


def test_a_name_that_is_not_utf_8_raises_an_error(workspace: Path) -> None:
    (workspace / "odd").symlink_to(b"caf\xe9".decode("utf-8", "surrogateescape"))
    with pytest.raises(ToolError, match="not UTF-8"):
        resolve_path("odd", workspace)


def test_paths_are_shown_short_inside_and_whole_outside(workspace: Path) -> None:
    assert display_path(workspace / "a/b", workspace) == "a/b"
    assert display_path(Path("/etc/hosts"), workspace) == "/etc/hosts"
    assert display_path(workspace, workspace) == "."


def test_near_names_are_suggested(workspace: Path) -> None:
    for name in ["README.md", "main.py", "main.ts", "settings.toml"]:
        (workspace / name).touch()
    assert similar_paths(workspace / "readme.md") == (workspace / "README.md",)
    assert workspace / "main.py" in similar_paths(workspace / "main.js")
    assert similar_paths(workspace / "setings.toml") == (workspace / "settings.toml",)
    assert similar_paths(workspace / "zzz") == ()


def test_a_missing_directory_is_where_the_suggestion_is_made(workspace: Path) -> None:
    (workspace / "source").mkdir()
    assert similar_paths(workspace / "sources/deep/a.py") == (workspace / "source",)
    assert "similar: 'source'" in missing_file_error(workspace / "sources/deep/a.py", workspace).message
    assert "use glob or ls" in missing_file_error(workspace / "zzz", workspace).message


def test_a_missing_file_is_none(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x")
    assert read_file(tmp_path / "nothing") is None
    assert read_file(tmp_path / "file/below") is None
    assert hash_file(tmp_path / "nothing") == content_hash(None) == ABSENT
    assert mode_of(tmp_path / "nothing") is None


def test_a_pipe_does_not_hang_the_reader(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ToolError, match="not a regular file"):
        read_file(tmp_path / "pipe")


def test_devices_and_directories_raise_errors(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="not a regular file"):
        read_file(Path("/dev/zero"))
    with pytest.raises(ToolError, match="is a directory; use ls"):
        read_file(tmp_path)


def test_a_file_over_the_limit_raises_an_error_with_advice(tmp_path: Path) -> None:
    (tmp_path / "big").write_bytes(b"x" * 101)
    assert read_file(tmp_path / "big", limit=101) == b"x" * 101
    with pytest.raises(ToolError, match=r"too large.*use grep"):
        read_file(tmp_path / "big", limit=100)


def test_a_file_that_says_it_is_empty_is_bounded_too() -> None:
    with pytest.raises(ToolError, match="too large"):
        read_file(Path("/proc/self/status").resolve(), limit=10)


def test_a_symlink_in_the_last_place_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/etc/hostname")
    with pytest.raises(ToolError, match="became a symlink"):
        read_file(tmp_path / "link")
