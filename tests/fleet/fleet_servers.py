"""Several real servers on one real PostgreSQL."""

import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

from holdfast.client import AsyncClient
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

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def wait_gone(self, *, seconds: float = 30.0) -> int:
        """Wait until the process has ended by itself; its exit status."""
        assert self._process is not None
        return self._process.wait(timeout=seconds)


class ServingFleet(Server):
    """Several servers as one: each request goes to one of them at random."""

    def __init__(self, servers: Sequence[ServerProcess], *, seed: str) -> None:
        super().__init__(servers[0].address, token=None, provider_port=servers[0].provider_port)
        self._addresses = [server.address for server in servers]
        self._seed = seed
        self._clients = count()

    def new_client(self, **options: Any) -> AsyncClient:
        return RandomServersClient(self._addresses, seed=f"{self._seed} {next(self._clients)}", **options)


@contextmanager
def serving_fleet(directory: Path, *, pycache: Path, seed: str) -> Iterator[ServingFleet]:
    """Three servers on one host. At the end they must stop without a complaint."""
    with fleet_of(directory, pycache=pycache, hosts=("one", "one", "one")) as servers:
        yield ServingFleet(servers, seed=seed)
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
