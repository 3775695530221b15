"""The programs that bench/server.py and bench/short_turn.py measure: the server, a bare relay, and their provider.

*Relay* is the least program with the same visible behaviour: starlette, uvicorn and httpx2, without store and agent. A
POST starts a request to the provider, an event stream sends its text, a DELETE stops it. *Ours* is `serve` as users run
it, from an installed package (`bench/support/installed_package.py`). Each runs in a process of its own. All use one
monotonic clock.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

from support.figures import show
from support.installed_package import install_package

PROGRAM = str(Path(__file__).parents[1] / "server.py")
"""It runs the relay and the provider too, when it is asked to."""
TOKEN = "a-token-for-the-bench"
KINDS = {
    "quick": (1, 0.0),
    "tokens": (10, 0.0),
    "paced": (300, 0.005),
    "burst": (20_000, 0.0),
    "slow": (40, 0.02),
    "steady": (300, 0.01),
    "hang": (1, 0.0),
    "shell": (0, 0.0),
    "large": (12_500, 0.0),
}
"""By path: the number of deltas, and the seconds between two of them."""
_LARGE_DELTA = "word " * 800
_COMMAND = {"command": "true", "description": "do nothing"}

SERVER_COMMAND = (sys.executable, "-P", "-m", "holdfast", "serve")
"""As every command starts the server."""


class Provider:
    """Answers OpenAI Chat Completions. Each delta is the time at which it was sent.

    ``hang`` never ends. ``shell`` first calls a command; its text then is when the call was sent and when the next
    request arrived. ``large`` sends 50 MB of words.
    """

    def __init__(self) -> None:
        self.disconnects: asyncio.Queue[int] = asyncio.Queue()
        self._called_at = 0

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
                body = await reader.readexactly(int(length))
                kind = head.split(" ")[1].split("/")[1]
                if kind == "disconnect":
                    answer = b"%d" % await self.disconnects.get()
                    writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(answer), answer))
                elif kind == "shell":
                    await self._answer_with_call(json.loads(body), seen, writer)
                else:
                    await self._answer(kind, seen, reader, writer)
        writer.close()

    async def _answer(self, kind: str, seen: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        count, pace = KINDS[kind]
        writer.write(_STREAM)
        for number in range(count):
            if kind == "large":
                writer.write(_chunk(_LARGE_DELTA))
            else:
                writer.write(_chunk(f"{seen if kind in ('quick', 'tokens') else time.monotonic_ns()} "))
            if pace:
                await writer.drain()
                await asyncio.sleep(pace)
            elif number % 64 == 63:
                await writer.drain()
        if kind == "hang":
            await reader.read(1)
            self.disconnects.put_nowait(time.monotonic_ns())
            raise ConnectionResetError
        writer.write(_chunk(None) + _END)
        await writer.drain()

    async def _answer_with_call(self, request: Any, seen: int, writer: asyncio.StreamWriter) -> None:
        if request["messages"][-1]["role"] == "tool":
            writer.write(_STREAM + _chunk(f"{self._called_at} {seen} ") + _chunk(None) + _END)
        else:
            function = {"name": "bash", "arguments": json.dumps(_COMMAND)}
            call = {"index": 0, "id": f"call_{seen}", "type": "function", "function": function}
            choices = [{"index": 0, "delta": {"tool_calls": [call]}, "finish_reason": None}]
            choices.append({"index": 0, "delta": {}, "finish_reason": "tool_calls"})
            writer.write(_STREAM + b"".join(map(_choice, choices)) + _END)
            self._called_at = time.monotonic_ns()
        await writer.drain()


def _chunk(text: str | None) -> bytes:
    choice = {"index": 0, "delta": {"content": text} if text else {}, "finish_reason": None if text else "stop"}
    return _choice(choice)


def _choice(choice: dict[str, Any]) -> bytes:
    return _frame(b"data: %b\n\n" % json.dumps({"id": "x", "model": "m", "choices": [choice]}).encode())


def _frame(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


_STREAM = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
_END = _frame(b"data: [DONE]\n\n") + b"0\r\n\r\n"


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

    def launch(self) -> None: ...

    async def prepare(self) -> None: ...

    async def start(self, connection: Connection, kind: str, run_id: str) -> Any: ...

    async def cancel(self, connection: Connection, run_id: str) -> Any: ...


class Relay:
    name = "relay"
    events = "/events"

    def __init__(self, provider: int) -> None:
        self.port = free_port()
        self._command = [sys.executable, PROGRAM, "--relay", str(self.port), f"http://127.0.0.1:{provider}"]
        self.launch()

    def launch(self) -> None:
        """Start it, also again after a stop."""
        self.process = subprocess.Popen(self._command)

    async def prepare(self) -> None:
        pass

    async def start(self, connection: Connection, kind: str, run_id: str) -> Any:
        return await connection.send("POST", "/runs", {"id": run_id, "kind": kind})

    async def cancel(self, connection: Connection, run_id: str) -> Any:
        return await connection.send("DELETE", f"/runs/{run_id}")


class Ours:
    name = "ours"
    events = "/v1/events"

    def __init__(
        self,
        provider: int,
        home: Path,
        *,
        settings: str = "",
        work: Path | None = None,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        self.port = free_port()
        self.database = home / "home" / "data" / "holdfast.db"
        self._work = work or home / "work"
        self._work.mkdir(parents=True, exist_ok=True)
        config = home / "home" / "config"
        config.mkdir(parents=True)
        (config / "config.toml").write_text(
            settings
            + "".join(
                f'[providers.{kind}]\nwire = "openai-chat"\nbase_url = "http://127.0.0.1:{provider}/{kind}/v1"\n'
                f"[providers.{kind}.models.m]\ncontext_window = 1000000\n"
                for kind in KINDS
            )
        )
        env = {
            **{name: value for name, value in os.environ.items() if not name.endswith("_API_KEY")},
            "HOLDFAST_HOME": str(home / "home"),
            "HOLDFAST_TOKEN": TOKEN,
            **(variables or {}),
        }
        self._env = env
        self._workspace = ""
        self.launch()

    def launch(self) -> None:
        """Start it, also again after a stop."""
        self.process = subprocess.Popen(
            [*SERVER_COMMAND, "--listen", f"127.0.0.1:{self.port}"], env=self._env, stdout=subprocess.DEVNULL
        )

    async def prepare(self) -> None:
        connection = Connection(self.port)
        self._workspace = (await connection.send("POST", "/v1/workspaces", {"path": str(self._work)}))["id"]
        connection.close()

    async def start(self, connection: Connection, kind: str, run_id: str) -> Any:
        body = {"prompt": "go", "run_id": run_id, "model": f"{kind}/m", "title": "bench", "mode": "auto"}
        return await connection.send("POST", f"/v1/workspaces/{self._workspace}/runs", body)

    async def start_in(self, session_id: str, connection: Connection, kind: str, run_id: str) -> Any:
        body = {"prompt": "go", "run_id": run_id, "model": f"{kind}/m", "mode": "auto"}
        return await connection.send("POST", f"/v1/sessions/{session_id}/runs", body)

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


def compare_figures(
    name: str,
    found: tuple[float, float],
    unit: str,
    *,
    most: float | None = None,
    most_ratio: float | None = None,
    most_above: float | None = None,
) -> None:
    """A figure of ours beside that of the relay."""
    base, value = found
    show(
        name,
        value,
        unit,
        base=base,
        base_name="relay",
        most=most,
        most_ratio=most_ratio,
        most_above=most_above,
    )


def stop(subject: Subject) -> None:
    subject.process.terminate()
    subject.process.wait()


@contextmanager
def provider_and_directory() -> Iterator[tuple[int, Path]]:
    """Run the provider. Yields its port, and a directory for homes."""
    port = free_port()
    provider = subprocess.Popen([sys.executable, PROGRAM, "--provider", str(port)])
    try:
        with tempfile.TemporaryDirectory(prefix="hf-bench-") as directory:
            os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed program is compiled once
            os.environ["PYTHONPYCACHEPREFIX"] = f"{directory}/bytecode"
            os.environ["PYTHONPATH"] = install_package(Path(directory))
            yield port, Path(directory)
    finally:
        provider.terminate()
        provider.wait()
