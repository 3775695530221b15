"""The black-box suite: only HTTP and SSE, against a server of its own or the one that ``HOLDFAST_E2E_URL`` names.

A server of yours needs the providers of `tests.e2e.server.CONFIG`, with the port that ``HOLDFAST_E2E_PROVIDER_PORT``
names; ``HOLDFAST_E2E_TOKEN`` is its token. Tests that stop or kill servers leave it alone, and use their own.
"""

import os
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Literal

import pytest

from holdfast.client import AsyncClient
from holdfast.client.server_address import ServerAddress
from tests.e2e.player import Player
from tests.e2e.provider import Provider
from tests.e2e.server import Server, ServerProcess
from tests.support.compiled_code import compiled_code_directory

_URL = os.environ.get("HOLDFAST_E2E_URL")
_TOKEN = os.environ.get("HOLDFAST_E2E_TOKEN")
_PORT = os.environ.get("HOLDFAST_E2E_PROVIDER_PORT")
# Read here, since tests run in an environment of their own.


@pytest.fixture(scope="session")
def pycache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Servers of this suite compile our code once."""
    return compiled_code_directory(tmp_path_factory)


StoreKind = Literal["sqlite", "postgres", "fleet"]
_FLEET = os.environ.get("HOLDFAST_E2E_FLEET")
"""A seed: the servers of the suite are three on one database, and each request goes to one of them at random."""
_requests: Counter[int] = Counter()
"""How many requests each of the three got."""


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if _FLEET:
        each = ", ".join(str(number) for _, number in sorted(_requests.items()))
        terminalreporter.write_line(f"fleet, seed {_FLEET}: {_requests.total()} requests at random servers ({each})")


@pytest.fixture(scope="session", params=["fleet"] if _FLEET else ["sqlite"] if _URL else ["sqlite", "postgres"])
def store_kind(request: pytest.FixtureRequest) -> StoreKind:
    """Every test runs on both stores."""
    kind: StoreKind = request.param
    return kind


def _new_store(kind: StoreKind) -> str | None:
    if kind == "sqlite":
        return None
    from tests.support.postgres_cluster import shared_cluster

    return shared_cluster().new_database()


def _new_fleet(home: Path, pycache: Path) -> ServerProcess:
    from tests.fleet.fleet_servers import EndingFleet

    store = _new_store("fleet")
    assert store is not None
    return EndingFleet(home, pycache=pycache, store=store, size=3, seed=str(_FLEET), requests=_requests)


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory, pycache: Path, store_kind: StoreKind) -> Iterator[Server]:
    """One server for all tests that leave it alive."""
    if _URL:
        assert _PORT, "HOLDFAST_E2E_PROVIDER_PORT must name the port of the server's provider 'e2e'"
        yield Server(ServerAddress.parse(_URL, name="HOLDFAST_E2E_URL"), token=_TOKEN, provider_port=int(_PORT))
        return
    if store_kind == "fleet":
        from tests.fleet.fleet_servers import serving_fleet

        place = tmp_path_factory.mktemp("fleet")
        with serving_fleet(place, pycache=pycache, seed=str(_FLEET), requests=_requests) as servers:
            yield servers
        return
    process = ServerProcess(tmp_path_factory.mktemp("server"), pycache=pycache, store=_new_store(store_kind))
    process.start()
    try:
        yield process
        assert process.stop() == 0
        assert process.complaints() == []
    finally:
        process.close()


@pytest.fixture
def own_server(tmp_path: Path, pycache: Path, store_kind: StoreKind) -> Iterator[ServerProcess]:
    """A server that the test may stop and kill; started."""
    home = tmp_path / "own"
    home.mkdir()
    process = _new_fleet(home, pycache) if store_kind == "fleet" else None
    process = process or ServerProcess(home, pycache=pycache, store=_new_store(store_kind))
    try:
        process.start()
        yield process
    finally:
        process.close()
    assert process.complaints() == []


@pytest.fixture
async def provider(server: Server) -> AsyncIterator[Provider]:
    provider = Provider()
    await provider.start(server.provider_port)
    yield provider
    await provider.stop()


@pytest.fixture
async def own_provider(own_server: ServerProcess) -> AsyncIterator[Provider]:
    provider = Provider()
    await provider.start(own_server.provider_port)
    yield provider
    await provider.stop()


Join = Callable[..., Player]


@pytest.fixture
async def join(tmp_path: Path) -> AsyncIterator[Join]:
    """``join(server, "name")``: one more client, each with connections of its own."""
    work = tmp_path / "work"
    work.mkdir()
    players: list[Player] = []

    def join(server: Server, name: str = "someone", *, address: ServerAddress | None = None) -> Player:
        if address is None:
            client = server.new_client(name=name, retry_seconds=30.0)
        else:
            client = AsyncClient(address, token=server.token, name=name, retry_seconds=30.0)
        players.append(Player(client, work))
        return players[-1]

    yield join
    for player in players:
        await player.leave()
