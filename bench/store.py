"""Cost of the store and the hub beside the least programs with the same effect, in the same run.

- Accepts: one prompt as the engine commits it (run, user message, lane, two events), durably. *Bare* is one sqlite3
  connection, WAL and ``synchronous=FULL``, that inserts one row with the same bytes and commits, in a loop.
- Fan-out: one committed event to 100 subscribers. *Bare* puts the same bytes into 100 asyncio queues with a waiting
  reader each.
- Deltas: the engine's side of a burst, with and without subscribers. *Bare* appends to a list.

Rounds alternate, so that other load affects both alike; medians are compared.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.figures import show

from holdfast.events import Hub, Subscription
from holdfast.schema.base import encode
from holdfast.schema.events import MessageCreated, RunAccepted
from holdfast.schema.messages import Text
from holdfast.store import Batch, LaneRow, SqliteStore, open_store
from holdfast.store.writes import InsertRun, PutMessage, SetLane
from tests.store.batches import AT, a_message, a_run, new_session, new_workspace, says

SESSIONS = 40
SUBSCRIBERS = 100

_numbers = itertools.count(1)


def prompt(session: int, numbers: Iterator[int] = _numbers) -> Batch:
    """The commit of an accepted prompt, as the engine makes it."""
    n = next(numbers)
    session_id = f"ses_{session}"
    run = a_run(f"run_{n}", session_id=session_id, seq=n, prompt="Please look at the failing test and fix it. " * 5)
    message = a_message(f"msg_{n}", Text(run.prompt), session_id=session_id, run_id=run.id, role="user")
    return Batch(
        (
            InsertRun(run=run, body_hash="0" * 64, decision="queued", position=1),
            PutMessage(message),
            SetLane(LaneRow(session_id, next_seq=n + 1)),
        ),
        (
            RunAccepted(at=AT, session_id=session_id, run=run),
            MessageCreated(at=AT, session_id=session_id, message=message),
        ),
    )


def bare_commits(sql: sqlite3.Connection, count: int) -> list[float]:
    body = encode(prompt(0).writes)
    times = []
    for _ in range(count):
        start = time.perf_counter()
        sql.execute("BEGIN IMMEDIATE")
        sql.execute("INSERT INTO rows (body) VALUES (?)", (body,))
        sql.execute("COMMIT")
        times.append(time.perf_counter() - start)
    return times


async def accepts(store: SqliteStore, *, at_once: int, each: int) -> list[float]:
    async def one(session: int) -> list[float]:
        times = []
        for _ in range(each):
            batch = prompt(session)
            start = time.perf_counter()
            await store.commit(batch)
            times.append(time.perf_counter() - start)
        return times

    return [taken for times in await asyncio.gather(*(one(n) for n in range(at_once))) for taken in times]


def show_rate(name: str, *, rate: float, bare_rate: float, times: list[float] | None = None) -> None:
    show(name, rate, "/s", base=bare_rate, more_is_better=True)
    if times is not None:
        ordered = sorted(times)
        for share in (0.5, 0.99):
            show(f"{name}, p{share * 100:.0f}", ordered[int(len(ordered) * share)] * 1e3, "ms")


async def bench_accepts(store: SqliteStore, directory: Path, *, rounds: int) -> None:
    rates: dict[str, list[float]] = {"bare": [], "1": [], "40": []}
    times: dict[str, list[float]] = {"bare": [], "1": [], "40": []}

    def add(name: str, count: int, taken: list[float], wall: float) -> None:
        rates[name].append(count / wall)
        times[name] += taken

    def bare() -> list[float]:
        with closing(sqlite3.connect(directory / "bare.db", isolation_level=None)) as sql:
            sql.execute("PRAGMA journal_mode = WAL")
            sql.execute("PRAGMA synchronous = FULL")
            sql.execute("CREATE TABLE IF NOT EXISTS rows (n INTEGER PRIMARY KEY, body BLOB)")
            return bare_commits(sql, 200)

    for _ in range(rounds):
        start = time.perf_counter()
        taken = await asyncio.to_thread(bare)
        add("bare", len(taken), taken, time.perf_counter() - start)
        for name, at_once, each in (("1", 1, 200), ("40", 40, 25)):
            start = time.perf_counter()
            taken = await accepts(store, at_once=at_once, each=each)
            add(name, len(taken), taken, time.perf_counter() - start)
    bare_rate = statistics.median(rates["bare"])
    titles = {"1": "accepts, 1 at once", "40": "accepts, 40 at once"}
    for name, title in titles.items():
        show_rate(title, rate=statistics.median(rates[name]), bare_rate=bare_rate, times=times[name])


async def drain(stream: Subscription, count: int) -> None:
    left = count
    while left > 0:
        left -= sum(item.id is not None for item in await stream.read_batch())


async def fan_out(store: SqliteStore, hub: Hub, events: int) -> float:
    """CPU seconds from the first commit until all subscribers have read all events."""
    streams = [hub.subscribe() for _ in range(SUBSCRIBERS)]
    readers = [asyncio.create_task(drain(stream, events)) for stream in streams]
    await asyncio.sleep(0)
    start = time.process_time()
    for _ in range(events):
        await store.commit(says(f"msg_{next(_numbers)}", "x" * 500, session_id="ses_0"))
    await asyncio.gather(*readers)
    taken = time.process_time() - start
    for stream in streams:
        stream.close()
    return taken


async def bare_fan_out(store: SqliteStore, events: int) -> float:
    queues: list[asyncio.Queue[bytes]] = [asyncio.Queue() for _ in range(SUBSCRIBERS)]

    async def read(queue: asyncio.Queue[bytes]) -> None:
        for _ in range(events):
            await queue.get()

    readers = [asyncio.create_task(read(queue)) for queue in queues]
    await asyncio.sleep(0)
    start = time.process_time()
    for _ in range(events):
        committed = await store.commit(says(f"msg_{next(_numbers)}", "x" * 500, session_id="ses_0"))
        for queue in queues:
            queue.put_nowait(committed.events[0].body)
    await asyncio.gather(*readers)
    return time.process_time() - start


async def bench_fan_out(store: SqliteStore, hub: Hub, *, rounds: int) -> None:
    events = 200
    ours, bare = [], []
    for _ in range(rounds):
        bare.append(await bare_fan_out(store, events))
        ours.append(await fan_out(store, hub, events))
    count = events * SUBSCRIBERS
    bare_rate = count / statistics.median(bare)
    show_rate(f"one event to {SUBSCRIBERS} subscribers, CPU", rate=count / statistics.median(ours), bare_rate=bare_rate)


def burst(hub: Hub, message_id: str, count: int) -> float:
    start = time.thread_time()
    for _ in range(count):
        hub.add_delta("ses_0", message_id, 0, text="token ")
    return (time.thread_time() - start) / count


def bare_burst(count: int) -> float:
    texts: list[str] = []
    length = 0
    start = time.thread_time()
    for _ in range(count):
        texts.append("token ")
        length += len("token ")
    return (time.thread_time() - start) / count


async def read_each(hub: Hub, message_id: str, count: int) -> float:
    """Seconds per delta if all subscribers read each one before the next. The worst case: no deltas are merged."""
    streams = list(_subscribe_all(hub))
    for stream in streams:
        await stream.read_batch()
    start = time.process_time()
    for _ in range(count):
        hub.add_delta("ses_0", message_id, 0, text="token ")
        for stream in streams:
            await stream.read_batch()
    taken = time.process_time() - start
    for stream in streams:
        stream.close()
    return taken / count / SUBSCRIBERS


def _subscribe_all(hub: Hub) -> Iterator[Subscription]:
    for _ in range(SUBSCRIBERS):
        yield hub.subscribe()


async def bench_deltas(hub: Hub, *, rounds: int) -> None:
    count = 20_000
    bare = statistics.median(bare_burst(count) for _ in range(rounds))
    alone = statistics.median(burst(hub, f"msg_a{n}", count) for n in range(rounds))
    hub.close_session("ses_0")
    streams = list(_subscribe_all(hub))
    watched = statistics.median(burst(hub, f"msg_b{n}", count) for n in range(rounds))
    for stream in streams:
        stream.close()
    hub.close_session("ses_0")
    each = statistics.median([await read_each(hub, f"msg_c{n}", 300) for n in range(rounds)])
    hub.close_session("ses_0")
    show("a delta, no subscriber", alone * 1e6, "µs", base=bare * 1e6, base_name="list append")
    show(f"a delta, {SUBSCRIBERS} subscribers", watched * 1e6, "µs", base=bare * 1e6, base_name="list append")
    show("a delta read by one subscriber, unmerged", each * 1e6, "µs")


async def main(rounds: int) -> None:
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as name:
        directory = Path(name)
        store = await open_store(directory / "holdfast.db")
        await store.commit(new_workspace())
        for n in range(SESSIONS):
            await store.commit(new_session(f"ses_{n}"))
        hub = Hub(store, heartbeat_seconds=10.0)
        print(f"durable commits ({rounds} rounds)")
        await bench_accepts(store, directory, rounds=rounds)
        await bench_fan_out(store, hub, rounds=rounds)
        await bench_deltas(hub, rounds=rounds)
        hub.close()
        await store.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    asyncio.run(main(parser.parse_args().rounds))
