"""The composition root: start, maintenance and stop of a server."""

from __future__ import annotations

import asyncio
import os
import sys
from functools import partial
from pathlib import Path

import pytest

from holdfast import app as app_module
from holdfast.app import App, open_app
from holdfast.errors import StoreLocked
from holdfast.locations import Locations
from holdfast.models.model_script import ScriptedText, ScriptedWait
from holdfast.schema.events import JobFinished
from holdfast.schema.sessions import Job
from holdfast.store import Batch, open_store
from holdfast.store.writes import PutJob
from holdfast.workspace import maintenance
from tests.support.app_harness import open_app_harness, saying
from tests.support.fault_schedule import StoreFaults


@pytest.mark.promise("W10")
async def test_a_second_server_with_the_same_home_is_refused(tmp_path: Path) -> None:
    async with open_app_harness(tmp_path):
        with pytest.raises(StoreLocked):
            async with open_app_harness(tmp_path):
                raise AssertionError("two servers on one database")


async def test_jobs_of_a_crashed_server_are_marked_lost(tmp_path: Path) -> None:
    async with open_app_harness(tmp_path, saying("ok")) as harness:
        run = await harness.run("go")
        job = Job("job_1", harness.workspace_id, run.session_id, run.id, "sleep 9")
        await harness.app.store.commit(Batch((PutJob(job),)))
    async with open_app_harness(tmp_path) as harness:
        assert (await harness.app.store.job("job_1")).state == "lost"
        assert any(isinstance(event, JobFinished) for event in await harness.events())


@pytest.mark.promise("R14", "W6")
async def test_a_server_starts_on_a_full_disk_and_marks_lost_jobs_when_there_is_space(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_app_harness(tmp_path, saying("ok")) as harness:
        run = await harness.run("go")
        for number in (1, 2):
            job = Job(f"job_{number}", harness.workspace_id, run.session_id, run.id, "sleep 9")
            await harness.app.store.commit(Batch((PutJob(job),)))
    faults = StoreFaults()
    monkeypatch.setattr(app_module, "open_store", partial(open_store, connect=faults.connect))
    monkeypatch.setattr(maintenance, "_RETRY_SECONDS", 0.01)
    faults.plan("full", after=1, times=1_000_000)
    async with open_app_harness(tmp_path) as harness:
        assert [(await harness.app.store.job(one)).state for one in ("job_1", "job_2")] == ["lost", "running"]
        cursor = harness.app.hub.cursor
        faults.heal()
        async for item in harness.app.hub.subscribe(after=cursor):
            if b"job.finished" in item.body and b"job_2" in item.body:
                break
        ended = [event.job.id for event in await harness.events() if isinstance(event, JobFinished)]
        assert ended == ["job_1", "job_2"]


@pytest.mark.promise("W5")
async def test_a_stop_interrupts_the_active_run_and_pauses_the_queue(tmp_path: Path) -> None:
    async with open_app_harness(tmp_path, saying((ScriptedText("half"), ScriptedWait()))) as harness:
        active = await harness.start("first")
        queued = await harness.start("second", session_id=active.run.session_id)
        async for item in harness.app.hub.subscribe():
            if b"half" in item.body:
                break
    async with open_app_harness(tmp_path, saying("whole")) as harness:
        ended = await harness.app.engine.get_run(active.run.id)
        assert (ended.state, ended.reason, ended.text) == ("interrupted", "server_stop", "half")
        assert (await harness.app.engine.queue(active.run.session_id)).paused == "server_stop"
        assert (await harness.app.engine.get_run(queued.run.id)).state == "queued"
        await harness.app.engine.resume(active.run.session_id)
        assert (await harness.ended(queued)).text == "whole"


async def test_contents_without_a_snapshot_are_removed_after_a_day(tmp_path: Path) -> None:
    env = {**os.environ, "HOLDFAST_HOME": str(tmp_path)}
    locations = Locations.from_env(env)

    async def wait_until_removed(app: App, name: str) -> None:
        while await asyncio.to_thread(app.shared.blobs.get, name) is not None:
            pass

    async with open_app(locations, env) as app:
        name = await asyncio.to_thread(app.shared.blobs.put, b"old")
    path = next(locations.snapshots_dir.rglob(name))
    os.utime(path, (0, 0))
    async with open_app(locations, env) as app:
        await wait_until_removed(app, name)


async def test_what_the_first_command_imports_is_loaded_before_a_limit_can_break_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = ("holdfast.store.sqlite.known_grants", "holdfast.tools.process.tool_peers")
    async with open_app_harness(tmp_path) as harness:
        for name in late:
            monkeypatch.delitem(sys.modules, name, raising=False)
        await app_module._load_code(harness.app.open_workspaces, harness.app.services)
        assert set(late) <= set(sys.modules)
