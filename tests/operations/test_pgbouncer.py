"""Servers behind PgBouncer in transaction mode."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from holdfast.errors import CommitRefused, StoreLocked
from holdfast.schema.events import RunFinished
from holdfast.store.postgres import open_postgres_store
from tests.e2e.player import Player
from tests.e2e.provider import Provider
from tests.operations.conftest import StartServer
from tests.operations.steady_prompts import SteadyPrompts
from tests.store.batches import new_session, new_workspace
from tests.support.operated_programs import PgBouncer
from tests.support.postgres_cluster import shared_cluster
from tests.support.stress import StressShare

pytestmark = pytest.mark.timeout(120)


@pytest.fixture
def bouncer() -> Iterator[PgBouncer]:
    bouncer = PgBouncer(shared_cluster().directory)
    bouncer.start()
    yield bouncer
    bouncer.close()


class _Leases:
    """`Fences` of a server that owns what it writes."""

    def __init__(self, server_id: str) -> None:
        self.server_id = server_id

    def fence(self, workspace_id: str) -> int | None:
        return 1

    def lost(self) -> CommitRefused:
        return StoreLocked("not expected here")


@pytest.mark.promise("E1")
async def test_a_store_hears_of_another_ones_events_through_pgbouncer(bouncer: PgBouncer, home: Path) -> None:
    """A pooler in transaction mode passes no notices on."""
    database = await asyncio.to_thread(shared_cluster().new_database)
    await asyncio.to_thread(_insert_leases, database)
    stores = []
    for name in ("one", "two"):
        (home / name).mkdir()
        address = bouncer.address(database)
        stores.append(await open_postgres_store(address, home=home / name, fences=_Leases(name)))
    heard: asyncio.Queue[int] = asyncio.Queue()
    stores[1].listen(lambda events: [heard.put_nowait(event.number) for event in events] and None)
    await stores[0].commit(new_workspace("wsp_one"))
    await stores[0].commit(new_session(workspace_id="wsp_one"))
    async with asyncio.timeout(20):
        assert await heard.get() == 1
    for store in stores:
        await store.close()


def _insert_leases(database: str) -> None:
    with psycopg.connect(database) as admin:
        for name in ("one", "two"):
            admin.execute(
                "INSERT INTO servers (id, host_id, expires_at) VALUES (%s, %s, now() + interval '1 hour')", (name, name)
            )
        admin.execute("INSERT INTO leases VALUES ('wsp_one', 'one', 1)")


@pytest.mark.stress(weight=0.3)
@pytest.mark.promise("W16")
async def test_three_servers_work_through_pgbouncer_and_see_each_other(
    bouncer: PgBouncer, start_server: StartServer, provider: Provider, tmp_path: Path, share: StressShare
) -> None:
    address = bouncer.address(await asyncio.to_thread(shared_cluster().new_database))
    servers = [await asyncio.to_thread(start_server, address, host="one", lease="10s") for _ in range(3)]
    players = [Player(server.new_client(), tmp_path) for server in servers]
    session = await players[0].session()
    for sender in players:
        async with players[1].watching(session.id) as near, players[2].watching(session.id) as far:
            accepted = await sender.prompt(session.id, "hello")
            for watch in (near, far):
                async with asyncio.timeout(30):
                    ended = await watch.until(RunFinished)
                assert (ended.run.id, ended.run.state) == (accepted.run.id, "completed")
    for player in players:
        await player.leave()
    share.count("servers", len(servers))


@pytest.mark.stress(weight=0.3)
@pytest.mark.promise("R1", "R14")
async def test_a_pgbouncer_that_is_killed_costs_nothing_that_was_accepted(
    bouncer: PgBouncer, start_server: StartServer, provider: Provider, tmp_path: Path, share: StressShare
) -> None:
    address = bouncer.address(await asyncio.to_thread(shared_cluster().new_database))
    server = await asyncio.to_thread(start_server, address)
    player = Player(server.new_client(retry_seconds=0.0), tmp_path)
    prompts = SteadyPrompts(player, (await player.session()).id)
    async with prompts.coming_in():
        for _ in range(3):
            await prompts.more(5)
            await asyncio.to_thread(bouncer.kill)
            await asyncio.to_thread(bouncer.start)
        await prompts.more(5)
    await prompts.all_have_one_end()
    await player.leave()
    assert server.stop() == 0
    share.count("prompts", len(prompts.accepted))
