"""A server in a process of its own, with its data on a small disk that is full."""

import asyncio
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from holdfast.testing import text
from tests.server.test_process import HANGING, Process, process, prompt
from tests.store.faulty_database import small_disk
from tests.support.running_server import answering


@pytest.fixture
def disk(home: Path) -> Iterator[Path]:
    with small_disk(home / "disk", "16m") as disk:
        if disk is None:
            pytest.skip("mounting is not permitted here")
        yield disk


@pytest.fixture
async def server(disk: Path) -> AsyncIterator[Process]:
    """A server with an active run that has shown text, and the queued run `q`."""
    async with process(disk, answering(HANGING)) as server:
        yield server


async def start_runs(server: Process, disk: Path) -> tuple[str, str]:
    session_id, run_id = await prompt(server.http, disk)
    (await server.http.post(f"/v1/sessions/{session_id}/runs", {"prompt": "next", "run_id": "q"})).ok(202)
    async with server.http.stream("/v1/events") as stream:
        while (await server.http.get(f"/v1/sessions/{session_id}/messages")).body.count(b"partial") == 0:
            await stream.data()
    return session_id, run_id


def fill(disk: Path) -> None:
    with (disk / "filler").open("ab", buffering=0) as file:
        for size in (1 << 20, 4096):
            with suppress(OSError):
                while True:
                    file.write(b"x" * size)


@pytest.mark.promise("C1", "C7", "R14")
async def test_on_a_full_disk_a_cancel_ends_everything_that_it_covers(server: Process, disk: Path) -> None:
    session_id, _ = await start_runs(server, disk)
    await asyncio.to_thread(fill, disk)
    refused = await server.http.post(f"/v1/sessions/{session_id}/runs", {"prompt": "x" * 100_000})
    assert (refused.status, refused.json()["error"]["code"]) == (507, "store_unwritable")
    receipt = (await server.http.post(f"/v1/sessions/{session_id}/cancel")).ok()
    assert [(run["was"], run["ended_as"], run["stopped"]) for run in receipt["runs"]] == [
        ("active", "cancelled", True),
        ("queued", "cancelled", True),
    ]
    assert (receipt["durable"], receipt["error"]) == (True, None)
    (disk / "filler").unlink()
    assert await server.end(signal.SIGTERM) == 0


@pytest.mark.promise("C1", "C3", "C7", "R14")
async def test_without_any_space_a_cancel_stops_what_it_covers_and_survives_a_crash(
    server: Process, disk: Path
) -> None:
    session_id, run_id = await start_runs(server, disk)
    (disk / "home" / "data" / "holdfast.db.reserve").unlink()
    await asyncio.to_thread(fill, disk)
    receipt = (await server.http.post(f"/v1/sessions/{session_id}/cancel")).ok()
    assert [(run["was"], run["ended_as"], run["stopped"]) for run in receipt["runs"]] == [
        ("active", None, True),
        ("queued", None, True),
    ]
    assert (receipt["durable"], receipt["error"]["code"]) == (True, "store_unwritable")
    await server.end(signal.SIGKILL)
    (disk / "filler").unlink()
    await server.start()
    for ended in (run_id, "q"):
        run = (await server.http.get(f"/v1/runs/{ended}?wait=20")).ok()
        assert (run["state"], run["reason"]) == ("cancelled", "user_cancel")


@pytest.mark.promise("W6", "R14")
async def test_a_server_that_starts_without_any_space_after_a_crash_goes_on_when_there_is_some(disk: Path) -> None:
    async with process(disk, answering(HANGING, text("second"))) as server:
        _, run_id = await start_runs(server, disk)
        await server.end(signal.SIGKILL)
        (disk / "home" / "data" / "holdfast.db.reserve").unlink()
        await asyncio.to_thread(fill, disk)
        await server.start()
        (await server.http.post("/v1/workspaces", {"path": str(disk / "work")})).ok()
        assert (await server.http.get(f"/v1/runs/{run_id}")).ok()["state"] == "active"
        (disk / "filler").unlink()
        ended = (await server.http.get(f"/v1/runs/{run_id}?wait=20")).ok()
        assert (ended["state"], ended["reason"]) == ("interrupted", "server_crash")
        then = (await server.http.get("/v1/runs/q?wait=20")).ok()
        assert (then["state"], then["text"]) == ("completed", "second")


@pytest.mark.promise("W5")
async def test_a_stop_without_any_space_holds_the_queue_after_the_restart(server: Process, disk: Path) -> None:
    session_id, run_id = await start_runs(server, disk)
    (disk / "home" / "data" / "holdfast.db.reserve").unlink()
    await asyncio.to_thread(fill, disk)
    assert await server.end(signal.SIGTERM) == 1
    (disk / "filler").unlink()
    await server.start()
    run = (await server.http.get(f"/v1/runs/{run_id}?wait=20")).ok()
    assert (run["state"], run["reason"]) == ("interrupted", "server_stop")
    queue = (await server.http.post(f"/v1/sessions/{session_id}/pause")).ok()
    assert queue["run_ids"] == ["q"]
    assert queue["active"] is None
    assert (await server.http.get("/v1/runs/q")).ok()["state"] == "queued"
