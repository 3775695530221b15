from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import psycopg
import pytest

from holdfast.store.postgres import PostgresStore, open_postgres_store
from tests.store.postgres.held_leases import HeldLeases, OpenServer


@pytest.fixture
async def open_server(postgres_database: str, tmp_path: Path) -> AsyncIterator[OpenServer]:
    async with AsyncExitStack() as stack:

        async def opened(server_id: str, held: dict[str, int]) -> PostgresStore:
            (tmp_path / server_id).mkdir()
            with psycopg.connect(postgres_database) as admin:
                admin.execute(
                    "INSERT INTO servers (id, host_id, expires_at) VALUES (%s, %s, now() + interval '1 hour')",
                    (server_id, server_id),
                )
                for workspace_id, fence in held.items():
                    admin.execute("INSERT INTO leases VALUES (%s, %s, %s)", (workspace_id, server_id, fence))
            store = await open_postgres_store(
                postgres_database, home=tmp_path / server_id, fences=HeldLeases(server_id, held)
            )
            stack.push_async_callback(store.close)
            return store

        yield opened
