"""Cost of a model's stream beside a bare HTTP loop, import time of the wires, latency of a cancel.

The provider runs in a process of its own, so that only the CPU of the reader counts. *Bare* is the least program that
gets the same text out of the same bytes with the same HTTP library: it decodes the ``data:`` lines as JSON.
"""

from __future__ import annotations

import asyncio
import functools
import json
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import aclosing

import httpx2
from support.figures import show
from support.stream_provider import HEADERS, TEXT_OF_EVENT, encode_events, provider_process, read_request

from holdfast.config.settings import NetworkSettings
from holdfast.models.http_model import HttpModel
from holdfast.models.http_transport import HttpTransport
from holdfast.models.model_factory import load_wire
from holdfast.models.protocol import ModelInfo, ModelRequest, TextDelta
from holdfast.models.stall_timeout import StallLimits
from holdfast.schema.messages import Message, Text
from holdfast.testing import WIRES, Answer, Hang, Say, TestProvider, WireName

DELTAS = {"burst": 20_000, "paced": 1_500}
ROUNDS = 5
_WORD = " word"
REQUEST = ModelRequest(messages=(Message("msg_1", "ses_1", "run_1", "user", 1, "", (Text("go"),)),))


@functools.cache
def answer_chunks(kind: str, wire: WireName) -> list[bytes]:
    return encode_events(wire, Answer((Say(deltas=(_WORD,) * DELTAS[kind]),)))


def answer(connection: socket.socket) -> None:
    """Send the stream that the path names: ``/burst/WIRE/…`` or ``/paced/WIRE/…``."""
    kind, wire, _ = read_request(connection)
    chunks = answer_chunks(kind, wire)
    connection.sendall(HEADERS)
    if kind == "burst":
        connection.sendall(b"".join(chunks))
    else:
        for chunk in chunks:
            connection.sendall(chunk)
            time.sleep(0.001)
    connection.sendall(b"0\r\n\r\n")


async def read_bare(url: str, wire: WireName) -> int:
    """Count the deltas with the least code."""
    text_of = TEXT_OF_EVENT[wire]
    found = 0
    async with httpx2.AsyncClient(timeout=60) as client, client.stream("POST", f"{url}/x", json={}) as response:
        async for line in response.aiter_lines():
            if line.startswith("data: ") and line != "data: [DONE]" and text_of(json.loads(line[6:])):
                found += 1
    return found


async def read_ours(url: str, wire: WireName) -> int:
    """Count the deltas that our model has read. Texts that arrived together are one."""
    transport = HttpTransport(network=NetworkSettings())
    found = 0
    async for delta in new_model(wire, url, transport).stream(REQUEST):
        if type(delta) is TextDelta:
            found += delta.text.count(_WORD)
    await transport.aclose()
    return found


def new_model(wire: WireName, url: str, transport: HttpTransport) -> HttpModel:
    limits = StallLimits(first_token=120, between_tokens=90)
    return HttpModel(ModelInfo("bench/m"), wire=load_wire(wire), base_url=url, transport=transport, limits=limits)


async def cpu_per_delta(read: Callable[[], Awaitable[int]], count: int) -> float:
    """Microseconds of CPU of this process."""
    began = time.process_time()
    found = await read()
    assert found == count, f"read {found} of {count} deltas"
    return (time.process_time() - began) / count * 1e6


async def compare(port: int, kind: str, wire: WireName, rounds: int) -> None:
    """Print the medians of both readers and of their ratios. Their rounds alternate."""
    url = f"http://127.0.0.1:{port}/{kind}/{wire}"
    count = DELTAS[kind]
    pairs = []
    await cpu_per_delta(lambda: read_ours(url, wire), count)
    for _ in range(rounds):
        bare = await cpu_per_delta(lambda: read_bare(url, wire), count)
        ours = await cpu_per_delta(lambda: read_ours(url, wire), count)
        pairs.append((bare, ours))
    bare, ours = (statistics.median(values) for values in zip(*pairs, strict=True))
    show(f"CPU per delta, {kind}, {wire}", ours, "µs", base=bare, most_ratio=2)


async def cancel_latency() -> None:
    """The time from the cancel of the reading task until the server sees the connection close."""
    for wire in WIRES:
        latencies = []
        async with TestProvider() as provider:
            transport = HttpTransport(network=NetworkSettings())
            model = new_model(wire, provider.url(wire), transport)
            for number in range(20):
                provider.script(Answer((Say("hello"), Hang())))
                task = asyncio.create_task(_read(model, started := asyncio.Event()))
                await started.wait()
                began = time.perf_counter()
                task.cancel()
                await provider.wait_for_disconnect(number)
                latencies.append((time.perf_counter() - began) * 1000)
                await asyncio.gather(task, return_exceptions=True)
            await transport.aclose()
        show(f"cancel until the provider sees it, {wire}", statistics.median(latencies), "ms", most=50)


async def _read(model: HttpModel, started: asyncio.Event) -> None:
    async with aclosing(model.stream(REQUEST)) as deltas:
        async for delta in deltas:
            if isinstance(delta, TextDelta):
                started.set()


def import_times() -> None:
    """The least of several fresh interpreters, without the time of the interpreter itself."""

    def run(code: str) -> float:
        times = []
        for _ in range(5):
            began = time.perf_counter()
            subprocess.run([sys.executable, "-c", code], check=True)
            times.append(time.perf_counter() - began)
        return min(times) * 1000

    interpreter = run("pass")
    protocol = run("import holdfast.models.protocol") - interpreter
    show("import of the protocol", protocol, "ms")
    for wire in WIRES:
        alone = run(f"import {type(load_wire(wire)).__module__}") - interpreter
        modules = "import httpx2, holdfast.models.http_model; from holdfast.models.model_factory import load_wire"
        with_http = run(f"{modules}; load_wire({wire!r})") - interpreter
        show(f"import of {wire}", alone, "ms")
        show(f"import of {wire} with HTTP", with_http, "ms")


async def measure(port: int) -> None:
    for wire in WIRES:
        await compare(port, "burst", wire, ROUNDS)
    for wire in WIRES:
        await compare(port, "paced", wire, 2)
    await cancel_latency()


def main() -> None:
    print("CPU per delta, import times, cancel")
    with provider_process(answer) as port:
        asyncio.run(measure(port))
    import_times()


if __name__ == "__main__":
    main()
