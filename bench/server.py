"""The server over TCP beside a bare relay, in the same run: the cost of durability, lanes and approvals for a client.

*Relay* is the least program with the same visible behaviour: starlette, uvicorn and httpx2, without store and agent. A
POST starts a request to the provider, an event stream sends its text, a DELETE stops it. *Ours* is `serve` as users run
it. Both run in processes of their own, the provider in a third, the client in this one. All use one monotonic clock.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

from support.figures import show
from support.process_stats import cpu_seconds, resident_megabytes

TOKEN = "a-token-for-the-bench"
KINDS = {"quick": (1, 0.0), "paced": (300, 0.005), "burst": (20_000, 0.0), "slow": (40, 0.02), "hang": (1, 0.0)}
"""By path: the number of deltas, and the seconds between two of them."""

SERVER_PROGRAM = """
import asyncio, os
from holdfast.app import ListenOptions, run_server
from holdfast.locations import Locations
from holdfast.server import run_on_loop
listen = ListenOptions(tcp="127.0.0.1:" + os.environ["BENCH_PORT"], token=os.environ["BENCH_TOKEN"])
run_on_loop(run_server(Locations.from_env(os.environ), os.environ, listen=listen))
"""


class Provider:
    """Answers OpenAI Chat Completions. Each delta is the time at which it was sent. ``hang`` never ends."""

    def __init__(self) -> None:
        self.disconnects: asyncio.Queue[int] = asyncio.Queue()

    async def serve(self, port: int) -> None:
        server = await asyncio.start_server(self._exchange, "127.0.0.1", port)
        await server.serve_forever()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                seen = time.monotonic_ns()
                length = next(
                    (line[15:] for line in head.lower().split("\r\n") if line.startswith("content-length:")), 0
                )
                await reader.readexactly(int(length))
                kind = head.split(" ")[1].split("/")[1]
                if kind == "disconnect":
                    body = b"%d" % await self.disconnects.get()
                    writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body))
                else:
                    await self._answer(kind, seen, reader, writer)
        writer.close()

    async def _answer(self, kind: str, seen: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        count, pace = KINDS[kind]
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
        for number in range(count):
            writer.write(_chunk(f"{seen if kind == 'quick' else time.monotonic_ns()} "))
            if pace:
                await writer.drain()
                await asyncio.sleep(pace)
            elif number % 64 == 63:
                await writer.drain()
        if kind == "hang":
            await reader.read(1)
            self.disconnects.put_nowait(time.monotonic_ns())
            raise ConnectionResetError
        writer.write(_chunk(None) + _frame(b"data: [DONE]\n\n") + b"0\r\n\r\n")
        await writer.drain()


def _chunk(text: str | None) -> bytes:
    choice = {"index": 0, "delta": {"content": text} if text else {}, "finish_reason": None if text else "stop"}
    return _frame(b"data: %b\n\n" % json.dumps({"id": "x", "model": "m", "choices": [choice]}).encode())


def _frame(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def relay(port: int, provider: str) -> None:
    """The program that ours is compared with."""
    import httpx2
    import uvicorn
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import JSONResponse, Response, StreamingResponse
    from starlette.routing import Route

    readers: set[asyncio.Queue[bytes]] = set()
    tasks: dict[str, asyncio.Task[None]] = {}
    client = httpx2.AsyncClient(timeout=60, limits=httpx2.Limits(max_connections=200))

    def publish(event: dict[str, Any]) -> None:
        frame = b"event: %b\ndata: %b\n\n" % (event["kind"].encode(), json.dumps(event).encode())
        for reader in readers:
            reader.put_nowait(frame)

    async def forward(run_id: str, kind: str) -> None:
        body = {"model": "m", "messages": [{"role": "user", "content": "go"}], "stream": True}
        async with client.stream("POST", f"{provider}/{kind}/v1/chat/completions", json=body) as answer:
            async for line in answer.aiter_lines():
                if line.startswith("data: ") and line != "data: [DONE]":
                    text = json.loads(line[6:])["choices"][0]["delta"].get("content")
                    if text:
                        publish({"kind": "delta", "id": run_id, "text": text})
        publish({"kind": "run.finished", "id": run_id})

    async def start(request: Request) -> Response:
        body = await request.json()
        tasks[body["id"]] = asyncio.create_task(forward(body["id"], body["kind"]))
        return JSONResponse({"id": body["id"]}, status_code=202)

    async def cancel(request: Request) -> Response:
        task = tasks.pop(request.path_params["run_id"])
        task.cancel()
        await asyncio.wait([task])
        publish({"kind": "run.finished", "id": request.path_params["run_id"]})
        return JSONResponse({})

    async def events(request: Request) -> Response:
        async def frames() -> AsyncIterator[bytes]:
            queue: asyncio.Queue[bytes] = asyncio.Queue()
            readers.add(queue)
            try:
                yield b"event: hello\ndata: {}\n\n"
                while True:
                    yield await queue.get()
            finally:
                readers.discard(queue)

        return StreamingResponse(frames(), media_type="text/event-stream")

    async def health(request: Request) -> Response:
        return JSONResponse({"status": "ok"})

    routes = [
        Route("/v1/health", health),
        Route("/runs", start, methods=["POST"]),
        Route("/runs/{run_id}", cancel, methods=["DELETE"]),
        Route("/events", events),
    ]
    uvicorn.run(Starlette(routes=routes), port=port, log_level="error", access_log=False)


class Connection:
    """One keep-alive connection of the client."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def send(self, method: str, target: str, body: Any = None) -> Any:
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._port)
        reader, writer = self._streams
        sent = b"" if body is None else json.dumps(body).encode()
        writer.write(_head(method, target, len(sent)) + sent)
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        length = next(line[15:] for line in head.lower().split("\r\n") if line.startswith("content-length:"))
        answer = await reader.readexactly(int(length))
        assert head.split(" ")[1].startswith("2"), answer
        return json.loads(answer)

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()


