"""The git state is read without running a program that the repository names."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path
from typing import Any, cast

import pytest

from holdfast.locations import Locations
from holdfast.tasks import CallThreads
from holdfast.workspace import context_gatherer
from holdfast.workspace.context_gatherer import DirectoryContextGatherer, git_branch, git_status


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


async def test_a_cancel_ends_the_status_instead_of_waiting_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def endless(directory: Path) -> str | None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return None

    monkeypatch.setattr(context_gatherer, "git_status", endless)
    nothing = cast("Any", None)
    locations = Locations.from_env({"HOME": str(tmp_path)})
    gatherer = DirectoryContextGatherer(
        tmp_path,
        locations,
        files=nothing,
        mcp=nothing,
        trusted=True,
        clock=lambda: 0.0,
        threads=(threads := CallThreads(1, name="files")),
    )
    reading = asyncio.create_task(gatherer.read_directory())
    await begun.wait()
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    assert ended.is_set()
    await asyncio.to_thread(threads.close)
