"""A server that stops inside a transaction (`SIGSTOP`, a suspended machine) does not hold up the others with its locks.

Nothing here waits for a time: if PostgreSQL did not end the transaction, the others would be refused (`StoreLocked`).
"""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest

from holdfast.store.postgres import lease_table, open_postgres_store
from holdfast.store.postgres.commit_thread import COMMIT_SECONDS
from holdfast.store.postgres.connection import PostgresConnection
from holdfast.store.postgres.lease_check import LeaseCheck
from holdfast.store.rows import event_log
from tests.store.batches import new_session, new_workspace
from tests.store.postgres.held_leases import HeldLeases, OpenServer
from tests.support.cutting_proxy import CuttingProxy

Stop = Callable[[str], PostgresConnection]

_SENT_AT_ONCE = 8192
"""So many bytes of an answer PostgreSQL keeps until the whole message is done: it never waits for a client to read."""


@pytest.fixture
def stop(postgres_database: str) -> Iterator[Stop]:
    """Makes a connection of the server ``one`` that has stopped where a commit has all its locks."""
    with ExitStack() as stack:

        def stopped(where: str) -> PostgresConnection:
            sql = PostgresConnection.open(postgres_database)
            stack.callback(sql.close)
            sql.begin(seconds=COMMIT_SECONDS)
            sql.execute("UPDATE log SET last = last + 1")
            check = LeaseCheck(HeldLeases("one", {"wsp_1": 1}))
            check.add(["wsp_1"], {})
            check.insert_commit(sql, uuid4().hex)
            sql.flush()
            if where == "in a message":
                os.write(sql.raw.fileno(), b"Q\0\0\1\0COMM")
            return sql

        yield stopped


@pytest.mark.promise("W16")
@pytest.mark.parametrize("where", ["between messages", "in a message"])
async def test_others_commit_while_a_server_is_stopped_in_its_commit(
    open_server: OpenServer, stop: Stop, where: str
) -> None:
    await open_server("one", {"wsp_1": 1})
    two = await open_server("two", {"wsp_2": 1})
    await two.commit(new_workspace("wsp_2"))
    stopped = stop(where)
    committed = await two.commit(new_session("ses_2", workspace_id="wsp_2"))
    assert committed.numbers == (1,)
    with pytest.raises(psycopg.errors.IdleInTransactionSessionTimeout):
        stopped.commit()


@pytest.mark.promise("W16")
@pytest.mark.parametrize("where", ["between messages", "in a message"])
async def test_a_server_that_is_stopped_in_its_commit_is_replaced(
    open_server: OpenServer, stop: Stop, postgres_database: str, where: str
) -> None:
    await open_server("one", {"wsp_1": 1})
    two = await open_server("two", {})
    stopped = stop(where)
    with psycopg.connect(postgres_database) as admin:
        admin.execute("UPDATE servers SET expires_at = now() WHERE id = 'one'")
    assert await two.exchange(lambda sql: lease_table.declare_dead(sql, "one"))
    taken = await two.transact(lambda sql: lease_table.take(sql, "wsp_1", server_id="two", kind="owner"))
    assert taken == 2
    with pytest.raises(psycopg.errors.IdleInTransactionSessionTimeout):
        stopped.commit()


@pytest.fixture
def proxy(postgres_database: str, home: Path) -> Iterator[CuttingProxy]:
    proxy = CuttingProxy(home, database=postgres_database)
    yield proxy
    proxy.close()


@pytest.mark.promise("W16")
async def test_no_answer_is_long_while_old_events_are_removed(
    proxy: CuttingProxy, postgres_database: str, tmp_path: Path
) -> None:
    """The log is locked meanwhile. PostgreSQL would wait without end for a stopped server to read a long answer."""
    count = event_log.PRUNE_BATCH + 1
    with psycopg.connect(postgres_database) as admin:
        admin.execute(
            "INSERT INTO events (number, kind, at, body) SELECT n, 'x', '2026-01-01', '' FROM generate_series(1, %s) n",
            (count,),
        )
        admin.execute("UPDATE log SET last = %s", (count,))
    store = await open_postgres_store(proxy.address, home=tmp_path)
    proxy.passed = 0
    assert await store.prune_events(before="2026-02-01") == count
    assert proxy.passed < _SENT_AT_ONCE
    await store.close()
