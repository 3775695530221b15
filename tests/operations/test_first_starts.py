"""Servers that start at the same time: on an empty database, and on one of an older Holdfast."""

import asyncio
from pathlib import Path

import psycopg
import pytest

from holdfast.errors import CommitRefused, StoreLocked
from holdfast.store.postgres import open_postgres_store, postgres_schema
from tests.store.batches import new_workspace
from tests.support.postgres_cluster import shared_cluster


class _Leases:
    def __init__(self, server_id: str) -> None:
        self.server_id = server_id

    def fence(self, workspace_id: str) -> int | None:
        return 1

    def lost(self) -> CommitRefused:
        return StoreLocked("not expected here")


async def _open_three(address: str, home: Path) -> None:
    names = ("one", "two", "three")
    for name in names:
        (home / name).mkdir()
    stores = await asyncio.gather(
        *(open_postgres_store(address, home=home / name, fences=_Leases(name)) for name in names)
    )
    assert len({store.log_id for store in stores}) == 1
    for store in stores:
        await store.close()


async def test_three_servers_that_start_at_once_make_the_tables_once(home: Path) -> None:
    cluster = shared_cluster()
    await asyncio.to_thread(cluster.admin, "CREATE DATABASE first_starts")
    await _open_three(cluster.conninfo("first_starts"), home)
    await asyncio.to_thread(cluster.admin, "DROP DATABASE first_starts WITH (FORCE)")


async def test_three_servers_that_start_at_once_upgrade_an_older_database_once(
    postgres_database: str, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    older = await open_postgres_store(postgres_database, home=tmp_path)
    await older.commit(new_workspace())
    await older.close()
    newer = (*postgres_schema.POSTGRES_MIGRATIONS, ("CREATE TABLE made_once (n BIGINT)",))
    monkeypatch.setattr(postgres_schema, "POSTGRES_MIGRATIONS", newer)
    try:
        await _open_three(postgres_database, home)
    finally:
        await asyncio.to_thread(_undo, postgres_database)


def _undo(address: str) -> None:
    with psycopg.connect(address) as admin:
        admin.execute("DROP TABLE made_once")
        admin.execute("UPDATE schema_version SET own = own - 1")
