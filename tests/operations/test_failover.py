"""A primary with a synchronous standby: the primary dies, the standby is promoted, and nothing accepted is lost."""

import asyncio
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.player import Player
from tests.e2e.provider import Provider
from tests.e2e.server import free_port
from tests.operations.conftest import StartServer
from tests.operations.steady_prompts import SteadyPrompts
from tests.support.postgres_cluster import PostgresCluster
from tests.support.stress import StressShare

pytestmark = pytest.mark.timeout(180)

_REPLICATED = {"wal_level": "replica", "max_wal_senders": "4", "fsync": "on"}


@pytest.fixture
def pair() -> Iterator[tuple[PostgresCluster, PostgresCluster]]:
    """A primary, and a standby that has everything that was acknowledged."""
    primary = PostgresCluster(settings=_REPLICATED, port=free_port())
    standby = PostgresCluster(settings=_REPLICATED, port=free_port(), standby_of=primary)
    primary.admin("ALTER SYSTEM SET synchronous_standby_names = 'standby'")
    primary.admin("SELECT pg_reload_conf()")
    until = time.monotonic() + 30
    while primary.admin("SELECT sync_state FROM pg_stat_replication") != [("sync",)]:
        assert time.monotonic() < until, "the standby does not follow"
        time.sleep(0.05)
    yield primary, standby
    primary.stop()
    standby.stop()


@pytest.mark.stress(weight=0.5)
@pytest.mark.promise("R1", "R14")
async def test_a_promoted_standby_has_everything_and_servers_find_it(
    pair: tuple[PostgresCluster, PostgresCluster],
    start_server: StartServer,
    provider: Provider,
    tmp_path: Path,
    share: StressShare,
) -> None:
    primary, standby = pair
    await asyncio.to_thread(primary.admin, "CREATE DATABASE holdfast")
    address = f"postgresql://postgres@127.0.0.1:{primary.port},127.0.0.1:{standby.port}/holdfast"
    servers = [await asyncio.to_thread(start_server, address, host="one") for _ in range(2)]
    players = [Player(server.new_client(retry_seconds=0.0), tmp_path) for server in servers]
    session = await players[0].session()
    prompts = SteadyPrompts(players[1], session.id)
    async with prompts.coming_in():
        await prompts.more(10)
        await asyncio.to_thread(primary.kill, signal.SIGKILL)
        refused = await prompts.refused_with("store_unreachable")
        assert "Holdfast tries again by itself" in refused
        await asyncio.to_thread(standby.admin, "SELECT pg_promote()")
        await prompts.more(10)
    await prompts.all_have_one_end()
    for player in players:
        await player.leave()
    for server in servers:
        assert server.is_running
        assert server.stop() == 0
    share.count("prompts", len(prompts.accepted))
