"""What a model's stream costs beside a bare HTTP loop, what a wire costs to import, how fast a cancel is.

The provider runs in a process of its own, so that only the reader's CPU counts. *Bare* is the least program that gets
the same text out of the same bytes with the same HTTP library: its lines, the ``data:`` ones decoded as JSON.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from multiprocessing.connection import Connection
from typing import Any

import httpx2

from holdfast.config.settings import NetworkSettings
from holdfast.models.http_model import HttpModel
from holdfast.models.http_transport import HttpTransport
from holdfast.models.model_factory import load_wire
from holdfast.models.protocol import ModelInfo, ModelRequest, TextDelta
from holdfast.models.stall_timeout import StallLimits
from holdfast.schema.messages import Message, Text
from holdfast.testing import Answer, Hang, Say, TestProvider
from holdfast.testing.provider_script import WireName
from holdfast.testing.provider_wires import events

BURST = 20_000
PACED = 1_500
ROUNDS = 5
WIRES: tuple[WireName, ...] = ("openai-chat", "openai-responses", "anthropic", "gemini")
ASK = ModelRequest(messages=(Message("msg_1", "ses_1", "run_1", "user", 1, "", (Text("go"),)),))
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


def serve(port: Connection) -> None:
    """Answers each request with the stream its path asks for: ``/burst/WIRE/…`` or ``/paced/WIRE/…``."""
    bodies = {
        (kind, wire): [
            bytes(event)
            for event in events(wire, Answer((Say(deltas=(" word",) * count),)), model="m")
            if isinstance(event, bytes)
        ]
        for kind, count in (("burst", BURST), ("paced", PACED))
        for wire in WIRES
    }
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port.send(listening.getsockname()[1])
        while True:
            connection, _ = listening.accept()
            with connection:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                _exchange(connection, bodies)


def _exchange(connection: socket.socket, bodies: dict[tuple[str, WireName], list[bytes]]) -> None:
    request = b""
    while b"\r\n\r\n" not in request:
        request += connection.recv(65536)
    head, _, body = request.partition(b"\r\n\r\n")
    left = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0]) - len(body)
    while left > 0:
        left -= len(connection.recv(65536))
    _, kind, wire, *_ = request.split(b" ")[1].decode().split("/")
    found = bodies[kind, wire]  # type: ignore[index]
    connection.sendall(HEAD)
    if kind == "burst":
        connection.sendall(b"".join(b"%x\r\n%b\r\n" % (len(event), event) for event in found))
    else:
        for event in found:
            connection.sendall(b"%x\r\n%b\r\n" % (len(event), event))
            time.sleep(0.001)
    connection.sendall(b"0\r\n\r\n")


async def bare(url: str, path: str, pick: Callable[[Any], str]) -> int:
    """The least that gets the text out."""
    found = 0
    async with httpx2.AsyncClient(timeout=60) as client, client.stream("POST", url + path, json={}) as response:
        async for line in response.aiter_lines():
            if line.startswith("data: ") and line != "data: [DONE]" and pick(json.loads(line[6:])):
                found += 1
    return found


def _model(wire: WireName, url: str, transport: HttpTransport) -> HttpModel:
    limits = StallLimits(first_token=120, between_tokens=90)
    return HttpModel(ModelInfo("bench/m"), wire=load_wire(wire), base_url=url, transport=transport, limits=limits)


async def ours(url: str, wire: WireName) -> int:
    transport = HttpTransport(network=NetworkSettings())
    model = _model(wire, url, transport)
    found = 0
    async for delta in model.stream(ASK):
        if type(delta) is TextDelta:
            found += 1
    await transport.aclose()
    return found


PICKS: dict[WireName, Callable[[Any], str]] = {
    "openai-chat": lambda data: data["choices"][0]["delta"].get("content") if data["choices"] else "",
    "openai-responses": lambda data: data["delta"] if data["type"] == "response.output_text.delta" else "",
    "anthropic": lambda data: data["delta"].get("text", "") if data["type"] == "content_block_delta" else "",
    "gemini": lambda data: (
        data["candidates"][0]["content"]["parts"][0]["text"] if "content" in data["candidates"][0] else ""
    ),
}


async def cpu_per_delta(read: Callable[[], Awaitable[int]], count: int) -> float:
    """Microseconds of this process's CPU."""
    began = time.process_time()
    found = await read()
    assert found == count, f"read {found} of {count} deltas"
    return (time.process_time() - began) / count * 1e6


