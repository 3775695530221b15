"""Cost of the store on PostgreSQL beside SQLite, in the same run, on the same disk.

- Accepts: one prompt as the engine commits it (run, user message, lane, two events), durably; alone, and 40 at once.
- Events: how many per second readers of the log get from the table.
- Servers: prompts that are accepted over HTTP, at the owner and through another server; when the model gets them; how
  late text is at a reader of the owner and of another server; what 100 readers cost.
- Stores: commits of 1, 2 and 4 processes on one database, each with sessions of its own, and the events that all of
  them deliver to their listeners.

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
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.figures import show
from support.fleet_processes import accepts, bench_processes, make_sessions
from support.fleet_servers_bench import bench_http

from holdfast.store import Store, open_store
from holdfast.store.postgres import open_postgres_store
from tests.support.postgres_cluster import PostgresCluster


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
        await bench_http(cluster.new_database())
        await bench_processes(cluster, directory)
    finally:
        await asyncio.to_thread(cluster.stop)


async def main(rounds: int) -> None:
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as name:
        print(f"durable commits ({rounds} rounds)")
        await run(Path(name), rounds=rounds)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    asyncio.run(main(parser.parse_args().rounds))
