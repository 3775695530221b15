"""An editor that leaves at any point, or closes one of its pipes: what it sent is done once."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.acp.acp_peer import editor_server, start_agent
from tests.acp.leaving_editor import ORDERS, Departure, leave, line
from tests.support.running_server import RunningServer
from tests.support.stress import StressShare

_AT_ONCE = 6


@pytest.fixture
async def server(home: Path) -> AsyncIterator[RunningServer]:
    async with editor_server(home) as server:
        yield server


INITIALIZE = line(id=1, method="initialize", params={"protocolVersion": 1})


async def _sessions(server: RunningServer) -> list[str]:
    found = (await server.http.get(f"/v1/workspaces/{server.workspace_id}/sessions?limit=1000")).ok()["items"]
    return sorted(one["id"] for one in found)


STEPS = ["nothing", "half a line", "initialize", "new", "prompt", "text", "permission", "cancel"]


async def _leave_after(server: RunningServer, step: str) -> None:
    """Close stdin after a step, and check that the process ends and that what was accepted goes on."""
    before = await _sessions(server)
    process = await start_agent(server)
    assert process.stdin is not None
    assert process.stdout is not None
    session = ""

    async def until(text: str) -> Any:
        assert process.stdout is not None
        while True:
            line = await process.stdout.readline()
            assert line, f"it ended without {text!r}"
            if text in line.decode():
                return json.loads(line)

    if step == "half a line":
        process.stdin.write(INITIALIZE[:20])
    if STEPS.index(step) >= STEPS.index("initialize"):
        process.stdin.write(INITIALIZE)
    if STEPS.index(step) >= STEPS.index("new"):
        process.stdin.write(line(id=2, method="session/new", params={"cwd": str(server.work), "mcpServers": []}))
    if STEPS.index(step) >= STEPS.index("prompt"):
        session = (await until('"id":2'))["result"]["sessionId"]
        order = "!bash touch allowed" if step == "permission" else "!hang a text"
        prompt = [{"type": "text", "text": order}]
        process.stdin.write(line(id=3, method="session/prompt", params={"sessionId": session, "prompt": prompt}))
    if step in ("text", "cancel"):
        await until("a text")
    if step == "permission":
        await until("session/request_permission")
    if step == "cancel":
        process.stdin.write(line(method="session/cancel", params={"sessionId": session}))
    process.stdin.close()
    rest = asyncio.create_task(process.stdout.read())
    assert await process.wait() == 0
    await rest
    if not session:
        assert await _sessions(server) == before
        return
    (run,) = (await server.http.get(f"/v1/sessions/{session}/runs")).ok()["items"]
    if step == "cancel":
        assert (await server.ended(run["id"]))["state"] == "cancelled"
    else:
        assert run["state"] == "active"
        (await server.http.post(f"/v1/runs/{run['id']}/cancel", {})).ok()


@pytest.mark.promise("R10")
@pytest.mark.parametrize("step", ["nothing", "permission", "cancel"])
async def test_the_editor_closes_stdin(server: RunningServer, step: str) -> None:
    await _leave_after(server, step)


@pytest.mark.stress
@pytest.mark.timeout(600)
async def test_the_editor_leaves_the_process_at_any_step(server: RunningServer, share: StressShare) -> None:
    for number in share.rounds(at_least=len(STEPS)):
        await _leave_after(server, STEPS[number % len(STEPS)])
        share.count("editors that left")


@pytest.mark.promise("R10", "C1")
async def test_pipes_are_closed_inside_a_conversation(server: RunningServer) -> None:
    whole = await leave(server, Departure(), name="whole")
    before = await _sessions(server)
    left = await leave(server, Departure(written=whole.ends["new"]), name="00000")
    assert left.whole == ["initialize", "new"]
    assert await _sessions(server) == before
    left = await leave(server, Departure(written=whole.ends[ORDERS[0]]), name="00000")
    assert left.whole == ["initialize", "new", ORDERS[0]]
    for number in range(1, 6):
        await leave(server, Departure(written=whole.written * number // 6), name=f"{number:05}")
        await leave(server, Departure(read=whole.read * number // 6), name=f"{number:05}r")


async def _leave_at_all(server: RunningServer, departures: Iterator[Departure]) -> None:
    async with asyncio.TaskGroup() as group:
        for worker in range(_AT_ONCE):
            group.create_task(_leave_one_by_one(server, departures, worker))


async def _leave_one_by_one(server: RunningServer, departures: Iterator[Departure], worker: int) -> None:
    for number, departure in enumerate(departures):
        await leave(server, departure, name=f"{worker}{number:04}")


@pytest.mark.promise("R10", "C1")
@pytest.mark.stress(weight=2)
@pytest.mark.timeout(900)
async def test_stdin_is_closed_at_every_byte_of_a_conversation(server: RunningServer, share: StressShare) -> None:
    whole = await leave(server, Departure(), name="whole")
    cuts = share.sample(range(whole.written), what="bytes written", at_least=share.full(300))
    await _leave_at_all(server, (Departure(written=byte) for byte in cuts))


@pytest.mark.promise("R10", "C1")
@pytest.mark.stress
@pytest.mark.timeout(900)
async def test_stdout_is_closed_at_any_byte_of_a_conversation(server: RunningServer, share: StressShare) -> None:
    whole = await leave(server, Departure(), name="whole")
    cuts = share.sample(range(whole.read), what="bytes read", at_least=share.full(100))
    await _leave_at_all(server, (Departure(read=byte) for byte in cuts))
