"""Programs that an administrator has installed, and servers that use them."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.e2e.provider import Provider
from tests.operations.operated_server import OperatedServer
from tests.support.postgres_cluster import PostgresCluster


@pytest.fixture(scope="session")
def pycache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Servers of these tests compile our code once."""
    return tmp_path_factory.mktemp("pycache")


@pytest.fixture(scope="module")
def own_cluster() -> Iterator[PostgresCluster]:
    """A PostgreSQL that the tests may disturb."""
    cluster = PostgresCluster()
    yield cluster
    cluster.stop()


class StartServer:
    """Makes servers in homes of their own, with one model provider for all. They are ended with the test."""

    def __init__(self, home: Path, *, pycache: Path, provider_port: int) -> None:
        self._home = home
        self._pycache = pycache
        self._port = provider_port
        self.servers: list[OperatedServer] = []

    def make(self, store: str, *, lease: str = "3s", host: str | None = None, **env: str) -> OperatedServer:
        home = self._home / f"s{len(self.servers)}"
        home.mkdir()
        fleet = f'lease = "{lease}"\nhost = "{host or f"host{len(self.servers)}"}"'
        server = OperatedServer(home, pycache=self._pycache, store=store, provider_port=self._port, fleet=fleet)
        server.env |= env
        self.servers.append(server)
        return server

    def __call__(self, store: str, *, lease: str = "3s", host: str | None = None, **env: str) -> OperatedServer:
        server = self.make(store, lease=lease, host=host, **env)
        server.start()
        return server


@pytest.fixture
async def provider() -> AsyncIterator[Provider]:
    provider = Provider()
    await provider.start()
    yield provider
    await provider.stop()


@pytest.fixture
def start_server(home: Path, pycache: Path, provider: Provider) -> Iterator[StartServer]:
    starter = StartServer(home, pycache=pycache, provider_port=provider.port)
    yield starter
    for server in starter.servers:
        server.close()
