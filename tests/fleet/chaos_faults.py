"""The faults of a fleet. Each strikes while tools run, and a supervisor starts servers that have ended."""

import asyncio
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random

import psycopg

from holdfast.app import DEAD_STATUS
from tests.fleet.fleet_servers import FleetServerProcess
from tests.support.cutting_proxy import CuttingProxy
from tests.support.postgres_cluster import PostgresCluster

LEASE_SECONDS = 3

FAULTS = ("kill", "pause", "cut", "restart database", "kill database", "kill server and database")
_MOST_BEGUN, _LEAST_RUNNING = 40, 3
"""A fault strikes when a random number of tool calls have begun, and so many of them are running."""
_STRIKE_SECONDS = 120.0
_REPLACE_SECONDS = 60.0
"""How long the others may take to replace a paused server, also on a machine that is busy with other things."""


@dataclass(frozen=True, slots=True)
class ChaosParts:
    """What faults and load work with."""

    servers: Sequence[FleetServerProcess]
    proxies: Sequence[CuttingProxy]
    cluster: PostgresCluster
    database: str
    directories: Sequence[Path]


class ChaosFaults:
    """Breaks one part, and repairs it."""

    def __init__(self, parts: ChaosParts, counts: Counter[str]) -> None:
        self._parts = parts
        self._counts = counts
        self.load_is_over = False
        """Whether all runs of the round have ended: no more tool calls begin."""
        self._down: set[int] = set()
        """The servers that are ended on purpose, and not started yet."""

    async def strike(self, fault: str, random: Random, *, watch: Sequence[Path]) -> None:
        """Wait until tools run, and apply the fault. ``watch``: where tool calls leave their files."""
        begun = random.randint(1, _MOST_BEGUN)
        running = await self._tools_running(watch, begun)
        if running is None:
            self._counts[f"{fault}: too late, all tools had ended"] += 1
            return
        self._counts[f"{fault}: rounds"] += 1
        self._counts[f"{fault}: tools running"] += running
        await self._apply(fault, random)

    async def _tools_running(self, watch: Sequence[Path], begun: int) -> int | None:
        """How many tool calls run when so many have begun; None if the load is over before."""
        until = asyncio.get_running_loop().time() + _STRIKE_SECONDS
        while True:
            is_over = self.load_is_over
            started, running = await asyncio.to_thread(_count_tools, watch)
            if started >= begun and running >= _LEAST_RUNNING:
                return running
            if is_over:
                return None
            if asyncio.get_running_loop().time() > until:
                raise AssertionError(
                    f"never {begun} tool calls begun and {_LEAST_RUNNING} running, but {started} and {running}; "
                    f"{await asyncio.to_thread(self.state_of_all)}"
                )
            await asyncio.sleep(0.02)

    def state_of_all(self) -> str:
        """What each server is doing, for a failure that waited for something. Blocks."""
        return "\n".join(_state_of(server, is_down=n in self._down) for n, server in enumerate(self._parts.servers))

    async def _apply(self, fault: str, random: Random) -> None:
        index = random.randrange(len(self._parts.servers))
        cluster = self._parts.cluster
        match fault:
            case "kill":
                await self._kill(index, random.choice((0.0, LEASE_SECONDS * 1.5)))
            case "pause":
                await self._pause(index, random.choice((0.0, LEASE_SECONDS)))
            case "cut":
                await self._cut(random)
            case "restart database":
                await asyncio.to_thread(cluster.kill, signal.SIGINT)
                await asyncio.to_thread(cluster.start)
            case "kill database":
                await asyncio.to_thread(cluster.kill, signal.SIGKILL)
                await asyncio.to_thread(cluster.start)
            case _:
                await asyncio.to_thread(cluster.kill, signal.SIGKILL)
                await asyncio.gather(self._kill(index, 0.0), asyncio.to_thread(cluster.start))

    async def _kill(self, index: int, seconds: float) -> None:
        server = self._parts.servers[index]
        self._down.add(index)
        await asyncio.to_thread(server.kill)
        await asyncio.sleep(seconds)
        self._down.discard(index)  # the supervisor starts it

    async def _pause(self, index: int, seconds: float) -> None:
        """Until the others have declared it dead, and so much longer. It must then end by itself.

        For how long is not known before. The proxies are in this process: when it is slow, the database is away for
        all, and everyone gets the time to renew.
        """
        server = self._parts.servers[index]
        self._down.add(index)
        server.pause()
        await asyncio.to_thread(_wait_until_dead, self._parts.database, server.pid)
        await asyncio.sleep(seconds)
        server.proceed()
        assert await asyncio.to_thread(server.wait_gone) == DEAD_STATUS
        self._counts["paused servers that ended by themselves"] += 1
        self._down.discard(index)

    async def _cut(self, random: Random) -> None:
        """Every server loses its connections a few times, each time after another byte."""
        for proxy in self._parts.proxies:
            for _ in range(random.randint(1, 4)):
                proxy.arm(int(10 ** random.uniform(0, 5)))
                await asyncio.to_thread(proxy.wait_for_cut)
                self._counts["connections cut"] += 1

    @asynccontextmanager
    async def supervised(self) -> AsyncIterator[None]:
        """Servers that end are started again, as systemd does."""
        task = asyncio.create_task(self._supervise(), name="supervisor")
        try:
            yield
        finally:
            task.cancel()
            (error,) = await asyncio.gather(task, return_exceptions=True)
        if error is not None and not isinstance(error, asyncio.CancelledError):
            raise error

    async def _supervise(self) -> None:
        while True:
            for index, server in enumerate(self._parts.servers):
                if not server.is_running and index not in self._down:
                    await self._start(server)
            await asyncio.sleep(0.1)

    async def _start(self, server: FleetServerProcess) -> None:
        status = await asyncio.to_thread(server.wait_gone)
        assert status in (DEAD_STATUS, -signal.SIGKILL, 1), f"a server ended with {status}"
        self._counts["servers started again"] += 1
        self._counts["servers that were replaced"] += status == DEAD_STATUS
        try:
            await asyncio.to_thread(server.start)
        except AssertionError:  # there is no database yet
            self._counts["starts without a database"] += 1


def _state_of(server: FleetServerProcess, *, is_down: bool) -> str:
    state = "ended on purpose" if is_down else "running" if server.is_running else "ended"
    return f"server of host {server.host} at {server.address}: {state}; its log ends with:\n{server.last_log(20)}"


def _wait_until_dead(database: str, pid: int) -> None:
    """Wait until the server is dead by the table of servers. Blocks."""
    until = time.monotonic() + _REPLACE_SECONDS
    with psycopg.connect(database, autocommit=True) as connection:
        while True:
            found = connection.execute(_IS_DEAD, (str(pid),)).fetchone()
            assert found is not None, f"the paused server {pid} is not in the table of servers"
            if found[0]:
                return
            if time.monotonic() > until:
                waiting = connection.execute(_WAITING).fetchall()
                raise AssertionError(
                    f"nobody has replaced the paused server {pid}; who waits in the database: {waiting}"
                )
            time.sleep(0.05)


_IS_DEAD = "SELECT dead FROM servers WHERE info ->> 'pid' = %s ORDER BY started_at DESC LIMIT 1"
_WAITING = """SELECT pid, pg_blocking_pids(pid), state, wait_event, left(query, 80) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid() AND state <> 'idle'"""


def _count_tools(watch: Sequence[Path]) -> tuple[int, int]:
    """How many tool calls have begun, and how many of them are not done."""
    texts = [file.read_text() for directory in watch for file in directory.iterdir()]
    return len(texts), sum("done" not in text for text in texts)