def _head(method: str, target: str, length: int) -> bytes:
    client = f"Host: localhost\r\nAuthorization: Bearer {TOKEN}\r\nX-Holdfast-Client: bench/1 cli_bench\r\n"
    content = f"Content-Type: application/json\r\nContent-Length: {length}\r\n"
    return f"{method} {target} HTTP/1.1\r\n{client}{content}\r\n".encode()


class EventReader:
    """Reads an event stream and records when each delta was sent and received, and which runs ended."""

    def __init__(self) -> None:
        self.stamps: list[tuple[int, int]] = []
        self.ended: set[str] = set()
        self.changed = asyncio.Event()

    async def read(self, port: int, target: str, ready: asyncio.Event) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 24)
        writer.write(_head("GET", target, 0))
        await reader.readuntil(b"\r\n\r\n")
        ready.set()
        try:
            rest = b""
            while size := int(await reader.readline(), 16):
                rest += (await reader.readexactly(size + 2))[:-2]
                now = time.monotonic_ns()
                *frames, rest = rest.split(b"\n\n")
                for frame in frames:
                    self._on_frame(frame, now)
        finally:
            writer.close()

    def _on_frame(self, frame: bytes, now: int) -> None:
        if b"event: delta\n" in frame:
            text = json.loads(frame.partition(b"data: ")[2])["text"]
            self.stamps += [(int(stamp), now) for stamp in text.split()]
            self.changed.set()
        elif b"event: run.finished\n" in frame:
            event = json.loads(frame.partition(b"data: ")[2])
            self.ended.add(event["id"] if "id" in event else event["run"]["id"])
            self.changed.set()

    async def wait_for_ends(self, run_ids: Sequence[str]) -> None:
        while not self.ended.issuperset(run_ids):
            self.changed.clear()
            await self.changed.wait()

    async def wait_for_deltas(self, count: int) -> None:
        while len(self.stamps) < count:
            self.changed.clear()
            await self.changed.wait()


class Subject(Protocol):
    """A program that is measured."""

    name: str
    port: int
    events: str
    process: subprocess.Popen[bytes]

    async def prepare(self) -> None: ...

    async def start(self, connection: Connection, kind: str, run_id: str) -> Any: ...

    async def cancel(self, connection: Connection, run_id: str) -> Any: ...


