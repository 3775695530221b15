"""Three servers on one PostgreSQL, under load, with faults: killed, paused, cut off; a database that dies."""

import asyncio
import json
import signal
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random
from tempfile import mkdtemp
from typing import get_args

import psycopg

from holdfast.errors import ClientError, ServerError
from holdfast.schema.events import KnownDurable, Reset
from holdfast.schema.runs import END_STATES, RunRequest
from holdfast.schema.sessions import Session
from holdfast.testing import Answer, Call, text
from tests.e2e.provider import Provider
from tests.e2e.server import free_port
from tests.fleet.fleet_servers import FleetServerProcess
from tests.support.cutting_proxy import CuttingProxy
from tests.support.postgres_cluster import PostgresCluster

SESSIONS = 50
_DIRECTORIES = 5
_PROMPTS = 8
"""In each round."""
_PATIENCE = 90.0
LEASE_SECONDS = 3

FAULTS = ("kill", "pause", "cut", "restart database", "kill database", "none")


_DURABLE = get_args(KnownDurable)


class LogReader:
    """A client that follows all events across lost connections, and notes the number of each durable one."""

    def __init__(self, server: FleetServerProcess) -> None:
        self.first = 0
        self._client = server.new_client(retry_seconds=_PATIENCE)
        self._seen: list[int] = []
        self._changed = asyncio.Condition()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        cursor = (await self._client.workspaces()).cursor
        self.first = _number(cursor)
        self._task = asyncio.create_task(self._follow(cursor), name="log reader")

    async def read_until(self, number: int) -> list[int]:
        async with self._changed:
            async with asyncio.timeout(_PATIENCE):
                await self._changed.wait_for(lambda: bool(self._seen) and self._seen[-1] >= number)
        return list(self._seen)

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
        await self._client.aclose()

    async def _follow(self, cursor: str) -> None:
        async with self._client.events(after=cursor) as stream:
            async for event in stream:
                if isinstance(event, _DURABLE):
                    async with self._changed:
                        self._seen.append(_number(stream.cursor or ""))
                        self._changed.notify_all()
                assert not isinstance(event, Reset), event


def _number(cursor: str) -> int:
    return int(cursor.partition(".")[2])


