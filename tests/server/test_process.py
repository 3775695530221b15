"""A server in a process of its own: signals, crashes, a second one on the same data."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from holdfast.locations import Locations
from holdfast.testing import Answer, Hang, Say, TestProvider, text
from tests.support.http_client import HttpClient
from tests.support.running_server import CONFIG, KEY, answering

PROGRAM = """
import asyncio, os, sys
from holdfast.app import run_server
from holdfast.errors import HoldfastError
from holdfast.locations import Locations
try:
    is_written = asyncio.run(
        run_server(Locations.from_env(os.environ), os.environ, ready=lambda found: print(*found, flush=True))
    )
    sys.exit(0 if is_written else 1)
except HoldfastError as error:
    print(error.error_code, flush=True)
    sys.exit(75)
"""

HANGING = Answer(pieces=(Say("partial "), Hang()))


class Process:
    def __init__(self, home: Path) -> None:
        environment = {**os.environ, "HOLDFAST_HOME": str(home / "home")}
        self.locations = Locations.from_env(environment)
        self.http = HttpClient(str(self.locations.socket), client="test/1 cli_test")
        self._environment = environment
        self.child: asyncio.subprocess.Process

    async def start(self) -> str:
        self.child = await asyncio.create_subprocess_exec(
            sys.executable, "-c", PROGRAM, env=self._environment, stdout=subprocess.PIPE
        )
        assert self.child.stdout is not None
        return (await self.child.stdout.readline()).decode().strip()

    async def end(self, number: int) -> int:
        self.child.send_signal(number)
        return await self.child.wait()


@asynccontextmanager
async def process(home: Path, provider: TestProvider) -> AsyncIterator[Process]:
    (home / "work").mkdir()
    async with provider:
        made = Process(home)
        made.locations.config_dir.mkdir(parents=True)
        made.locations.config_file.write_text(CONFIG.format(url=provider.url(), key=KEY, heartbeat="10s"))
        assert await made.start() == f"unix:{made.locations.socket}"
        try:
            yield made
        finally:
            if made.child.returncode is None:
                made.child.kill()
                await made.child.wait()


async def prompt(http: HttpClient, home: Path) -> tuple[str, str]:
    workspace = await http.post("/v1/workspaces", {"path": str(home / "work")})
    made = (await http.post(f"/v1/workspaces/{workspace.json()['id']}/runs", {"prompt": "go"})).ok(202)
    return made["run"]["session_id"], made["run"]["id"]


@pytest.mark.promise("W6", "R1", "R9", "W10")
async def test_after_a_crash_the_next_server_reports_the_end_of_each_run(home: Path) -> None:
    async with process(home, answering(HANGING, text("second"))) as server:
        session_id, run_id = await prompt(server.http, home)
        queued = (await server.http.post(f"/v1/sessions/{session_id}/runs", {"prompt": "next", "run_id": "q"})).ok(202)
        assert queued["decision"] == "queued"
        async with server.http.stream("/v1/events") as stream:
            while (await server.http.get(f"/v1/sessions/{session_id}/messages")).body.count(b"partial") == 0:
                await stream.data()
        second = Process(home)
        assert await second.start() == "store_locked"
        assert await second.child.wait() == 75
        assert await server.end(signal.SIGKILL) == -signal.SIGKILL
        assert server.locations.socket.exists()
        await server.start()
        end = (await server.http.get(f"/v1/runs/{run_id}?wait=20")).ok()
        assert (end["state"], end["reason"], end["text"]) == ("interrupted", "server_crash", "partial ")
        then = (await server.http.get("/v1/runs/q?wait=20")).ok()
        assert (then["state"], then["text"]) == ("completed", "second")
        again = (await server.http.post(f"/v1/sessions/{session_id}/runs", {"prompt": "next", "run_id": "q"})).ok(202)
        assert (again["decision"], again["run"]["state"]) == ("queued", "completed")
        assert await server.end(signal.SIGTERM) == 0


@pytest.mark.promise("W5")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_stops_in_order_and_leaves_nothing_behind(home: Path, number: int) -> None:
    async with process(home, answering(HANGING)) as server:
        _, run_id = await prompt(server.http, home)
        stream = await server.http.open_stream("/v1/events")
        assert await server.end(number) == 0
        ended = [event["run"] for event in await stream.rest() if event["kind"] == "run.finished"]
        assert [(run["id"], run["state"], run["reason"]) for run in ended] == [(run_id, "interrupted", "server_stop")]
        await stream.close()
        assert list(server.locations.runtime_dir.iterdir()) == []
        log = (server.locations.logs_dir / "server.log").read_text()
        assert "listening at unix:" in log
        assert "stopped" in log
        assert KEY not in log