class Relay:
    name = "relay"
    events = "/events"

    def __init__(self, provider: int) -> None:
        self.port = free_port()
        command = [sys.executable, __file__, "--relay", str(self.port), f"http://127.0.0.1:{provider}"]
        self.process = subprocess.Popen(command)

    async def prepare(self) -> None:
        pass

    async def start(self, connection: Connection, kind: str, run_id: str) -> Any:
        return await connection.send("POST", "/runs", {"id": run_id, "kind": kind})

    async def cancel(self, connection: Connection, run_id: str) -> Any:
        return await connection.send("DELETE", f"/runs/{run_id}")


class Ours:
    name = "ours"
    events = "/v1/events"

    def __init__(self, provider: int, home: Path) -> None:
        self.port = free_port()
        self._work = home / "work"
        self._work.mkdir(parents=True)
        config = home / "home" / "config"
        config.mkdir(parents=True)
        (config / "config.toml").write_text(
            "".join(
                f'[providers.{kind}]\nwire = "openai-chat"\nbase_url = "http://127.0.0.1:{provider}/{kind}/v1"\n'
                f"[providers.{kind}.models.m]\ncontext_window = 1000000\n"
                for kind in KINDS
            )
        )
        env = {
            **{name: value for name, value in os.environ.items() if not name.endswith("_API_KEY")},
            "HOLDFAST_HOME": str(home / "home"),
            "BENCH_PORT": str(self.port),
            "BENCH_TOKEN": TOKEN,
        }
        self.process = subprocess.Popen([sys.executable, "-c", SERVER_PROGRAM], env=env)
        self._workspace = ""

    async def prepare(self) -> None:
        connection = Connection(self.port)
        self._workspace = (await connection.send("POST", "/v1/workspaces", {"path": str(self._work)}))["id"]
        connection.close()

    async def start(self, connection: Connection, kind: str, run_id: str) -> Any:
        body = {"prompt": "go", "run_id": run_id, "model": f"{kind}/m", "title": "bench"}
        return await connection.send("POST", f"/v1/workspaces/{self._workspace}/runs", body)

    async def cancel(self, connection: Connection, run_id: str) -> Any:
        return await connection.send("POST", f"/v1/runs/{run_id}/cancel")


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


async def wait_until_healthy(subject: Subject) -> None:
    while True:
        with suppress(OSError, asyncio.IncompleteReadError):
            await Connection(subject.port).send("GET", "/v1/health")
            return
        assert subject.process.poll() is None, f"{subject.name} did not start"
        await asyncio.sleep(0.002)


@asynccontextmanager
async def reading_events(subject: Subject) -> AsyncIterator[EventReader]:
    reader, ready = EventReader(), asyncio.Event()
    task = asyncio.create_task(reader.read(subject.port, subject.events, ready))
    await ready.wait()
    try:
        yield reader
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


