"""Cost of the store on PostgreSQL beside SQLite, in the same run, on the same disk.

- Accepts: one prompt as the engine commits it (run, user message, lane, two events), durably; alone, and 40 at once.
- Events: how many per second readers of the log get from the table.
- Servers: accepts of 1, 2 and 4 stores on one database, each with sessions of its own, and events that all of them
  deliver to their listeners.

PostgreSQL is one that the tests start, with its durability on. Rounds alternate; medians are compared.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import psycopg
from store import prompt
from support.figures import show

from holdfast.errors import CommitRefused, StoreLocked
from holdfast.store import CommittedEvent, Store, open_store
from holdfast.store.postgres import PostgresStore, open_postgres_store
from tests.store.batches import new_session, new_workspace
from tests.support.postgres_cluster import PostgresCluster

SESSIONS = 40
_homes = itertools.count()


async def make_sessions(store: Store, first: int, *, workspace_id: str) -> None:
    await store.commit(new_workspace(workspace_id))
    for session in range(first, first + SESSIONS):
        await store.commit(new_session(f"ses_{session}", workspace_id=workspace_id))


async def accepts(store: Store, first: int, *, at_once: int, each: int) -> list[float]:
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


async def bench_accepts(stores: dict[str, Store], *, rounds: int) -> None:
    rates: dict[tuple[str, int], list[float]] = {}
    times: dict[tuple[str, int], list[float]] = {}
    for _ in range(rounds):
        for (at_once, each), (name, store) in itertools.product(((1, 100), (40, 10)), stores.items()):
            start = time.perf_counter()
            taken = await accepts(store, 0, at_once=at_once, each=each)
            rates.setdefault((name, at_once), []).append(len(taken) / (time.perf_counter() - start))
            times.setdefault((name, at_once), []).extend(taken)
    for (name, at_once), found in rates.items():
        rate, base = statistics.median(found), statistics.median(rates["SQLite", at_once])
        show(f"accepts, {at_once} at once, {name}", rate, "/s", base=base, more_is_better=True)
        ordered = sorted(times[name, at_once])
        show(f"accepts, {at_once} at once, {name}, p50", ordered[len(ordered) // 2] * 1e3, "ms")
        show(f"accepts, {at_once} at once, {name}, p99", ordered[int(len(ordered) * 0.99)] * 1e3, "ms")


async def bench_reading(stores: dict[str, Store], *, rounds: int) -> None:
    rates: dict[str, list[float]] = {}
    for _ in range(rounds):
        for name, store in stores.items():
            start = time.perf_counter()
            number, count = 0, 0
            while number < store.last_number:
                page = await store.events_after(number, upto=store.last_number)
                number, count = page.passed, count + len(page.events)
            rates.setdefault(name, []).append(count / (time.perf_counter() - start))
    for name, found in rates.items():
        base = statistics.median(rates["SQLite"])
        show(f"events read from the log, {name}", statistics.median(found), "/s", base=base, more_is_better=True)


class _AllLeases:
    """`Fences` of a server of this bench."""

    def __init__(self, server_id: str) -> None:
        self.server_id = server_id

    def fence(self, workspace_id: str) -> int | None:
        return 1

    def lost(self) -> CommitRefused:
        return StoreLocked("the bench lost its lease")


async def open_server(address: str, directory: Path) -> tuple[PostgresStore, int]:
    """Open one more store on the database, with a workspace and sessions of its own."""
    number = next(_homes)
    server_id, workspace_id, first = f"srv_{number}", f"wsp_{number}", number * SESSIONS
    home = directory / server_id
    home.mkdir()
    with psycopg.connect(address) as admin:
        admin.execute(
            "INSERT INTO servers (id, host_id, expires_at) VALUES (%s, %s, now() + interval '1 hour')",
            (server_id, server_id),
        )
        admin.execute("INSERT INTO leases (workspace_id, server_id) VALUES (%s, %s)", (workspace_id, server_id))
    store = await open_postgres_store(address, home=home, fences=_AllLeases(server_id))
    await make_sessions(store, first, workspace_id=workspace_id)
    return store, first


def _count(heard: list[int], events: tuple[CommittedEvent, ...]) -> None:
    heard[0] += len(events)


async def bench_servers(cluster: PostgresCluster, directory: Path, *, rounds: int) -> None:
    """All stores are in this process, so its one core is a limit too; commits wait mostly for the database."""
    alone = 0.0
    for count in (1, 2, 4):
        address = cluster.new_database()
        servers = [await open_server(address, directory) for _ in range(count)]
        heard = [0]
        for store, _ in servers:
            store.listen(partial(_count, heard))
        rates, deliveries = [], []
        for _ in range(rounds):
            heard[0] = 0
            start = time.perf_counter()
            await asyncio.gather(*(accepts(store, first, at_once=20, each=10) for store, first in servers))
            taken = time.perf_counter() - start
            await asyncio.gather(*(store.catch_up() for store, _ in servers))
            rates.append(count * 200 / taken)
            deliveries.append(heard[0] / (time.perf_counter() - start))
        alone = alone or statistics.median(rates)
        show(f"accepts, {count} servers", statistics.median(rates), "/s", base=alone, more_is_better=True)
        show(f"events delivered, {count} servers", statistics.median(deliveries), "/s")
        for store, _ in servers:
            await store.close()


async def run(directory: Path, *, rounds: int) -> None:
    cluster = await asyncio.to_thread(
        PostgresCluster, settings={"fsync": "on", "full_page_writes": "on", "shared_buffers": "128MB"}
    )
    try:
        sqlite: Store = await open_store(directory / "holdfast.db")
        postgres: Store = await open_postgres_store(cluster.new_database(), home=directory)
        stores = {"SQLite": sqlite, "PostgreSQL": postgres}
        steps: list[Callable[..., Awaitable[None]]] = [bench_accepts, bench_reading]
        for store in stores.values():
            await make_sessions(store, 0, workspace_id="wsp_bench")
        for step in steps:
            await step(stores, rounds=rounds)
        for store in stores.values():
            await store.close()
        await bench_servers(cluster, directory, rounds=rounds)
    finally:
        await asyncio.to_thread(cluster.stop)


async def main(rounds: int) -> None:
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as name:
        print(f"durable commits ({rounds} rounds)")
        await run(Path(name), rounds=rounds)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    asyncio.run(main(parser.parse_args().rounds))
