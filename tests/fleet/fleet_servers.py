"""Several real servers on one real PostgreSQL."""

import os
import signal
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import psycopg

from holdfast.client import AsyncClient
from holdfast.client.server_address import ServerAddress
from tests.e2e.server import Server, ServerProcess, free_port
from tests.fleet.random_servers import RandomServersClient
from tests.support.postgres_cluster import shared_cluster

TOKEN = "a-token-that-all-servers-share"


class FleetServerProcess(ServerProcess):
    """A server of a fleet, on a host of a given name."""

    def __init__(
        self,
        home: Path,
        *,
        pycache: Path,
        store: str,
        host: str,
        provider_port: int,
        lease: str,
        shared: Path | None = None,
    ) -> None:
        """``shared``: a directory that every host mounts."""
        settings = f'host = "{host}"\nlease = "{lease}"\nshared = {[] if shared is None else [str(shared)]!r}'
        super().__init__(home, pycache=pycache, provider_port=provider_port, store=store, fleet=settings)
        self.host = host
        self.env["HOLDFAST_FLEET_TOKEN"] = TOKEN
        self.command += ["--listen", "127.0.0.1:0"]

    def pause(self) -> None:
        os.kill(self.pid, signal.SIGSTOP)

    def proceed(self) -> None:
        if self._process is not None and self._process.poll() is None:
            os.kill(self.pid, signal.SIGCONT)

    def last_log(self, lines: int) -> str:
        """The end of its log."""
        log = self.locations.logs_dir / "server.log"
        return "\n".join(log.read_text(errors="replace").splitlines()[-lines:]) if log.exists() else "(no log)"

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def wait_gone(self, *, seconds: float = 30.0) -> int:
        """Wait until the process has ended by itself; its exit status."""
        assert self._process is not None
        return self._process.wait(timeout=seconds)


class RandomChoice:
    """Makes clients whose every request goes to one of the servers at random. The choices of a test are its own."""

    def __init__(self, addresses: Sequence[ServerAddress], *, seed: str, requests: Counter[int]) -> None:
        self._addresses = addresses
        self._seed = seed
        self._requests = requests
        self._clients: Counter[str] = Counter()
        self._random = Random(f"{seed} connections")

    def any_address(self) -> ServerAddress:
        number = self._random.randrange(len(self._addresses))
        self._requests[number] += 1
        return self._addresses[number]

    def new_client(self, **options: Any) -> AsyncClient:
        test = os.environ.get("PYTEST_CURRENT_TEST", "").partition(" ")[0]
        self._clients[test] += 1
        seed = f"{self._seed} {test} {self._clients[test]}"
        return RandomServersClient(self._addresses, seed=seed, requests=self._requests, **options)


class ServingFleet(Server):
    """Several servers as one."""

    def __init__(self, servers: Sequence[ServerProcess], *, seed: str, requests: Counter[int]) -> None:
        super().__init__(servers[0].address, token=None, provider_port=servers[0].provider_port)
        self._choice = RandomChoice([server.address for server in servers], seed=seed, requests=requests)

    def any_address(self) -> ServerAddress:
        return self._choice.any_address()

    def new_client(self, **options: Any) -> AsyncClient:
        return self._choice.new_client(**options)


class EndingFleet(FleetServerProcess):
    """Several servers as one that starts, stops and is killed as a whole."""

    def __init__(
        self, home: Path, *, pycache: Path, store: str, size: int, seed: str, requests: Counter[int], lease: str = "30s"
    ) -> None:
        port = free_port()
        super().__init__(home, pycache=pycache, store=store, host="one", provider_port=port, lease=lease)
        self._others: list[FleetServerProcess] = []
        for number in range(1, size):
            place = home / f"other{number}"
            place.mkdir()
            self._others.append(
                FleetServerProcess(place, pycache=pycache, store=store, host="one", provider_port=port, lease=lease)
            )
        addresses = [self.address, *(other.address for other in self._others)]
        self._choice = RandomChoice(addresses, seed=seed, requests=requests)

    def any_address(self) -> ServerAddress:
        return self._choice.any_address()

    def new_client(self, **options: Any) -> AsyncClient:
        return self._choice.new_client(**options)

    def start(self) -> None:
        super().start()
        for other in self._others:
            other.start()

    def memory(self) -> int:
        """Of the largest server: the bounds of tests are for one."""
        return max(super().memory(), *(other.memory() for other in self._others))

    def complaints(self) -> list[str]:
        return [*super().complaints(), *(one for other in self._others for one in other.complaints())]

    def close(self) -> None:
        super().close()
        for other in self._others:
            other.close()

    def _end(self, number: int) -> int:
        statuses = [other._end(number) for other in self._others if other.is_running]
        return max([super()._end(number), *statuses], key=abs)


@contextmanager
def serving_fleet(
    directory: Path, *, pycache: Path, seed: str, requests: Counter[int] | None = None
) -> Iterator[ServingFleet]:
    """Three servers on one host. At the end they must stop without a complaint."""
    with fleet_of(directory, pycache=pycache, hosts=("one", "one", "one")) as servers:
        yield ServingFleet(servers, seed=seed, requests=Counter() if requests is None else requests)
        for server in servers:
            assert server.stop() == 0
            assert server.complaints() == []


@contextmanager
def fleet_of(
    directory: Path, *, pycache: Path, hosts: Sequence[str], lease: str = "30s", shared: Path | None = None
) -> Iterator[list[FleetServerProcess]]:
    """Servers on these hosts, started one after the other. All of them talk to one model provider."""
    address, port = shared_cluster().new_database(), free_port()
    servers: list[FleetServerProcess] = []
    try:
        for number, host in enumerate(hosts):
            home = directory / f"server{number}"
            home.mkdir()
            server = FleetServerProcess(
                home, pycache=pycache, store=address, host=host, provider_port=port, lease=lease, shared=shared
            )
            servers.append(server)
            server.start()
        yield servers
    finally:
        for server in servers:
            server.proceed()
            server.close()


def stored_by_owners(server: FleetServerProcess) -> tuple[object, ...]:
    """What is in the database that only the owner of a workspace writes. Audit entries are everybody's."""
    digests = (f"(SELECT md5(string_agg(t::text, ',' ORDER BY id)) FROM {table} t)" for table in _OF_OWNERS)
    with psycopg.connect(server.env["HOLDFAST_STORE"]) as connection:
        return tuple(connection.execute(f"SELECT (SELECT last FROM log), {', '.join(digests)}".encode()).fetchall())


_OF_OWNERS = ("sessions", "runs", "messages")