class ServerBenchmark:
    """The measurements of one subject, and their medians over rounds that alternate between both."""

    def __init__(self, subjects: Sequence[Subject], provider: int) -> None:
        self._subjects = subjects
        self._provider = provider
        self._number = 0

    def memory(self) -> tuple[float, float]:
        relay_memory, our_memory = (resident_megabytes(subject.process.pid) for subject in self._subjects)
        return relay_memory, our_memory

    def _id(self) -> str:
        self._number += 1
        return f"run_{self._number}"

    async def both(
        self, measure: Callable[[Subject], Awaitable[dict[str, float]]], rounds: int
    ) -> list[dict[str, float]]:
        """The medians of each subject, over rounds that alternate between them."""
        found: list[list[dict[str, float]]] = [[], []]
        for _ in range(rounds):
            for index, subject in enumerate(self._subjects):
                found[index].append(await measure(subject))
        return [{name: statistics.median(one[name] for one in runs) for name in runs[0]} for runs in found]

    async def accept(self, subject: Subject) -> dict[str, float]:
        """Milliseconds until the 202, and until the provider receives the request."""
        accepted, dispatched = [], []
        connection = Connection(subject.port)
        async with reading_events(subject) as reader:
            for _ in range(40):
                run_id = self._id()
                began = time.monotonic_ns()
                await subject.start(connection, "quick", run_id)
                accepted.append((time.monotonic_ns() - began) / 1e6)
                await reader.wait_for_ends([run_id])
                dispatched.append((reader.stamps[-1][0] - began) / 1e6)
        connection.close()
        return {"accept": statistics.median(accepted), "dispatch": statistics.median(dispatched)}

    async def paced(self, subject: Subject) -> dict[str, float]:
        """Milliseconds from the provider to the client, and CPU per 1,000 deltas."""
        async with reading_events(subject) as reader:
            used = await self._cpu_of_run(subject, reader, "paced")
            delays = sorted((got - sent) / 1e6 for sent, got in reader.stamps)
            assert len(delays) == KINDS["paced"][0]
            p99 = delays[int(len(delays) * 0.99)]
            return {"p50": statistics.median(delays), "p99": p99, "cpu": used * 1e3 / len(delays) * 1000}

    async def burst(self, subject: Subject) -> dict[str, float]:
        async with reading_events(subject) as reader:
            began = time.monotonic()
            used = await self._cpu_of_run(subject, reader, "burst")
            count = KINDS["burst"][0]
            assert len(reader.stamps) == count, len(reader.stamps)
            return {"rate": count / (time.monotonic() - began), "cpu": used * 1e3 / count * 1000}

    async def _cpu_of_run(self, subject: Subject, reader: EventReader, kind: str) -> float:
        connection, run_id = Connection(subject.port), self._id()
        before = cpu_seconds(subject.process.pid)
        await subject.start(connection, kind, run_id)
        await reader.wait_for_ends([run_id])
        connection.close()
        return cpu_seconds(subject.process.pid) - before

    async def cancel(self, subject: Subject) -> dict[str, float]:
        """Milliseconds until the provider sees the disconnect, and until the client gets the event of the end."""
        disconnects, ends = [], []
        connection, provider = Connection(subject.port), Connection(self._provider)
        async with reading_events(subject) as reader:
            for number in range(20):
                run_id = self._id()
                await subject.start(connection, "hang", run_id)
                await reader.wait_for_deltas(number + 1)
                began = time.monotonic_ns()
                cancelling = asyncio.create_task(subject.cancel(connection, run_id))
                await reader.wait_for_ends([run_id])
                ends.append((time.monotonic_ns() - began) / 1e6)
                await cancelling
                seen: int = await provider.send("GET", "/disconnect")
                disconnects.append((seen - began) / 1e6)
        connection.close()
        provider.close()
        return {"disconnect": statistics.median(disconnects), "end": statistics.median(ends)}

    async def at_once(self, subject: Subject, count: int) -> float:
        """Seconds until this many runs that start together have ended."""
        connections = [Connection(subject.port) for _ in range(count)]
        run_ids = [self._id() for _ in range(count)]
        async with reading_events(subject) as reader:
            began = time.monotonic()
            starting = (subject.start(one, "slow", run_id) for one, run_id in zip(connections, run_ids, strict=True))
            await asyncio.gather(*starting)
            await reader.wait_for_ends(run_ids)
            took = time.monotonic() - began
        for connection in connections:
            connection.close()
        return took


def compare_figures(name: str, found: tuple[float, float], unit: str, **aim: float) -> None:
    """A figure of ours beside that of the relay."""
    relay_value, ours_value = found
    show(name, ours_value, unit, base=relay_value, base_name="relay", **aim)


def stop(subject: Subject) -> None:
    subject.process.terminate()
    subject.process.wait()


async def _show_cancels(benchmark: ServerBenchmark, rounds: int) -> None:
    relay_found, found = await benchmark.both(benchmark.cancel, rounds)
    for name, key, above in (
        ("cancel until the provider sees it", "disconnect", 0.3),
        ("cancel until the end event", "end", 2),
    ):
        compare_figures(name, (relay_found[key], found[key]), "ms", most_above=above)


async def measure_cancels(subjects: list[Subject], provider: int, rounds: int) -> None:
    benchmark = ServerBenchmark(subjects, provider)
    for subject in subjects:
        await wait_until_healthy(subject)
        await subject.prepare()
        await benchmark.accept(subject)
    await _show_cancels(benchmark, rounds)


