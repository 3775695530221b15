"""Cost of a turn: CPU per delta through the whole engine, time from a tool's end to the next request, memory.

The provider runs in a process of its own, so that only our CPU counts. *Bare* is the least program that reads the same
stream with the same HTTP library and forwards its text as events. *Ours* is a server without sockets: the wire, the
turn, the store on disk, the hub, and one subscriber that reads everything.
"""

from __future__ import annotations

import argparse
import asyncio
import functools
import http.client
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
from support.figures import show
from support.process_stats import resident_megabytes
from support.stream_provider import HEADERS, TEXT_OF_EVENT, encode_events, provider_process, read_request

from holdfast.app import App, open_app
from holdfast.locations import Locations
from holdfast.models.http_transport import HttpTransport
from holdfast.schema.messages import Finish, Message, Part, Role, Text, ToolCall, ToolResult
from holdfast.schema.runs import RunRequest
from holdfast.schema.sessions import Session
from holdfast.schema.usage import Usage
from holdfast.store import Batch
from holdfast.store.writes import PutMessage, PutSession
from holdfast.testing import WIRES, Answer, Call, Say, WireName
from holdfast.workspace.open_workspace import OpenWorkspace

BURST = 20_000
ROUNDS = 5
STEPS = 25
PARAGRAPH = "Some words that a person or a tool might have said, with `code` and a path/like/this.py:12. " * 4


def answer(connection: socket.socket) -> None:
    """``/burst/WIRE/…``: many small deltas at once. ``/steps/WIRE/…``: a call of `view` per step, then a text."""
    kind, wire, body = read_request(connection)
    if kind == "burst":
        connection.sendall(_burst(wire))
    else:
        done = body.count(b"the-file")  # each call names the file
        pieces = (Say("done"),) if done >= STEPS else (Call("view", {"path": "the-file", "offset": done + 1}),)
        connection.sendall(_encode(wire, Answer(pieces)))  # type: ignore[arg-type]


@functools.cache
def _burst(wire: WireName) -> bytes:
    return _encode(wire, Answer((Say(deltas=(" word",) * BURST),)))


def _encode(wire: WireName, answer: Answer) -> bytes:
    return HEADERS + b"".join(encode_events(wire, answer)) + b"0\r\n\r\n"


def config(port: int, kind: str) -> str:
    return "".join(
        f'[providers.bench-{wire}]\nwire = "{wire}"\nbase_url = "http://127.0.0.1:{port}/{kind}/{wire}"\n'
        f"[providers.bench-{wire}.models.m]\ncontext_window = 10000000\n"
        for wire in WIRES
    )


def prepare(directory: Path, port: int, kind: str) -> tuple[Locations, Path, dict[str, str]]:
    """The locations of a server with its settings file, a working directory with a file, and the environment."""
    work = directory / "work"
    work.mkdir()
    (work / "the-file").write_text("one line\n" * 100)
    env = {**os.environ, "HOLDFAST_HOME": str(directory / "home")}
    locations = Locations.from_env(env)
    locations.prepare()
    locations.config_file.write_text(config(port, kind))
    return locations, work, env


@asynccontextmanager
async def open_server(port: int, kind: str) -> AsyncIterator[tuple[App, str]]:
    """A server without sockets, and the id of its open workspace."""
    with tempfile.TemporaryDirectory(prefix="hf-bench-") as directory:
        locations, work, env = prepare(Path(directory), port, kind)
        async with open_app(locations, env) as app:
            view, _ = await app.services.workspaces.open(str(work))
            yield app, view.id


async def bare(port: int, wire: WireName) -> int:
    """Read the stream and forward each delta as an event to one reader."""
    text_of = TEXT_OF_EVENT[wire]
    found = 0
    forwarded: asyncio.Queue[bytes] = asyncio.Queue()
    url = f"http://127.0.0.1:{port}/burst/{wire}/x"
    async with httpx2.AsyncClient(timeout=60) as client, client.stream("POST", url, json={}) as response:
        async for line in response.aiter_lines():
            if line.startswith("data: ") and line != "data: [DONE]" and (text := text_of(json.loads(line[6:]))):
                found += 1
                forwarded.put_nowait(b"data: %b\n\n" % json.dumps({"kind": "delta", "text": text}).encode())
                forwarded.get_nowait()
    return found


async def ours(app: App, workspace_id: str, wire: WireName) -> int:
    request = RunRequest(prompt="go", model=f"bench-{wire}/m", mode="auto")
    reading = asyncio.create_task(_read_everything(app))
    accepted = await app.engine.accept_in_new_session(
        workspace_id, request, client="bench", body_hash="", title="titled"
    )
    run = await app.engine.wait_run(accepted.run.id, timeout=120)
    reading.cancel()
    await asyncio.gather(reading, return_exceptions=True)
    assert run.state == "completed", run
    return len(run.text) // len(" word")


async def _read_everything(app: App) -> None:
    with app.hub.subscribe() as subscription:
        while await subscription.read_batch():
            pass


async def cpu_per_delta(port: int, rounds: int) -> None:
    async with open_server(port, "burst") as (app, workspace_id):
        for wire in WIRES:
            pairs = []
            await ours(app, workspace_id, wire)
            for _ in range(rounds):
                began = time.process_time()
                assert await bare(port, wire) == BURST
                between = time.process_time()
                assert await ours(app, workspace_id, wire) == BURST
                pairs.append((between - began, time.process_time() - between))
            plain, full = (statistics.median(values) / BURST * 1e6 for values in zip(*pairs, strict=True))
            show(f"CPU per delta, {wire}", full, "µs", base=plain, most_ratio=2)


