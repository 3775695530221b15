"""The git state is read without running a program that the repository names."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from holdfast.workspace.context_gatherer import git_branch, git_status


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    subprocess.run(["git", "init", "-q", "-b", "trunk", tmp_path], check=True)
    (tmp_path / "pkg").mkdir()
    return tmp_path


def test_the_branch_is_read_without_running_git(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert git_branch(repository / "pkg") == "trunk"
    assert git_branch(Path("/")) is None


async def test_the_status_is_short_and_runs_no_program_of_the_repository(repository: Path) -> None:
    trap = repository / "trap"
    subprocess.run(["git", "-C", repository, "config", "core.fsmonitor", f"touch {trap}"], check=True)
    for number in range(30):
        (repository / f"f{number:02}").write_text("x")
    status = await git_status(repository)
    assert status is not None
    assert status.splitlines()[0] == "?? f00"
    assert status.splitlines()[-1] == "… and 10 more"
    assert not trap.exists()
    assert await git_status(Path("/")) is None
