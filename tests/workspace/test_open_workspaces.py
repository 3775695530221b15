"""What runs use is imported with the first run, or soon after the start."""

import asyncio
import gc
import threading
from pathlib import Path

import pytest

import holdfast.app
from holdfast.workspace.open_workspaces import OpenWorkspaces
from tests.support.app_harness import open_app_harness, saying
from tests.support.running_server import until


async def test_a_server_without_runs_imports_what_runs_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(holdfast.app, "_LOAD_SECONDS", 0.0)
    async with open_app_harness(tmp_path) as harness:
        shared = harness.app.shared
        await until(lambda: {"models", "blobs", "launcher", "person_launcher"} <= vars(shared).keys())
        assert harness.app.open_workspaces.live_now(harness.workspace_id) is None


async def test_a_prompt_is_accepted_and_cancelled_while_the_code_is_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_import, import_code = threading.Event(), OpenWorkspaces._import_code

    def import_when_told(self: OpenWorkspaces) -> None:
        assert may_import.wait(50)
        import_code(self)

    monkeypatch.setattr(OpenWorkspaces, "_import_code", import_when_told)
    try:
        async with open_app_harness(tmp_path, saying("done")) as harness:
            first, second = await asyncio.gather(harness.start("one"), harness.start("two"))
            await harness.app.engine.cancel_run(first.run.id)
            assert (await harness.ended(first)).state == "cancelled"
            may_import.set()
            assert (await harness.ended(second)).text == "done"
    finally:
        may_import.set()


async def test_an_import_that_fails_ends_its_run_and_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures, import_code = [OSError(24, "Too many open files")], OpenWorkspaces._import_code

    def fail_once(self: OpenWorkspaces) -> None:
        if failures:
            raise failures.pop()
        import_code(self)

    monkeypatch.setattr(OpenWorkspaces, "_import_code", fail_once)
    async with open_app_harness(tmp_path, saying("done")) as harness:
        assert (await harness.run("one")).state == "failed"
        assert (await harness.run("two")).text == "done"


@pytest.mark.parametrize("freezes", [True, False])
async def test_a_process_that_froze_its_start_collects_no_garbage_while_it_imports_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, freezes: bool
) -> None:
    collecting: list[bool] = []
    monkeypatch.setattr("holdfast.tools.registry.import_tools", lambda: collecting.append(gc.isenabled()))
    gc.unfreeze()
    if freezes:
        gc.freeze()
    frozen = gc.get_freeze_count()
    try:
        async with open_app_harness(tmp_path) as harness:
            await harness.app.open_workspaces.load_code()
            assert collecting == [not freezes]
            assert gc.isenabled()
            assert (gc.get_freeze_count() > frozen) == freezes
    finally:
        gc.unfreeze()
