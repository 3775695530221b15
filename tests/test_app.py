"""The composition root: start, maintenance and stop of a server."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from holdfast.app import App, open_app
from holdfast.errors import StoreLocked
from holdfast.locations import Locations
from holdfast.models.model_script import ScriptedText, ScriptedWait
from holdfast.schema.events import JobFinished
from holdfast.schema.sessions import Job
from holdfast.store import Batch
from holdfast.store.writes import PutJob
from tests.support.app_harness import open_app_harness, saying


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
