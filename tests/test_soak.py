"""A soak: a server does the same for long, and needs no more of anything than what it keeps on purpose."""

import asyncio
import gc
import os
import threading
from dataclasses import dataclass, fields
from pathlib import Path

import pytest

from holdfast.testing import Answer, ReceivedRequest, TestProvider, text
from tests.support.running_server import RunningServer, run_server
from tests.support.stress import StressShare

_EVERY = 20
"""Runs between two looks."""
_WARM_UP = 15
"""Looks that are not judged: the list of recent events and other bounded caches fill in the first 300 runs."""


@dataclass(frozen=True, slots=True)
class Look:
    """What the server needs."""

    memory: int
    descriptors: int
    threads: int
    tasks: int
    database: int


MOST_PER_RUN = {"memory": 8_000, "descriptors": 0.02, "threads": 0.02, "tasks": 0.02, "database": 24_000}
"""Bounds of the slopes, for each run. A run in a session of its own is stored with its events, in the database."""


def slope(values: list[float]) -> float:
    """The growth from one value to the next, by least squares."""
    middle, average = (len(values) - 1) / 2, sum(values) / len(values)
    spread = sum((number - middle) ** 2 for number in range(len(values)))
    return sum((number - middle) * (value - average) for number, value in enumerate(values)) / spread


def slopes(looks: list[Look]) -> dict[str, float]:
    """The growth of each need for each run, after the warm-up."""
    judged = looks[_WARM_UP:]
    return {one.name: slope([float(getattr(look, one.name)) for look in judged]) / _EVERY for one in fields(Look)}


def excesses(looks: list[Look]) -> dict[str, float]:
    return {name: growth for name, growth in slopes(looks).items() if growth > MOST_PER_RUN[name]}


def look_at(database: Path) -> Look:
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    files = database.parent.glob(f"{database.name}*")
    return Look(
        memory=pages * os.sysconf("SC_PAGE_SIZE"),
        descriptors=len(os.listdir("/proc/self/fd")),
        threads=threading.active_count(),
        tasks=len(asyncio.all_tasks()),
        database=sum(file.stat().st_size for file in files if not file.name.endswith("-wal")),
    )


async def work(server: RunningServer) -> None:
    """A session, a stream of its events, a run, and everything is left."""
    session_id = await server.session()
    stream = await server.http.open_stream(f"/v1/events?session={session_id}")
    run = (await server.prompt(session_id, "hello"))["run"]
    await stream.until("run.finished")
    assert (await server.ended(run["id"]))["state"] == "completed"
    await stream.close()
    server.provider.requests.clear()
    server.provider.finished.clear()
    server.provider.disconnects.clear()


def answer(received: ReceivedRequest) -> Answer:
    return text("It is done. " * 20)


@pytest.mark.stress(weight=6)
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory and descriptors are looked for in /proc")
async def test_a_server_that_works_for_long_needs_no_more_than_before(home: Path, share: StressShare) -> None:
    looks: list[Look] = []
    async with run_server(home, TestProvider(answer)) as server:
        for number in share.rounds(at_least=_EVERY * (_WARM_UP + 10)):
            await work(server)
            share.count("runs, each in a session with a stream")
            if number % _EVERY == 0:
                looks.append(look_at(home / "home/data/holdfast.db"))
    for name, growth in slopes(looks).items():
        share.note(f"{name} {growth:+.2f} a run")
    assert excesses(looks) == {}, looks


def test_a_leak_is_noticed() -> None:
    steady = [Look(50_000_000 + 1_000 * n, 20, 8, 12, 15_000 * _EVERY * n) for n in range(40)]
    assert excesses(steady) == {}
    leaking = [Look(50_000_000 + 20_000 * _EVERY * n, 20 + n, 8 + n, 12 + n, 50_000 * _EVERY * n) for n in range(40)]
    assert excesses(leaking).keys() == MOST_PER_RUN.keys()


def test_what_is_needed_once_is_no_leak() -> None:
    looks = [Look(50_000_000 * min(n + 1, 5), min(20 + n, 24), 8, 12, 0) for n in range(40)]
    assert excesses(looks) == {}