async def compare(port: int, kind: str, wire: WireName, count: int, rounds: int) -> None:
    """Both readers in turns; the median of each, and of their ratios."""
    url = f"http://127.0.0.1:{port}/{kind}/{wire}"
    path = "/x"
    pairs = []
    await cpu_per_delta(lambda: ours(url, wire), count)
    for _ in range(rounds):
        plain = await cpu_per_delta(lambda: bare(url, path, PICKS[wire]), count)
        full = await cpu_per_delta(lambda: ours(url, wire), count)
        pairs.append((plain, full))
    plain, full = (statistics.median(values) for values in zip(*pairs, strict=True))
    ratio = statistics.median(full / plain for plain, full in pairs)
    print(f"  {kind}  {wire:18} bare {plain:7.1f} µs   ours {full:7.1f} µs   ratio {ratio:.2f}")


async def cancel_latency() -> None:
    """From the cancel of the reading task until the server saw the connection close; both in this process."""
    for wire in WIRES:
        found = []
        async with TestProvider() as provider:
            transport = HttpTransport(network=NetworkSettings())
            model = _model(wire, provider.url(wire), transport)
            for number in range(20):
                provider.script(Answer((Say("hello"), Hang())))
                task = asyncio.create_task(_read_until_cancelled(model, started := asyncio.Event()))
                await started.wait()
                began = time.perf_counter()
                task.cancel()
                await provider.wait_for_disconnect(number)
                found.append((time.perf_counter() - began) * 1000)
                await asyncio.gather(task, return_exceptions=True)
            await transport.aclose()
        print(f"  cancel  {wire:18} median {statistics.median(found):6.2f} ms   worst {max(found):6.2f} ms   (aim 50)")


async def _read_until_cancelled(model: HttpModel, started: asyncio.Event) -> None:
    async for delta in model.stream(ASK):
        if isinstance(delta, TextDelta):
            started.set()


def import_times() -> None:
    """In fresh interpreters, the least of several; what the interpreter itself needs is taken off."""

    def least(code: str) -> float:
        times = []
        for _ in range(5):
            began = time.perf_counter()
            subprocess.run([sys.executable, "-c", code], check=True)
            times.append(time.perf_counter() - began)
        return min(times) * 1000

    nothing = least("pass")
    protocol = least("import holdfast.models.protocol") - nothing
    print(f"  import  the protocol alone                    {protocol:6.0f} ms")
    for wire in WIRES:
        alone = least(f"import {type(load_wire(wire)).__module__}") - nothing
        modules = "import httpx2, holdfast.models.http_model; from holdfast.models.model_factory import load_wire"
        with_http = least(f"{modules}; load_wire({wire!r})") - nothing
        print(f"  import  {wire:18} alone {alone:6.0f} ms   with HTTP {with_http:6.0f} ms")


async def measure(port: int) -> None:
    for wire in WIRES:
        await compare(port, "burst", wire, BURST, ROUNDS)
    for wire in WIRES:
        await compare(port, "paced", wire, PACED, 2)
    await cancel_latency()


def main() -> None:
    print("CPU per delta, import times, cancel (aim: ratio at most 2)")
    near, far = multiprocessing.Pipe()
    server = multiprocessing.get_context("spawn").Process(target=serve, args=(far,), daemon=True)
    server.start()
    try:
        asyncio.run(measure(near.recv()))
    finally:
        server.terminate()
        server.join()
    import_times()


if __name__ == "__main__":
    main()
