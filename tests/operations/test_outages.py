"""A database that is read-only, full, crowded, dropped or slow: what was accepted stays, and servers recover alone."""

import asyncio
import contextlib
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import psycopg
import pytest

from holdfast.errors import StoreUnreachable
from tests.e2e.player import Player
from tests.e2e.provider import Provider
from tests.operations.conftest import StartServer
from tests.operations.operated_server import OperatedServer
from tests.operations.steady_prompts import SteadyPrompts
from tests.support.cutting_proxy import CuttingProxy
from tests.support.postgres_cluster import PostgresCluster

pytestmark = [pytest.mark.timeout(180), pytest.mark.stress(weight=0.3)]

_END_HOLDFASTS = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'holdfast'"


class Served:
    """A server on a database, with prompts that keep coming in."""

    def __init__(self, server: OperatedServer, player: Player, prompts: SteadyPrompts, session_id: str) -> None:
        self.server = server
        self.player = player
        self.prompts = prompts
        self.session_id = session_id

    async def says(self, *words: str) -> None:
        """The commands of an administrator answer, and name the cause."""
        for arguments in (("doctor",), ("fleet",)):
            said = await asyncio.to_thread(self.server.cli, *arguments, status=None)
            assert "Traceback" not in said
            assert any(word in said for word in words), (arguments, said)

    async def recovers(self) -> None:
        await self.prompts.more(5)


@contextlib.asynccontextmanager
async def serving(start_server: StartServer, address: str, directory: Path) -> AsyncIterator[Served]:
    server = await asyncio.to_thread(start_server, address)
    player = Player(server.new_client(retry_seconds=0.0), directory)
    session_id = (await player.session()).id
    prompts = SteadyPrompts(player, session_id)
    async with prompts.coming_in():
        await prompts.more(3)
        yield Served(server, player, prompts, session_id)
        await prompts.more(3)
    await prompts.all_have_one_end()
    await player.leave()
    assert server.is_running
    assert server.stop() == 0
    assert "Traceback" not in server.everything_written()


async def test_a_database_that_is_set_read_only_is_507_and_recovers(
    own_cluster: PostgresCluster, start_server: StartServer, provider: Provider, tmp_path: Path
) -> None:
    address = await asyncio.to_thread(own_cluster.new_database)
    async with serving(start_server, address, tmp_path) as served:
        await asyncio.to_thread(_set_read_only, own_cluster, "on")
        said = await served.prompts.refused_with("store_unwritable")
        assert "is read-only" in said
        await asyncio.to_thread(_set_read_only, own_cluster, "off")
        await served.recovers()


def _set_read_only(cluster: PostgresCluster, value: str) -> None:
    with psycopg.connect(cluster.conninfo("postgres"), autocommit=True) as admin:
        admin.execute("SET default_transaction_read_only = off")
        admin.execute(f"ALTER SYSTEM SET default_transaction_read_only = {value}".encode())
        admin.execute("SELECT pg_reload_conf()")


async def test_a_database_without_free_connections_is_503_and_recovers(
    own_cluster: PostgresCluster, start_server: StartServer, provider: Provider, tmp_path: Path
) -> None:
    address = await asyncio.to_thread(own_cluster.new_database)
    await asyncio.to_thread(own_cluster.admin, "DROP ROLE IF EXISTS crowd")
    await asyncio.to_thread(own_cluster.admin, "CREATE ROLE crowd LOGIN")
    database = psycopg.conninfo.conninfo_to_dict(address)["dbname"]
    await asyncio.to_thread(own_cluster.admin, f"ALTER DATABASE {database} CONNECTION LIMIT 60")
    await asyncio.to_thread(_let_everybody, address)
    async with serving(start_server, address.replace("postgres@", "crowd@"), tmp_path) as served:
        admin = await asyncio.to_thread(_admin, own_cluster)
        await asyncio.to_thread(admin.execute, f"ALTER DATABASE {database} CONNECTION LIMIT 0".encode())
        await asyncio.to_thread(admin.execute, _END_HOLDFASTS)
        said = await served.prompts.refused_with("store_unreachable")
        assert "too many connections" in said
        assert "raise max_connections, or use PgBouncer" in said
        await served.says("too many connections")
        await asyncio.to_thread(admin.execute, f"ALTER DATABASE {database} CONNECTION LIMIT 60".encode())
        await served.recovers()
        await asyncio.to_thread(admin.close)


def _let_everybody(address: str) -> None:
    with psycopg.connect(address, autocommit=True) as owner:
        for what in ("ALL TABLES", "ALL SEQUENCES"):
            owner.execute(f"GRANT ALL ON {what} IN SCHEMA public TO crowd".encode())


def _admin(cluster: PostgresCluster) -> psycopg.Connection[tuple[object, ...]]:
    return psycopg.connect(cluster.conninfo("postgres"), autocommit=True)


async def test_a_database_that_is_renamed_away_is_503_and_recovers(
    own_cluster: PostgresCluster, start_server: StartServer, provider: Provider, tmp_path: Path
) -> None:
    address = await asyncio.to_thread(own_cluster.new_database)
    database = psycopg.conninfo.conninfo_to_dict(address)["dbname"]
    async with serving(start_server, address, tmp_path) as served:
        await asyncio.to_thread(_rename, own_cluster, str(database), f"{database}_away")
        said = await served.prompts.refused_with("store_unreachable")
        assert "does not exist" in said
        assert "create the user and the database" in said
        await served.says("does not exist")
        await asyncio.to_thread(_rename, own_cluster, f"{database}_away", str(database))
        await served.recovers()


