"""The setup of a workspace is looked at once for all that need it at the same time."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from holdfast.config.env_files import find_deep_env_files
from holdfast.errors import ConfigError
from holdfast.schema.approvals import Subject
from holdfast.workspace import workspace_setup
from holdfast.workspace.workspace_setup import ConfiguredWorkspace
from tests.support.app_harness import open_app_harness


@pytest.fixture
async def workspace(tmp_path: Path) -> AsyncIterator[ConfiguredWorkspace]:
    async with open_app_harness(tmp_path) as harness:
        yield harness.app.open_workspaces.require(harness.workspace_id)


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """One entry for each look at the files."""
    found: list[int] = []
    stamps = ConfiguredWorkspace._file_stamps

    def noted(self: ConfiguredWorkspace) -> tuple[object, ...]:
        found.append(len(found))
        return stamps(self)

    monkeypatch.setattr(ConfiguredWorkspace, "_file_stamps", noted)
    return found


async def test_of_many_callers_at_once_one_looks_at_the_files(workspace: ConfiguredWorkspace, looks: list[int]) -> None:
    workspace.forget_setup()
    looks.clear()
    first, *others = await asyncio.gather(*(workspace.setup() for _ in range(20)))
    assert all(other is first for other in others)
    assert len(looks) == 1


async def test_a_caller_that_leaves_does_not_keep_the_others_waiting(
    workspace: ConfiguredWorkspace, looks: list[int]
) -> None:
    workspace.forget_setup()
    callers = [asyncio.create_task(workspace.setup()) for _ in range(3)]
    await asyncio.sleep(0)
    callers[0].cancel()
    results = await asyncio.gather(*callers, return_exceptions=True)
    assert isinstance(results[0], asyncio.CancelledError)
    assert results[1] is results[2]


async def test_a_change_is_seen_by_those_that_come_after_it(workspace: ConfiguredWorkspace, looks: list[int]) -> None:
    workspace.forget_setup()
    looks.clear()
    before = asyncio.create_task(workspace.setup())
    await asyncio.sleep(0)
    workspace.forget_setup()
    await asyncio.gather(before, workspace.setup())
    assert len(looks) == 2


async def test_every_caller_gets_the_error_of_an_invalid_configuration(workspace: ConfiguredWorkspace) -> None:
    workspace.shared.locations.config_file.parent.mkdir(parents=True, exist_ok=True)
    workspace.shared.locations.config_file.write_text("models = 3\n")
    workspace.forget_setup()
    results = await asyncio.gather(*(workspace.setup() for _ in range(3)), return_exceptions=True)
    assert all(isinstance(result, ConfigError) for result in results)


@pytest.mark.promise("W8")
async def test_a_search_waits_for_the_secrets_that_another_one_is_still_finding(
    workspace: ConfiguredWorkspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both may show the same file, so neither may run before its secrets are masked."""
    secret = "q7Hn2vRk9sTd4mWx8bLc"
    deep = workspace.path / "a/b/c/d/e/.env"
    deep.parent.mkdir(parents=True)
    deep.write_text(f"API_KEY={secret}\n")
    await workspace.setup()
    is_inside, may_go_on = threading.Event(), threading.Event()

    def find(directory: Path) -> tuple[Path, ...]:
        is_inside.set()
        assert may_go_on.wait(30)
        return find_deep_env_files(directory)

    monkeypatch.setattr(workspace_setup, "find_deep_env_files", find)

    async def search() -> str:
        await workspace.mask_files_of(Subject("grep", "reads", "grep API_KEY"))
        return workspace.redactor.redact(secret)

    first = asyncio.create_task(search())
    assert await asyncio.to_thread(is_inside.wait, 30)
    second = asyncio.create_task(search())
    await asyncio.wait({second}, timeout=0.1)
    may_go_on.set()
    assert secret not in (await second, await first)