class StepTimer:
    """Measures the time from the end of a tool call until the next request is sent."""

    def __init__(self, app: App, workspace: OpenWorkspace) -> None:
        self.wall: list[float] = []
        self.cpu: list[float] = []
        self._ended: tuple[float, float] | None = None
        tool = workspace.tools.get("view")
        run, send = tool.run, HttpTransport.send

        async def timed_run(*args: Any) -> Any:
            try:
                return await run(*args)
            finally:
                self._ended = (time.perf_counter(), time.process_time())

        def timed_send(*args: Any, **fields: Any) -> Any:
            if self._ended is not None:
                self.wall.append((time.perf_counter() - self._ended[0]) * 1000)
                self.cpu.append((time.process_time() - self._ended[1]) * 1000)
                self._ended = None
            return send(*args, **fields)

        tool.run = timed_run  # type: ignore[method-assign, assignment]
        HttpTransport.send = timed_send  # type: ignore[method-assign]
        self._send = send

    def close(self) -> None:
        HttpTransport.send = self._send  # type: ignore[method-assign]


async def between_steps(port: int, *, messages: int) -> None:
    for wire in WIRES:
        async with open_server(port, "steps") as (app, workspace_id):
            session_id = await _long_session(app, workspace_id, messages)
            timer = StepTimer(app, await app.open_workspaces.live(workspace_id))
            request = RunRequest(prompt="go", model=f"bench-{wire}/m", mode="auto")
            accepted = await app.engine.accept(session_id, request, client="bench", body_hash="")
            run = await app.engine.wait_run(accepted.run.id, timeout=120)
            timer.close()
            assert (run.state, run.steps) == ("completed", STEPS + 1), run
            cpu, wall = statistics.median(timer.cpu), statistics.median(timer.wall)
            show(f"a step after {messages} messages, CPU, {wire}", cpu, "ms", most=5)
            show(f"a step after {messages} messages, wall, {wire}", wall, "ms", most=5)


async def _long_session(app: App, workspace_id: str, count: int) -> str:
    """A session with prompts, answers, calls and results."""
    session = Session(id=app.shared.ids.new("ses"), workspace_id=workspace_id, title="long")
    found: list[Message] = []
    for number in range(count):
        role: Role
        parts: tuple[Part, ...]
        match number % 4:
            case 0:
                role, parts = "user", (Text(f"{number} {PARAGRAPH}"),)
            case 1:
                role, parts = (
                    "assistant",
                    (Text(PARAGRAPH), ToolCall(f"call_{number}", "view", {"path": "x"}), Finish("tool_use")),
                )
            case 2:
                role, parts = "tool", (ToolResult(f"call_{number - 1}", "view", text=PARAGRAPH * 3),)
            case _:
                role, parts = "assistant", (Text(PARAGRAPH), Finish("end_turn"))
        found.append(
            Message(app.shared.ids.new("msg"), session.id, "run_0", role, 0, "", parts, usage=Usage(input=number))
        )
    await app.store.commit(Batch((PutSession(session), *map(PutMessage, found))))
    return session.id


def memory(port: int) -> None:
    """The memory of a server process at its start, and after one answer over HTTP."""
    with tempfile.TemporaryDirectory(prefix="hf-bench-") as directory:
        locations, work, env = prepare(Path(directory), port, "steps")
        code = (
            "import asyncio, os; from holdfast.app import run_server; from holdfast.locations import Locations\n"
            "def ready(addresses): print('up', flush=True)\n"
            "asyncio.run(run_server(Locations.from_env(os.environ), os.environ, ready=ready))"
        )
        with subprocess.Popen([sys.executable, "-c", code], env=env, stdout=subprocess.PIPE) as server:
            try:
                assert server.stdout is not None
                assert server.stdout.readline() == b"up\n"
                empty = resident_megabytes(server.pid)
                _one_answer(str(locations.socket), str(work))
                after = resident_megabytes(server.pid)
            finally:
                server.terminate()
        show("memory, started", empty, "MB")
        show("memory after the first answer", after, "MB", most=60)


def _one_answer(path: str, work: str) -> None:
    workspace = _post(path, "/v1/workspaces", {"path": work})
    body = {"prompt": "go", "model": "bench-openai-chat/m", "mode": "auto"}
    run = _post(path, f"/v1/workspaces/{workspace['id']}/runs", body)["run"]
    ended = _post(path, f"/v1/runs/{run['id']}?wait=60", None)
    assert ended["state"] == "completed", ended


def _post(path: str, route: str, body: Any) -> Any:
    connection = http.client.HTTPConnection("localhost")
    connection.sock = socket.socket(socket.AF_UNIX)
    connection.sock.connect(path)
    headers = {"Content-Type": "application/json", "X-Holdfast-Client": "bench/1 c_1"}
    connection.request("GET" if body is None else "POST", route, json.dumps(body) if body else None, headers)
    answer = json.loads(connection.getresponse().read())
    connection.close()
    return answer


async def measure(port: int, rounds: int) -> None:
    await cpu_per_delta(port, rounds)
    for messages in (10, 2000):
        await between_steps(port, messages=messages)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    rounds = parser.parse_args().rounds
    with provider_process(answer) as port:
        asyncio.run(measure(port, rounds))
        memory(port)


if __name__ == "__main__":
    main()
