"""The store of tests above it: a SQLite file, or with ``HOLDFAST_TEST_STORE=postgres`` a PostgreSQL database.

``HOLDFAST_TEST_STORE=postgres .venv/bin/pytest tests/runs`` runs the tests of the engine there.
"""

import asyncio
import os
from collections import OrderedDict
from pathlib import Path

import pytest

from holdfast.store import Store, open_store

_KIND = os.environ.get("HOLDFAST_TEST_STORE", "sqlite")
# Read here, since tests run in an environment of their own.
if _KIND == "postgres":  # imported here, since its import blocks
    from holdfast.store.postgres import open_postgres_store
    from tests.support.postgres_cluster import shared_cluster
_MOST = 10
_databases: OrderedDict[Path, str] = OrderedDict()
"""The database of each path. The oldest are emptied and used again."""


def is_postgres() -> bool:
    return _KIND == "postgres"


def need_file_copies() -> None:
    """Call it in a test that takes a copy of the database's file for a crash."""
    if is_postgres():
        pytest.skip("a crash is a copy of the file here; tests/e2e kills servers on PostgreSQL")


async def open_any_store(path: Path) -> Store:
    """Open the store of a path. The same path is the same store."""
    if not is_postgres():
        return await open_store(path)
    home = path.with_name(f"{path.name}.home")
    home.mkdir(parents=True, exist_ok=True)
    return await open_postgres_store(await asyncio.to_thread(_database_of, path), home=home)


async def store_variable(home: Path) -> dict[str, str]:
    """What a whole server with this home has in its environment to use the store."""
    return {"HOLDFAST_STORE": await asyncio.to_thread(_database_of, home)} if is_postgres() else {}


def _database_of(path: Path) -> str:
    if path not in _databases:
        if len(_databases) >= _MOST:
            shared_cluster().give_back(_databases.popitem(last=False)[1])
        _databases[path] = shared_cluster().take_database()
    return _databases[path]
