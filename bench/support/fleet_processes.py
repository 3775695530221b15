"""Stores in processes of their own on one PostgreSQL database, which commit at the same time."""

from __future__ import annotations

import asyncio
import itertools
import multiprocessing
import statistics
import time
from collections.abc import Callable
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path

import psycopg
from store import prompt

from holdfast.errors import CommitRefused, StoreLocked
from holdfast.store import CommittedEvent, Store, open_store
from holdfast.store.postgres import open_postgres_store
from support.figures import show
from tests.store.batches import new_session, new_workspace
from tests.support.postgres_cluster import PostgresCluster

SESSIONS = 40
_AT_ONCE = 20
_SECONDS = 3.0


async def make_sessions(store: Store, first: int, *, workspace_id: str) -> None:
    await store.commit(new_workspace(workspace_id))
    sessions = (new_session(f"ses_{number}", workspace_id=workspace_id) for number in range(first, first + SESSIONS))
    await asyncio.gather(*(store.commit(session) for session in sessions))


async def accepts(store: Store, first: int, *, at_once: int, each: int) -> list[float]:
    """Commit prompts in so many sessions side by side. Returns how long each took, in seconds."""

    async def one(session: int) -> list[float]:
        times = []
        for _ in range(each):
            batch = prompt(session)
            start = time.perf_counter()
            await store.commit(batch)
            times.append(time.perf_counter() - start)
        return times

    found = await asyncio.gather(*(one(first + n) for n in range(at_once)))
    return [taken for times in found for taken in times]


class _AllLeases:
    """`Fences` of a server of this bench."""

    def __init__(self, server_id: str) -> None:
        self.server_id = server_id

    def fence(self, workspace_id: str) -> int | None:
        return 1

    def lost(self) -> CommitRefused:
        return StoreLocked("the bench lost its lease")


def _run_store(number: int, address: str | None, home: Path, pipe: Connection) -> None:
    """One process. It is told when to begin; it sends the numbers of commits and of events that its listeners got."""
    asyncio.run(_commit_for_a_while(number, address, home, pipe))


async def _commit_for_a_while(number: int, address: str | None, home: Path, pipe: Connection) -> None:
    first = number * SESSIONS
    if address is None:
        store: Store = await open_store(home / "holdfast.db")
    else:
        store = await open_postgres_store(address, home=home, fences=_AllLeases(f"srv_{number}"))
    await make_sessions(store, first, workspace_id=f"wsp_{number}")
    heard = [0]
    store.listen(partial(_count, heard))
    await asyncio.to_thread(pipe.send, "ready")
    await asyncio.to_thread(pipe.recv)
    end, commits = time.monotonic() + _SECONDS, [0]
    numbers = itertools.count(number * 10_000_000 + 1)  # ids are unique among all processes

    async def write(session: int) -> None:
        while time.monotonic() < end:
            await store.commit(prompt(session, numbers))
            commits[0] += 1

    heard[0] = 0
    await asyncio.gather(*(write(first + n) for n in range(_AT_ONCE)))
    pipe.send((commits[0], heard[0]))
    await store.close()


def _count(heard: list[int], events: tuple[CommittedEvent, ...]) -> None:
    heard[0] += len(events)


def _measure(count: int, address: str | None, directory: Path) -> tuple[float, float]:
    """Commits per second of all processes together, and events per second that their listeners got."""
    context = multiprocessing.get_context("spawn")
    pipes, processes = [], []
    for number in range(count):
        home = directory / f"{'sqlite' if address is None else 'postgres'}-{count}-{number}"
        home.mkdir()
        if address is not None:
            _insert_server(address, number)
        near, far = context.Pipe()
        process = context.Process(target=_run_store, args=(number, address, home, far))
        process.start()
        far.close()  # the end of a process that fails is noticed
        pipes.append(near)
        processes.append(process)
    for pipe in pipes:
        assert pipe.recv() == "ready"
    for pipe in pipes:
        pipe.send("go")
    found = [pipe.recv() for pipe in pipes]
    for process in processes:
        process.join()
    return sum(commits for commits, _ in found) / _SECONDS, sum(heard for _, heard in found) / _SECONDS


def _insert_server(address: str, number: int) -> None:
    with psycopg.connect(address) as admin:
        admin.execute(
            "INSERT INTO servers (id, host_id, expires_at) VALUES (%s, %s, now() + interval '1 hour')",
            (f"srv_{number}", f"srv_{number}"),
        )
        admin.execute(
            "INSERT INTO leases (workspace_id, server_id) VALUES (%s, %s)", (f"wsp_{number}", f"srv_{number}")
        )


async def bench_processes(cluster: PostgresCluster, directory: Path, *, rounds: int = 2) -> None:
    found: dict[int, list[tuple[float, float]]] = {}
    for turn in range(rounds):
        for count in (0, 1, 2, 4):
            place = directory / f"round{turn}-{count}"
            place.mkdir()
            address = None if count == 0 else cluster.new_database()
            found.setdefault(count, []).append(await asyncio.to_thread(_measure, count or 1, address, place))
    pick: Callable[[int, int], float] = lambda count, what: statistics.median(one[what] for one in found[count])  # noqa: E731
    for count in (1, 2, 4):
        name = f"{count} server{'s' if count > 1 else ''}"
        base = pick(0, 0)
        show(
            f"commits, {name}, {_AT_ONCE} sessions each",
            pick(count, 0),
            "/s",
            base=base,
            base_name="SQLite",
            more_is_better=True,
        )
        show(
            f"events delivered, {name}", pick(count, 1), "/s", base=pick(0, 1), base_name="SQLite", more_is_better=True
        )
