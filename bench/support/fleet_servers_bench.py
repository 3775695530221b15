"""Two servers on one PostgreSQL database beside one with a SQLite file: accept, dispatch, live text, many readers."""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from server import ServerBenchmark

from support.figures import show
from support.process_stats import cpu_seconds
from support.relay_bench import (
    KINDS,
    TOKEN,
    Connection,
    Ours,
    provider_and_directory,
    reading_events,
    stop,
    wait_until_healthy,
)

READERS = 100
_ROUNDS = 2
_PROMPTS = 30
_FLEET = '[fleet]\nhost = "bench"\nlease = "30s"\n'


async def bench_http(address: str) -> None:
    with provider_and_directory() as (provider, directory), tempfile.TemporaryDirectory(prefix="hf-bench-") as work:
        variables = {"HOLDFAST_STORE": address, "HOLDFAST_FLEET_TOKEN": TOKEN}
        alone = Ours(provider, directory / "sqlite")
        servers = [alone]
        try:
            for name in ("owner", "other"):
                server = Ours(provider, directory / name, settings=_FLEET, work=Path(work), variables=variables)
                servers.append(server)
                await wait_until_healthy(server)
            await wait_until_healthy(alone)
            for server in servers:
                await server.prepare()  # the first that opens the directory owns it
            await _measure(servers, provider)
        finally:
            for server in servers:
                stop(server)


async def _measure(servers: list[Ours], provider: int) -> None:
    alone, owner, other = servers
    benchmark = ServerBenchmark(servers, provider)
    ways = {"SQLite": (alone, alone), "PostgreSQL": (owner, owner), "via another server": (other, owner)}
    times: dict[str, list[dict[str, float]]] = {name: [] for name in ways}
    for turn in range(_ROUNDS + 1):
        for name, (sent_to, owned_by) in ways.items():
            found = await _accept(sent_to, owned_by, benchmark)
            if turn:  # the first round warms up
                times[name].append(found)
    for what, most in {"accept": 10.0, "dispatch": 20.0}.items():
        base = statistics.median(one[what] for one in times["SQLite"])
        for name, found_times in times.items():
            value = statistics.median(one[what] for one in found_times)
            given = {} if name == "SQLite" else {"base": base, "base_name": "SQLite", "most": most}
            show(f"{what} over HTTP, {name}", value, "ms", **given)  # type: ignore[arg-type]
    await _show_delays(alone, owner, other, benchmark)
    await _show_readers(alone, owner, other, benchmark)


async def _accept(sent_to: Ours, owned_by: Ours, benchmark: ServerBenchmark) -> dict[str, float]:
    """Milliseconds until the 202, and until the provider receives the request."""
    accepted, dispatched = [], []
    connection = Connection(sent_to.port)
    async with reading_events(owned_by) as reader:
        for _ in range(_PROMPTS):
            run_id = benchmark.new_id()
            began = time.monotonic_ns()
            await sent_to.start(connection, "quick", run_id)
            accepted.append((time.monotonic_ns() - began) / 1e6)
            await reader.wait_for_ends([run_id])
            if reader.stamps and reader.stamps[-1][0] > began:  # else the text came with its message only
                dispatched.append((reader.stamps[-1][0] - began) / 1e6)
    connection.close()
    return {"accept": statistics.median(accepted), "dispatch": statistics.median(dispatched)}


async def _show_delays(alone: Ours, owner: Ours, other: Ours, benchmark: ServerBenchmark) -> None:
    near, far, base = [], [], []
    for _ in range(_ROUNDS):
        base += (await _delays([alone], alone, benchmark))[0]
        first, second = await _delays([owner, other], owner, benchmark)
        near += first
        far += second
    reference = statistics.median(base)
    show("live text to a reader, SQLite", reference, "ms")
    show("live text to a reader at the owner", statistics.median(near), "ms", base=reference, base_name="SQLite")
    show(
        "live text to a reader at another server",
        statistics.median(far),
        "ms",
        base=statistics.median(near),
        base_name="owner",
        most_above=5.0,
    )
    show("live text to a reader at another server, p99", sorted(far)[int(len(far) * 0.99)], "ms")


async def _delays(readers: list[Ours], runs_at: Ours, benchmark: ServerBenchmark) -> list[list[float]]:
    """Milliseconds from the provider to each reader, of all deltas of one run."""
    async with reading_events(readers[0]) as first, reading_events(readers[-1]) as last:
        connection, run_id = Connection(runs_at.port), benchmark.new_id()
        await runs_at.start(connection, "paced", run_id)
        for reader in (first, last):
            await reader.wait_for_ends([run_id])
        connection.close()
        return [[(got - sent) / 1e6 for sent, got in reader.stamps] for reader in (first, last)]


async def _show_readers(alone: Ours, owner: Ours, other: Ours, benchmark: ServerBenchmark) -> None:
    """CPU of all servers for each delta and reader, above that of a run without readers."""
    cases = (("SQLite", alone, alone), ("at the owner", owner, owner), ("at another server", owner, other))
    base = 0.0
    for name, runs_at, read_at in cases:
        without = await _cpu_of_run(runs_at, read_at, benchmark)
        async with _many_readers(read_at.port):
            used = await _cpu_of_run(runs_at, read_at, benchmark)
        each = max(used - without, 0.0) * 1e6 / (KINDS["paced"][0] * READERS)
        given = {} if runs_at is alone else {"base": base, "base_name": "SQLite", "most": 100.0}
        show(f"one delta to one of {READERS} readers, {name}", each, "µs", **given)  # type: ignore[arg-type]
        base = base or each


async def _cpu_of_run(runs_at: Ours, read_at: Ours, benchmark: ServerBenchmark) -> float:
    processes = {runs_at.process.pid, read_at.process.pid}
    before = sum(map(cpu_seconds, processes))
    await _delays([read_at], runs_at, benchmark)
    return sum(map(cpu_seconds, processes)) - before


@asynccontextmanager
async def _many_readers(port: int) -> AsyncIterator[None]:
    """Streams whose bytes are thrown away."""
    ready = asyncio.Semaphore(0)
    tasks = [asyncio.create_task(_drain(port, ready)) for _ in range(READERS)]
    for _ in tasks:
        await ready.acquire()
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _drain(port: int, ready: asyncio.Semaphore) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET /v1/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n\r\n".encode())
    await reader.readuntil(b"\r\n\r\n")
    ready.release()
    with suppress(ConnectionError):
        try:
            while await reader.read(1 << 16):
                pass
        finally:
            writer.close()
