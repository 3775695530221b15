"""A role that may use the tables and not change them, with the GRANTs of docs/fleet.md word for word."""

import asyncio
import re
from pathlib import Path

import psycopg
import pytest

from holdfast.errors import StoreUnwritable
from holdfast.store.postgres import open_postgres_store, postgres_schema
from tests.e2e.player import Player
from tests.e2e.provider import Provider
from tests.operations.conftest import StartServer
from tests.support.postgres_cluster import PostgresCluster
from tests.support.stress import StressShare

pytestmark = pytest.mark.timeout(60)

_DOCS = Path(__file__).parents[2] / "docs" / "fleet.md"


def _documented_grants() -> str:
    return re.search(r"```sql\n(.*?)```", _DOCS.read_text(), re.DOTALL)[1]  # type: ignore[index]


def _as_role(cluster: PostgresCluster, role: str) -> str:
    return f"postgresql://{role}@/holdfast?host={cluster.directory}"


def _prepare(cluster: PostgresCluster, *, owner_started: bool, home: Path) -> None:
    cluster.admin("DROP DATABASE IF EXISTS holdfast WITH (FORCE)")
    for role in ("holdfast", "holdfast_server"):
        cluster.admin(f"DROP ROLE IF EXISTS {role}")
        cluster.admin(f"CREATE ROLE {role} LOGIN")
    cluster.admin("CREATE DATABASE holdfast OWNER holdfast")
    if owner_started:
        asyncio.run(_start_once(_as_role(cluster, "holdfast"), home))
        with psycopg.connect(_as_role(cluster, "holdfast")) as owner:
            owner.execute(_documented_grants().encode())


async def _start_once(address: str, home: Path) -> None:
    await (await open_postgres_store(address, home=home)).close()


@pytest.mark.stress(weight=0.1)
async def test_the_documented_privileges_are_enough_to_serve(
    own_cluster: PostgresCluster, start_server: StartServer, provider: Provider, tmp_path: Path, share: StressShare
) -> None:
    await asyncio.to_thread(_prepare, own_cluster, owner_started=True, home=tmp_path)
    server = await asyncio.to_thread(start_server, _as_role(own_cluster, "holdfast_server"))
    player = Player(server.new_client(), tmp_path)
    session = await player.session()
    assert (await player.run(session.id, "hello")).state == "completed"
    assert {hit.session_id for hit in (await player.client.search("hello")).items} == {session.id}
    await player.leave()
    assert server.stop() == 0
    assert server.complaints() == []
    share.count("servers")


async def test_an_upgrade_without_the_right_to_change_tables_says_who_must_do_it(
    own_cluster: PostgresCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await asyncio.to_thread(_prepare, own_cluster, owner_started=True, home=tmp_path)
    newer = (*postgres_schema.POSTGRES_MIGRATIONS, ("ALTER TABLE drafts ADD COLUMN newer BIGINT",))
    monkeypatch.setattr(postgres_schema, "POSTGRES_MIGRATIONS", newer)
    with pytest.raises(StoreUnwritable, match="start once with the owner of the database"):
        await open_postgres_store(_as_role(own_cluster, "holdfast_server"), home=tmp_path)
    monkeypatch.undo()
    await _start_once(_as_role(own_cluster, "holdfast_server"), tmp_path)


async def test_a_role_that_may_not_make_tables_says_so_on_the_first_start(
    own_cluster: PostgresCluster, tmp_path: Path
) -> None:
    await asyncio.to_thread(_prepare, own_cluster, owner_started=False, home=tmp_path)
    await asyncio.to_thread(_forbid_tables, own_cluster)
    with pytest.raises(StoreUnwritable, match="may not create tables in it; start once with the owner"):
        await open_postgres_store(_as_role(own_cluster, "holdfast_server"), home=tmp_path)


def _forbid_tables(cluster: PostgresCluster) -> None:
    with psycopg.connect(cluster.conninfo("holdfast")) as admin:
        admin.execute("REVOKE CREATE ON SCHEMA public FROM PUBLIC")
        admin.execute("REVOKE CREATE ON DATABASE holdfast FROM PUBLIC")


async def test_a_role_without_any_privilege_is_told_where_they_are_documented(
    own_cluster: PostgresCluster, tmp_path: Path
) -> None:
    await asyncio.to_thread(_prepare, own_cluster, owner_started=True, home=tmp_path)
    await asyncio.to_thread(own_cluster.admin, "DROP ROLE IF EXISTS stranger")
    await asyncio.to_thread(own_cluster.admin, "CREATE ROLE stranger LOGIN")
    with pytest.raises(StoreUnwritable, match=r"see the privileges in docs/fleet\.md"):
        await open_postgres_store(_as_role(own_cluster, "stranger"), home=tmp_path)
