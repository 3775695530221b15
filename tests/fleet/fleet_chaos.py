"""Three servers on one PostgreSQL, under load, with faults: killed, paused, cut off; a database that dies."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from random import Random
from tempfile import mkdtemp

import psycopg

from holdfast.schema import events as ev
from tests.e2e.provider import Provider
from tests.e2e.server import free_port
from tests.fleet.chaos_faults import FAULTS, ChaosFaults, ChaosParts
from tests.fleet.chaos_load import PATIENCE, ChaosRound, Place, SentRun
from tests.fleet.fleet_servers import FleetServerProcess
from tests.fleet.log_readers import LogReader, RoamingReader
from tests.fleet.random_servers import RandomServersClient
from tests.support.cutting_proxy import CuttingProxy
from tests.support.log_consistency import LoggedState
from tests.support.postgres_cluster import PostgresCluster

SESSIONS = 50
_OWNERS = (0, 1, 2, 2, 0)
"""The server that opens each directory. The last directory is shared by all hosts."""
_LEASE = "3s"
_ROAMING = 2


class FleetChaos:
    """Plays rounds: every session works with tools, a fault strikes, and everything that was accepted must end."""

    def __init__(self, parts: ChaosParts, *, seed: int) -> None:
        self.counts: Counter[str] = Counter()
        self._parts = parts
        self._clients = [server.new_client(retry_seconds=PATIENCE) for server in parts.servers]
        self._anywhere = RandomServersClient(
            [server.address for server in parts.servers], seed=f"{seed} requests", retry_seconds=PATIENCE
        )
        self.faults = ChaosFaults(parts, self.counts)
        self._provider = Provider()
        self._places: list[Place] = []
        self._readers = [LogReader(client) for client in self._clients]
        self._readers += [RoamingReader(self._clients, seed=f"{seed} reader {n}") for n in range(_ROAMING)]
        self._state = LoggedState()
        self._numbers: list[int] = []
        self._places_in_log: dict[tuple[str, str], int] = {}
        """The number of the event of each kind of each run."""

    async def prepare(self) -> None:
        await self._provider.start(self._parts.servers[0].provider_port)
        for owner, directory in zip(_OWNERS, self._parts.directories, strict=True):
            await asyncio.to_thread((directory / "effects").mkdir, parents=True)
            client = self._clients[owner]
            workspace = await client.open_workspace(str(directory))
            sessions = [await client.create_session(workspace.id) for _ in range(SESSIONS // len(_OWNERS))]
            self._places.append(Place(directory, workspace.id, sessions))
        for reader in self._readers:
            await reader.start()

    async def play(self, seed: int, *, fault: str | None = None) -> None:
        random = Random(seed)
        fault = fault or random.choice(FAULTS)
        played = ChaosRound(f"r{seed}", self._anywhere, self._provider, self.counts)
        files = [played.effects(place) for place in self._places]
        await asyncio.to_thread(_make_all, files)
        self.faults.load_is_over = False
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self.faults.strike(fault, random, watch=files))
                await self._load(played, random)
            self.counts["rounds"] += 1
            await self._check(played, files)
            self._provider.forget_bodies()
        except Exception as error:
            error.add_note(f"fault {fault!r}, seed {seed}\n{await asyncio.to_thread(self.faults.state_of_all)}")
            raise

    async def _load(self, played: ChaosRound, random: Random) -> None:
        async with asyncio.TaskGroup() as group:
            for place in self._places:
                for number in range(len(place.sessions)):
                    group.create_task(played.work(place, number, Random(random.random())))
        self.faults.load_is_over = True

    async def _check(self, played: ChaosRound, files: Sequence[Path]) -> None:
        """Nothing is lost or doubled, and each reader has seen the whole log once and in order."""
        await self._read_log()
        for run in played.runs:
            assert self._state.ended[run.id] == 1, f"{run.id} has {self._state.ended[run.id]} ends"
        self.counts["ended"] += len(played.runs)
        await self._check_tools(played, files)
        self._check_cancels(played)
        expected = self._numbers
        for number, reader in enumerate(self._readers):
            try:
                async with asyncio.timeout(PATIENCE):
                    seen = await reader.read_until(expected[-1])
            except TimeoutError:
                raise AssertionError(
                    f"reader {number} waits at {reader.seen[-1:]}, the log has {expected[-1]}; {reader.last_loss}; "
                    f"{await self._positions()}"
                ) from None
            wanted = [one for one in expected if one > reader.first]
            assert seen == wanted, f"reader {number} missed {set(wanted) - set(seen)}, or repeated or swapped events"
        self.counts["events"] = len(expected)
        self.counts["connections of readers"] = sum(reader.connections for reader in self._readers)
        self.counts["requests"] = sum(self._anywhere.requests.values())

    async def _positions(self) -> str:
        """How far each server has read the log, as it says itself."""
        views = await asyncio.gather(*(client.fleet() for client in self._clients), return_exceptions=True)
        return ", ".join(repr(view) for view in views)

    async def _read_log(self) -> None:
        last = self._numbers[-1] if self._numbers else 0
        for number, body in await asyncio.to_thread(_log_after, self._parts.database, last):
            event = ev.read_event(body)
            self._state.apply(number, event)  # R3, R4, R5, R7, E1, E5
            self._numbers.append(number)
            if isinstance(event, ev.RunAccepted | ev.RunStarted | ev.RunFinished):
                self._places_in_log[type(event).__name__, event.run.id] = number

    async def _check_tools(self, played: ChaosRound, files: Sequence[Path]) -> None:
        lines = await asyncio.to_thread(_read_all, files)
        for name, text in lines.items():
            # Empty: it was killed after the shell made the file, and before it wrote to it.
            assert text in ("", "begun\n", "begun\ndone\n"), f"the tool call {name} ran more than once: {text!r}"
        for run in played.runs:
            if run.runs_all and run.end is not None and run.end.state == "completed":
                missing = [call.name for call in run.calls if lines.get(call.name, "").split() != ["begun", "done"]]
                assert not missing, f"{run.id} has completed, but {missing} did not run"
        self.counts["tool calls that ran"] += len(lines)
        self.counts["tool calls cut off"] += sum("done" not in text for text in lines.values())

    def _check_cancels(self, played: ChaosRound) -> None:
        for cancel in played.cancels:
            first, second = cancel.before
            accepted = self._place("RunAccepted", cancel.after)
            assert max(first.seq, second.seq) <= cancel.mark < cancel.after.seq, cancel
            assert _end(cancel.after) != "cancelled", f"the cancel hit {cancel.after.id}, which came after it"
            assert _end(first) != "completed", f"{first.id} cannot complete"
            for run in cancel.before:
                assert self._place("RunStarted", run) < accepted, f"{run.id} was covered, and started later"
                if _end(run) != "cancelled":  # it ended by itself before
                    assert self._place("RunFinished", run) < accepted, f"{run.id} was covered, and is {run.end}"

    def _place(self, kind: str, run: SentRun) -> int:
        return self._places_in_log.get((kind, run.id), 0)

    async def close(self) -> None:
        for reader in self._readers:
            await reader.close()
        for client in [*self._clients, self._anywhere]:
            await client.aclose()
        await self._provider.stop()


def _end(run: SentRun) -> str:
    assert run.end is not None
    return run.end.state


def _make_all(directories: Sequence[Path]) -> None:
    for directory in directories:
        directory.mkdir()


def _read_all(directories: Sequence[Path]) -> dict[str, str]:
    return {file.name: file.read_text() for directory in directories for file in directory.iterdir()}


def _log_after(conninfo: str, number: int) -> list[tuple[int, bytes]]:
    with psycopg.connect(conninfo) as connection:
        query = "SELECT number, body FROM events WHERE number > %s ORDER BY number"
        return [(row[0], _bytes(row[1])) for row in connection.execute(query, (number,)).fetchall()]


def _bytes(body: str | bytes) -> bytes:
    return body.encode() if isinstance(body, str) else bytes(body)


@asynccontextmanager
async def prepared_chaos(parts: ChaosParts, *, seed: int) -> AsyncIterator[FleetChaos]:
    chaos = FleetChaos(parts, seed=seed)
    try:
        async with chaos.faults.supervised():
            await chaos.prepare()
            yield chaos
    finally:
        await chaos.close()


@contextmanager
def chaotic_fleet(directory: Path, pycache: Path) -> Iterator[ChaosParts]:
    """Three servers on two hosts, each with a proxy to a PostgreSQL that only they use."""
    cluster = PostgresCluster(settings={"fsync": "on"})
    database = cluster.new_database()
    directories = [directory / f"project{number}" for number in range(len(_OWNERS))]
    servers: list[FleetServerProcess] = []
    proxies: list[CuttingProxy] = []
    port = free_port()
    try:
        for number, host in enumerate(("one", "one", "two")):
            home = Path(mkdtemp(prefix="chaos", dir=directory))
            proxies.append(CuttingProxy(home, database=database))
            store = proxies[number].address
            server = FleetServerProcess(
                home,
                pycache=pycache,
                store=store,
                host=host,
                provider_port=port,
                lease=_LEASE,
                shared=directories[-1],
            )
            servers.append(server)
            server.start()
        yield ChaosParts(servers, proxies, cluster, database, directories)
    finally:
        for server in servers:
            server.proceed()
            server.close()
        for proxy in proxies:
            proxy.close()
        cluster.stop()