class FleetChaos:
    """Plays rounds: prompts at random servers, one fault, then everything that was accepted must have ended."""

    def __init__(
        self,
        servers: Sequence[FleetServerProcess],
        proxies: Sequence[CuttingProxy],
        cluster: PostgresCluster,
        database: str,
    ) -> None:
        self.counts: Counter[str] = Counter()
        self._servers = servers
        self._proxies = proxies
        self._cluster = cluster
        self._database = database
        self._clients = [server.new_client(retry_seconds=_PATIENCE) for server in servers]
        self._sessions: list[Session] = []
        self._effects: list[Path] = []
        """Where the tools leave their traces, one file in each directory."""
        self._provider = Provider()
        self._reader = LogReader(servers[0])

    async def prepare(self, directory: Path) -> None:
        await self._provider.start(self._servers[0].provider_port)
        for number in range(_DIRECTORIES):
            place = directory / f"project{number}"
            await asyncio.to_thread(place.mkdir)
            self._effects.append(place / "effects")
            client = self._clients[number % 2]  # both on the same host
            workspace = await client.open_workspace(str(place))
            for _ in range(SESSIONS // _DIRECTORIES):
                self._sessions.append(await client.create_session(workspace.id))
        await self._reader.start()

    async def play(self, seed: int, *, fault: str | None = None) -> None:
        random = Random(seed)
        fault = fault or random.choice(FAULTS)
        self.counts[f"faults: {fault}"] += 1
        prompts = [
            asyncio.create_task(self._prompt(f"r{seed}x{n}", random.choice(self._sessions), random.randrange(1 << 30)))
            for n in range(_PROMPTS)
        ]
        await asyncio.sleep(random.random())
        await self._apply(fault, random)
        accepted = await asyncio.gather(*prompts)
        for run_id in accepted:
            await self._wait_end(run_id, random)
        self.counts["accepted"] += len(accepted)

    async def check(self) -> None:
        """Nothing is lost or doubled, and the reader has seen the whole log once and in order."""
        rows = await asyncio.to_thread(_read_log, self._database)
        ends = Counter(run_id for _, run_id in rows if run_id)
        assert not [run_id for run_id, number in ends.items() if number != 1], "a run has two ends"
        assert ends.total() == self.counts["accepted"], "an accepted run has no end"
        lines = [line for file in self._effects for line in await asyncio.to_thread(_lines, file)]
        assert lines, "no tool has run"
        assert max(Counter(lines).values(), default=1) == 1, "a tool ran twice"
        last = rows[-1][0]
        seen = await self._reader.read_until(last)
        expected = [number for number, _ in rows if number > self._reader.first]
        assert seen == expected, "the reader missed or repeated an event"
        self.counts["ended"] = ends.total()
        self.counts["tool effects"] = len(lines)
        self.counts["events"] = len(rows)

    async def close(self) -> None:
        await self._reader.close()
        for client in self._clients:
            await client.aclose()
        await self._provider.stop()

    async def _prompt(self, run_id: str, session: Session, choice: int) -> str:
        """Send a prompt with a tool call until some server has accepted it."""
        command = f"echo {run_id} >> effects"
        prompt = self._provider.tell(run_id, Answer(pieces=(Call("bash", {"command": command}),)), text("done"))
        request = RunRequest(prompt=prompt, run_id=run_id, mode="auto")
        random = Random(choice)
        until = asyncio.get_running_loop().time() + _PATIENCE
        while True:
            try:
                async with asyncio.timeout(25):
                    await random.choice(self._clients).start_run(session.id, request)
                return run_id
            except (ClientError, ServerError, TimeoutError):
                self.counts["refused, sent again"] += 1
                assert asyncio.get_running_loop().time() < until, f"{run_id} is never accepted"
                await asyncio.sleep(0.2)

    async def _wait_end(self, run_id: str, random: Random) -> None:
        until = asyncio.get_running_loop().time() + _PATIENCE
        while True:
            with suppress(ClientError, ServerError, TimeoutError):
                async with asyncio.timeout(15):
                    run = await random.choice(self._clients).get_run(run_id, wait=5.0)
                if run.state in END_STATES:
                    self.counts[f"ended {run.state}"] += 1
                    return
            assert asyncio.get_running_loop().time() < until, f"{run_id} never ends"

    async def _apply(self, fault: str, random: Random) -> None:
        index = random.randrange(len(self._servers))
        server = self._servers[index]
        match fault:
            case "kill":
                await asyncio.to_thread(server.kill)
                await asyncio.sleep(random.choice((0.0, LEASE_SECONDS * 2.0)))
                await asyncio.to_thread(server.start)
            case "pause":
                server.pause()
                await asyncio.sleep(LEASE_SECONDS * 2.5)
                server.proceed()
                await self._start_if_gone(server)
            case "cut":
                self._proxies[index].arm(random.randrange(20_000))
            case "restart database":
                await asyncio.to_thread(self._cluster.kill, signal.SIGINT)
                await asyncio.to_thread(self._cluster.start)
            case "kill database":
                await asyncio.to_thread(self._cluster.kill, signal.SIGKILL)
                await asyncio.to_thread(self._cluster.start)
            case _:
                pass
        for one in self._servers:
            await self._start_if_gone(one)

    async def _start_if_gone(self, server: FleetServerProcess) -> None:
        """As systemd does with a server that exits because it was replaced."""
        await asyncio.sleep(1.0)
        if not server.is_running:
            self.counts["servers replaced"] += 1
            await asyncio.to_thread(server.start)


def _lines(file: Path) -> list[str]:
    return file.read_text().split() if file.exists() else []


def _read_log(conninfo: str) -> list[tuple[int, str | None]]:
    """The number of each event, and the run that it ended."""
    with psycopg.connect(conninfo) as connection:
        rows = connection.execute("SELECT number, kind, body FROM events ORDER BY number").fetchall()
    ended = "run.finished"
    return [(number, json.loads(body)["run"]["id"] if kind == ended else None) for number, kind, body in rows]


@contextmanager
def chaotic_fleet(
    directory: Path, pycache: Path
) -> Iterator[tuple[list[FleetServerProcess], list[CuttingProxy], PostgresCluster, str]]:
    """Three servers on two hosts, each with a proxy to a PostgreSQL that only they use."""
    cluster = PostgresCluster(settings={"fsync": "on"})
    database = cluster.new_database()
    servers: list[FleetServerProcess] = []
    proxies: list[CuttingProxy] = []
    port = free_port()
    try:
        for number, host in enumerate(("one", "one", "two")):
            home = Path(mkdtemp(prefix="chaos", dir=directory))
            proxies.append(CuttingProxy(home, database=database))
            server = FleetServerProcess(
                home,
                pycache=pycache,
                store=proxies[number].address,
                host=host,
                provider_port=port,
                lease=f"{LEASE_SECONDS}s",
            )
            servers.append(server)
            server.start()
        yield servers, proxies, cluster, database
    finally:
        for server in servers:
            server.proceed()
            server.close()
        for proxy in proxies:
            proxy.close()
        cluster.stop()