def _rename(cluster: PostgresCluster, name: str, new: str) -> None:
    with _admin(cluster) as admin:
        admin.execute(f"ALTER DATABASE {name} CONNECTION LIMIT 0".encode())
        while True:
            admin.execute(_END_HOLDFASTS)
            with contextlib.suppress(psycopg.errors.ObjectInUse):
                admin.execute(f"ALTER DATABASE {name} RENAME TO {new}".encode())
                admin.execute(f"ALTER DATABASE {new} CONNECTION LIMIT -1".encode())
                return


async def test_a_database_that_hangs_is_503_and_recovers(
    own_cluster: PostgresCluster, start_server: StartServer, provider: Provider, tmp_path: Path
) -> None:
    address = await asyncio.to_thread(own_cluster.new_database)
    async with serving(start_server, address, tmp_path) as served:
        await asyncio.to_thread(own_cluster.pause)
        said = await served.prompts.refused_with("store_unreachable")
        assert "did not answer in time" in said
        with pytest.raises(StoreUnreachable):
            await served.player.client.session(served.session_id)
        await asyncio.to_thread(own_cluster.resume)
        await served.recovers()


async def test_an_empty_database_in_place_of_ours_is_503_and_recovers(
    own_cluster: PostgresCluster, start_server: StartServer, provider: Provider, tmp_path: Path
) -> None:
    address = await asyncio.to_thread(own_cluster.new_database)
    database = str(psycopg.conninfo.conninfo_to_dict(address)["dbname"])
    async with serving(start_server, address, tmp_path) as served:
        await asyncio.to_thread(_rename, own_cluster, database, f"{database}_away")
        await asyncio.to_thread(own_cluster.admin, f"CREATE DATABASE {database}")
        # A prompt whose COMMIT was cut waits for the right database: only that one knows what became of it.
        late = Player(served.server.new_client(retry_seconds=0.0), tmp_path)
        said = ""
        while "does not have the tables of Holdfast" not in said:  # until the server has met the new one
            with pytest.raises(StoreUnreachable) as refused:
                await late.prompt(served.session_id, "hello")
            said = refused.value.message
        await late.leave()
        assert "bring the right database back" in said
        await served.says("does not have the tables")
        await asyncio.to_thread(_rename, own_cluster, database, f"{database}_empty")
        await asyncio.to_thread(_rename, own_cluster, f"{database}_away", database)
        await served.recovers()


@pytest.fixture
def proxy(own_cluster: PostgresCluster, home: Path) -> Iterator[CuttingProxy]:
    proxy = CuttingProxy(home, database=own_cluster.new_database())
    yield proxy
    proxy.close()


async def test_connections_that_a_firewall_cuts_silently_are_made_again(
    proxy: CuttingProxy, start_server: StartServer, provider: Provider, tmp_path: Path
) -> None:
    async with serving(start_server, proxy.address, tmp_path) as served:
        for _ in range(2):
            await asyncio.to_thread(proxy.swallow_all)
            await served.recovers()


async def test_a_slow_database_is_slow_and_nothing_else(
    proxy: CuttingProxy, start_server: StartServer, provider: Provider, tmp_path: Path
) -> None:
    async with serving(start_server, proxy.address, tmp_path) as served:
        proxy.delay = 0.05
        await served.recovers()
        assert set(served.prompts.refusals) <= {"lease_lost"}
        proxy.delay = 0.0


@pytest.fixture
def small_disk() -> Iterator[PostgresCluster]:
    """A PostgreSQL on a disk of its own, which can be filled."""
    cluster = PostgresCluster(settings={"fsync": "on"})
    cluster.kill()
    disk = cluster.directory / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=200m", "tmpfs", disk], check=False, capture_output=True
    )
    if mounted.returncode:
        cluster.stop()
        pytest.skip("a small disk cannot be mounted here")
    subprocess.run(["cp", "-a", cluster.data, disk / "data"], check=True)
    cluster.data = disk / "data"
    cluster.start()
    yield cluster
    cluster.kill()
    subprocess.run(["umount", disk], check=True)
    cluster.stop()


async def test_a_full_disk_of_the_database_is_507_and_recovers(
    small_disk: PostgresCluster, start_server: StartServer, provider: Provider, tmp_path: Path
) -> None:
    address = await asyncio.to_thread(small_disk.new_database)
    async with serving(start_server, address, tmp_path) as served:
        filler = small_disk.directory / "disk" / "filler"
        await asyncio.to_thread(_fill, filler)
        said = await served.prompts.refused_with("store_unwritable")
        assert "No space left on device" in said
        assert "free space on its disk" in said
        await asyncio.to_thread(filler.unlink)
        await served.recovers()


def _fill(path: Path) -> None:
    with path.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        for size in (1 << 20, 1 << 12):
            with contextlib.suppress(OSError):
                while True:
                    file.write(bytes(size))
