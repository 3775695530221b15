"""Short turns as a user meets them: ten tokens, one command, a long conversation; and what they leave behind.

Ours is measured beside the bare relay of `bench/support/relay_bench.py` where that can do the same. CPU is that of the
server process, and, for commands, of the processes below it.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
import uuid
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from support.figures import show
from support.process_stats import cpu_seconds, resident_megabytes, tree_cpu_seconds
from support.relay_bench import (
    Connection,
    EventReader,
    Ours,
    Relay,
    Subject,
    compare_figures,
    provider_and_directory,
    reading_events,
    stop,
    wait_until_healthy,
)

TURNS = 60
STEPS = 20
SHOWN = 150
CONVERSATIONS = (10, 400)
"""Earlier turns of the two sessions whose dispatch is compared."""
UNCONFINED = '[server]\nsandbox = "off"\n'

Start = Callable[[Connection, str], Awaitable[Any]]


class Turns:
    """Runs turns one after another on one connection, and records the milliseconds of each."""

    def __init__(self, subject: Subject, reader: EventReader) -> None:
        self._subject = subject
        self._reader = reader
        self._connection = Connection(subject.port)
        self.whole: list[float] = []
        self.dispatched: list[float] = []

    async def run(self, kind: str) -> Any:
        """One turn in a session of its own. Returns the answer of the POST."""
        return await self._run(lambda connection, run_id: self._subject.start(connection, kind, run_id))

    async def run_in(self, server: Ours, session_id: str, kind: str) -> None:
        await self._run(lambda connection, run_id: server.start_in(session_id, connection, kind, run_id))

    async def _run(self, start: Start) -> Any:
        run_id = f"run_{uuid.uuid4().hex}"
        before, began = len(self._reader.stamps), time.monotonic_ns()
        answer = await start(self._connection, run_id)
        await self._reader.wait_for_ends([run_id])
        self.whole.append((time.monotonic_ns() - began) / 1e6)
        self.dispatched.append((self._reader.stamps[before][0] - began) / 1e6)
        return answer

    def close(self) -> None:
        self._connection.close()


async def ten_tokens(subject: Subject) -> tuple[float, float]:
    """The milliseconds of a turn, wall and CPU."""
    async with reading_events(subject) as reader:
        turns = Turns(subject, reader)
        before = cpu_seconds(subject.process.pid)
        for _ in range(TURNS):
            await turns.run("tokens")
        turns.close()
        return statistics.median(turns.whole), (cpu_seconds(subject.process.pid) - before) * 1e3 / TURNS


async def shell_steps(subject: Ours) -> tuple[float, float]:
    """The milliseconds from the call until the request with its result; the CPU that a turn with a step adds."""
    pid = subject.process.pid
    async with reading_events(subject) as reader:
        turns = Turns(subject, reader)
        before = tree_cpu_seconds(pid)
        for _ in range(STEPS):
            await turns.run("quick")
        between = tree_cpu_seconds(pid)
        reader.stamps.clear()
        for _ in range(STEPS):
            await turns.run("shell")
        used = (tree_cpu_seconds(pid) - between) - (between - before)
        turns.close()
        stamps = [stamp for stamp, _ in reader.stamps]
        took = [(after - call) / 1e6 for call, after in zip(stamps[::2], stamps[1::2], strict=True)]
        return statistics.median(took), used * 1e3 / STEPS


async def conversations(subject: Ours) -> list[float]:
    """The milliseconds from the POST to the provider, in sessions with few and with many earlier turns."""
    async with reading_events(subject) as reader:
        sessions = []
        turns = Turns(subject, reader)
        for earlier in CONVERSATIONS:
            session_id = (await turns.run("tokens"))["run"]["session_id"]
            sessions.append(session_id)
            for _ in range(earlier - 1):
                await turns.run_in(subject, session_id, "tokens")
        found: list[list[float]] = [[] for _ in sessions]
        for _ in range(STEPS):
            for index, session_id in enumerate(sessions):
                await turns.run_in(subject, session_id, "quick")
                found[index].append(turns.dispatched[-1])
        turns.close()
        return [statistics.median(times) for times in found]


async def large_answer(subject: Ours) -> tuple[float, float]:
    """The memory before and after an answer of 50 MB."""
    before = resident_megabytes(subject.process.pid)
    connection = Connection(subject.port)
    await subject.start(connection, "large", "run_large")
    ended = await connection.send("GET", "/v1/runs/run_large?wait=120")
    assert ended["state"] == "completed", ended["state"]
    connection.close()
    least = resident_megabytes(subject.process.pid)
    for _ in range(20):  # the server gives memory back when it next looks, every 15 seconds
        await asyncio.sleep(1)
        least = min(least, resident_megabytes(subject.process.pid))
    return before, least


async def prepared(subject: Subject) -> None:
    await wait_until_healthy(subject)
    await subject.prepare()
    async with reading_events(subject) as reader:
        turns = Turns(subject, reader)
        for _ in range(5):
            await turns.run("tokens")
        turns.close()


async def measure(provider: int, directory: Path, rounds: int, parts: frozenset[str]) -> None:
    relay_subject, ours = Relay(provider), Ours(provider, directory / "measured", settings=UNCONFINED)
    try:
        for subject in (relay_subject, ours):
            await prepared(subject)
        if "tokens" in parts:
            await _show_tokens(relay_subject, ours, rounds)
        if "conversations" in parts:
            few, many = await conversations(ours)
            show(
                f"dispatch after {CONVERSATIONS[1]} turns",
                many,
                "ms",
                base=few,
                base_name=f"after {CONVERSATIONS[0]}",
                most_ratio=1.3,
            )
        if "large" in parts:
            before, after = await large_answer(ours)
            show("memory that a 50 MB answer leaves", after - before, "MB", most=20)
    finally:
        stop(relay_subject)
        stop(ours)
    if "shell" in parts:
        await _show_steps(provider, directory, rounds)
    if "database" in parts:
        await _show_database(provider, directory)
    if "crash" in parts:
        await _show_kept(provider, directory, rounds)


async def _show_tokens(relay_subject: Relay, ours: Ours, rounds: int) -> None:
    found = [[await ten_tokens(subject) for subject in (relay_subject, ours)] for _ in range(rounds)]
    for index, name, aim in ((0, "a turn of ten tokens, wall", 9.0), (1, "a turn of ten tokens, CPU", 8.0)):
        values = [statistics.median(one[which][index] for one in found) for which in (0, 1)]
        compare_figures(name, (values[0], values[1]), "ms", most=aim)


async def _show_steps(provider: int, directory: Path, rounds: int) -> None:
    subjects = [
        Ours(provider, directory / "unconfined", settings=UNCONFINED),
        Ours(provider, directory / "confined"),
    ]
    try:
        for subject in subjects:
            await prepared(subject)
            await shell_steps(subject)
        found = [[await shell_steps(subject) for subject in subjects] for _ in range(rounds)]
    finally:
        for subject in subjects:
            stop(subject)
    for index, name, aim in ((0, "wall", 9.0), (1, "CPU", 8.0)):
        plain, confined = (statistics.median(one[which][index] for one in found) for which in (0, 1))
        show(f"a step with a command, unconfined, {name}", plain, "ms", most=aim)
        above = 5.0 if name == "wall" else None
        show(
            f"a step with a command, confined, {name}",
            confined,
            "ms",
            base=plain,
            base_name="unconfined",
            most_above=above,
        )


async def _show_database(provider: int, directory: Path) -> None:
    """The bytes that a short run adds to the database."""
    subject = Ours(provider, directory / "database")
    sizes: list[int] = []
    for count in (20, 200):
        if sizes:
            subject.launch()
        await wait_until_healthy(subject)
        await subject.prepare()
        async with reading_events(subject) as reader:
            turns = Turns(subject, reader)
            for _ in range(count):
                await turns.run("tokens")
            turns.close()
        stop(subject)
        sizes.append(subject.database.stat().st_size)
    show("database per short run", (sizes[1] - sizes[0]) / 200 / 1e3, "kB", most=15)


async def _show_kept(provider: int, directory: Path, rounds: int) -> None:
    """How many of the deltas that a client was shown are in the message after ``kill -9`` of the server."""
    subject, kept = Ours(provider, directory / "killed"), []
    try:
        for number in range(rounds):
            await prepared(subject)
            run_id, connection = f"run_killed_{number}", Connection(subject.port)
            async with reading_events(subject) as reader:
                await subject.start(connection, "steady", run_id)
                await reader.wait_for_deltas(SHOWN)
                subject.process.kill()
                shown = [stamp for stamp, _ in reader.stamps[-SHOWN:]]
            connection.close()
            subject.process.wait()
            subject.launch()
            await wait_until_healthy(subject)
            await subject.prepare()
            connection = Connection(subject.port)
            run = await connection.send("GET", f"/v1/runs/{run_id}?wait=30")
            connection.close()
            assert run["state"] == "interrupted", run["state"]
            kept.append(len(set(shown) & set(map(int, run["text"].split()))))
    finally:
        stop(subject)
    show(f"kept of {SHOWN} shown deltas after kill -9", min(kept), "deltas", least=147)


PARTS = ("tokens", "conversations", "large", "shell", "database", "crash")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    arguments = parser.parse_args()
    with provider_and_directory() as (port, directory):
        asyncio.run(measure(port, directory, arguments.rounds, frozenset(arguments.only)))


if __name__ == "__main__":
    main()