async def measure(subjects: list[Subject], provider: int, rounds: int) -> None:
    benchmark = ServerBenchmark(subjects, provider)
    for subject in subjects:
        await wait_until_healthy(subject)
        await subject.prepare()
        await benchmark.accept(subject)
    compare_figures("memory, after the first sessions", benchmark.memory(), "MB", most=38)
    relay_found, found = await benchmark.both(benchmark.accept, rounds)
    compare_figures("accept p50", (relay_found["accept"], found["accept"]), "ms", most_above=1.5)
    compare_figures("dispatch p50", (relay_found["dispatch"], found["dispatch"]), "ms", most_above=3)
    relay_found, found = await benchmark.both(benchmark.paced, rounds)
    compare_figures("relay delay p50", (relay_found["p50"], found["p50"]), "ms", most_ratio=1.15)
    compare_figures("relay delay p99", (relay_found["p99"], found["p99"]), "ms")
    compare_figures("CPU per 1,000 deltas, paced", (relay_found["cpu"], found["cpu"]), "ms", most_ratio=1.2)
    relay_found, found = await benchmark.both(benchmark.burst, rounds)
    compare_figures("CPU per 1,000 deltas, in a burst", (relay_found["cpu"], found["cpu"]), "ms", most_ratio=1.1)
    rates = relay_found["rate"], found["rate"]
    show("deltas per second, in a burst", rates[1], "/s", base=rates[0], base_name="relay", more_is_better=True)
    await _show_cancels(benchmark, rounds)
    took = {count: [await benchmark.at_once(subject, count) for subject in subjects] for count in (1, 8, 32, 100)}
    for count, values in took.items():
        compare_figures(f"{count} sessions at once", (values[0], values[1]), "s")
    stretch = took[100][0] / took[1][0], took[100][1] / took[1][1]
    compare_figures("stretch of 100 sessions", stretch, "times", most=1.5)
    compare_figures("memory, at the end", benchmark.memory(), "MB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only-cancel", action="store_true", help="measure only cancels")
    parser.add_argument("--provider", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--relay", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.provider:
        asyncio.run(Provider().serve(arguments.provider))
    elif arguments.relay:
        relay(int(arguments.relay[0]), arguments.relay[1])
    else:
        compare(arguments.rounds, only_cancel=arguments.only_cancel)


def compare(rounds: int, *, only_cancel: bool) -> None:
    port = free_port()
    provider = subprocess.Popen([sys.executable, __file__, "--provider", str(port)])
    try:
        with tempfile.TemporaryDirectory(prefix="hf-bench-") as directory:
            os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed program is compiled once
            os.environ["PYTHONPYCACHEPREFIX"] = f"{directory}/bytecode"
            asyncio.run(_compare(port, Path(directory), rounds, only_cancel=only_cancel))
    finally:
        provider.terminate()
        provider.wait()


async def _compare(port: int, directory: Path, rounds: int, *, only_cancel: bool) -> None:
    if not only_cancel:
        await _start_both(port, directory, rounds)
    subjects: list[Subject] = [Relay(port), Ours(port, directory / "measured")]
    try:
        await (measure_cancels if only_cancel else measure)(subjects, port, rounds)
    finally:
        for subject in subjects:
            stop(subject)


async def _start_both(port: int, directory: Path, rounds: int) -> None:
    homes = iter(range(1000))
    found: dict[str, list[tuple[float, float, float]]] = {"relay": [], "ours": []}
    for number in range(rounds + 1):
        for make in (lambda: Relay(port), lambda: Ours(port, directory / str(next(homes)))):
            began = time.monotonic()
            subject: Subject = make()
            await wait_until_healthy(subject)
            took, pid = time.monotonic() - began, subject.process.pid
            if number:  # the first start compiles the modules
                found[subject.name].append((took * 1e3, cpu_seconds(pid) * 1e3, resident_megabytes(pid)))
            stop(subject)
    wall, cpu, memory = (
        (statistics.median(relay), statistics.median(ours))
        for relay, ours in zip(zip(*found["relay"], strict=True), zip(*found["ours"], strict=True), strict=True)
    )
    compare_figures("start to first health answer", wall, "ms", most_ratio=0.65)
    compare_figures("start to first health answer, CPU", cpu, "ms")
    compare_figures("memory, idle", memory, "MB")


if __name__ == "__main__":
    main()
