"""The server over TCP beside a bare relay, in the same run: the cost of durability, lanes and approvals for a client.

`bench/support/relay_bench.py` says what the two programs are. The client is in this process.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from support.figures import show
from support.process_stats import cpu_seconds, resident_megabytes
from support.relay_bench import (
    KINDS,
    Connection,
    EventReader,
    Ours,
    Provider,
    Relay,
    Subject,
    compare_figures,
    provider_and_directory,
    reading_events,
    relay,
    stop,
    wait_until_healthy,
)


class ServerBenchmark:
    """The measurements of one subject, and their medians over rounds that alternate between both."""

    def __init__(self, subjects: Sequence[Subject], provider: int) -> None:
        self._subjects = subjects
        self._provider = provider
        self._number = 0

    def memory(self) -> tuple[float, float]:
        relay_memory, our_memory = (resident_megabytes(subject.process.pid) for subject in self._subjects)
        return relay_memory, our_memory

    def new_id(self) -> str:
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

    async def run_sessions(self, subject: Subject, count: int) -> None:
        """Short runs one after another, each in a session of its own."""
        connection = Connection(subject.port)
        async with reading_events(subject) as reader:
            for _ in range(count):
                run_id = self.new_id()
                await subject.start(connection, "quick", run_id)
                await reader.wait_for_ends([run_id])
        connection.close()

    async def accept(self, subject: Subject) -> dict[str, float]:
        """Milliseconds until the 202, and until the provider receives the request."""
        accepted, dispatched = [], []
        connection = Connection(subject.port)
        async with reading_events(subject) as reader:
            for _ in range(40):
                run_id = self.new_id()
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
        connection, run_id = Connection(subject.port), self.new_id()
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
                run_id = self.new_id()
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

    async def at_once(self, subject: Subject, count: int) -> tuple[float, float]:
        """Seconds until this many runs that start together have ended, and the p99 of the accepts in milliseconds."""
        connections = [Connection(subject.port) for _ in range(count)]
        run_ids = [self.new_id() for _ in range(count)]
        async with reading_events(subject) as reader:
            began = time.monotonic()
            starting = (self._accept_one(subject, *one) for one in zip(connections, run_ids, strict=True))
            accepted = sorted(await asyncio.gather(*starting))
            await reader.wait_for_ends(run_ids)
            took = time.monotonic() - began
        for connection in connections:
            connection.close()
        return took, accepted[int(count * 0.99)]

    async def _accept_one(self, subject: Subject, connection: Connection, run_id: str) -> float:
        began = time.monotonic()
        await subject.start(connection, "slow", run_id)
        return (time.monotonic() - began) * 1e3


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
        await benchmark.run_sessions(subject, 1)
    compare_figures("memory, after 1 session", benchmark.memory(), "MB", most=38)
    for subject in subjects:
        await benchmark.run_sessions(subject, 49)
    compare_figures("memory, after 50 sessions", benchmark.memory(), "MB", most=40)
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
        compare_figures(f"{count} sessions at once", (values[0][0], values[1][0]), "s")
    stretch = took[100][0][0] / took[1][0][0], took[100][1][0] / took[1][1][0]
    compare_figures("stretch of 100 sessions", stretch, "times", most=1.5)
    compare_figures("accept p99 of 100 sessions at once", (took[100][0][1], took[100][1][1]), "ms", most=100)
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
    with provider_and_directory() as (port, directory):
        asyncio.run(_compare(port, directory, rounds, only_cancel=only_cancel))


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
    """Start both in turn, warm: their modules are compiled, and the database exists."""
    subjects: list[Subject] = [Relay(port), Ours(port, directory / "started")]
    found: dict[str, list[tuple[float, ...]]] = {"relay": [], "ours": []}
    for number in range(rounds + 1):
        for subject in subjects:
            began = time.monotonic()
            if number:
                subject.launch()
            await wait_until_healthy(subject)
            took, pid = time.monotonic() - began, subject.process.pid
            healthy = (took * 1e3, cpu_seconds(pid) * 1e3, resident_megabytes(pid))
            await subject.prepare()
            connection = Connection(subject.port)
            await subject.start(connection, "quick", f"run_first_{number}")
            accepted = ((time.monotonic() - began) * 1e3, cpu_seconds(pid) * 1e3)
            connection.close()
            if number:
                found[subject.name].append((*healthy, *accepted))
            stop(subject)
    wall, cpu, memory, accepted_wall, accepted_cpu = (
        (statistics.median(relay), statistics.median(ours))
        for relay, ours in zip(zip(*found["relay"], strict=True), zip(*found["ours"], strict=True), strict=True)
    )
    compare_figures("start to first health answer", wall, "ms")
    compare_figures("start to first health answer, CPU", cpu, "ms")
    compare_figures("start to first 202", accepted_wall, "ms", most_ratio=0.65)
    compare_figures("start to first 202, CPU", accepted_cpu, "ms")
    compare_figures("memory, idle", memory, "MB")


if __name__ == "__main__":
    main()
