"""A bounded pool of connections, each used by one thread: for reads, and for short transactions of others.

Renewals have a pool of their own (`exchange`): no read delays them.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeAlias, TypeVar

import psycopg

from holdfast.errors import StoreUnwritable
from holdfast.store.postgres.connection import PostgresConnection, SilentDatabase
from holdfast.store.postgres.database_errors import as_store_error, is_lost, needs_new_connection, unreachable
from holdfast.store.postgres.outage import Outage

T = TypeVar("T")
W = TypeVar("W")

READ_SECONDS = 30.0
"""How long one statement of a read may take."""
RUN_SECONDS = 5.0
_PAUSE_SECONDS = 0.1

Open = Callable[[], PostgresConnection]
Ask: TypeAlias = Callable[[PostgresConnection], Callable[[], T]]
"""Executes the statements of a transaction without waiting for a result. Returns what reads the results."""


class ReaderPool:
    """Connections are made when they are first needed."""

    def __init__(
        self, open_connection: Open, *, size: int, name: str = "store-reader", outage: Outage | None = None
    ) -> None:
        self._open = open_connection
        self._outage = outage or Outage()
        self._pool = ThreadPoolExecutor(size, thread_name_prefix=name)
        self._local = threading.local()
        self._connections: set[PostgresConnection] = set()
        self._connections_lock = threading.Lock()
        self._closed = threading.Event()

    async def read(self, query: Callable[[PostgresConnection], T], /) -> T:
        """Return the result of the query, which sees one state of the database. Repeated if the connection is lost."""
        began = time.monotonic()
        refused = self._outage.refusal(now=began)
        if refused is not None:
            raise refused
        return await self._submit(partial(self._read, began=began), query)

    async def transact(self, work: Callable[[PostgresConnection], T]) -> T:
        """Run the work in one transaction, once; again if its connection was lost before the commit.

        Raises `StoreUnreachable` if its outcome is not known.
        """
        return await self._submit(self._run, work)

    async def exchange(self, ask: Ask[T], *, seconds: float) -> T:
        """Run a transaction that is sent as one message, once, and give up after so many seconds.

        A connection that does not answer in time is not used again. Raises `StoreUnreachable` and the like.
        """
        return await self._submit(partial(self._exchange, seconds=seconds), ask)

    async def _submit(
        self, function: Callable[[Callable[[PostgresConnection], W]], T], work: Callable[[PostgresConnection], W]
    ) -> T:
        if self._closed.is_set():
            raise StoreUnwritable("the database is closed: the server is stopping")
        return await asyncio.get_running_loop().run_in_executor(self._pool, function, work)

    def close(self) -> None:
        """Blocks until running reads have ended."""
        self._closed.set()
        self._pool.shutdown(wait=True)
        for connection in self._connections:
            connection.close()

    def _read(self, query: Callable[[PostgresConnection], T], *, began: float) -> T:
        """``began``: when it was submitted. Reads that waited for a thread meanwhile do not wait once more."""
        while True:
            if (refused := self._outage.late_refusal(began=began, now=time.monotonic())) is not None:
                raise refused
            try:
                result = self._in_transaction(query, seconds=READ_SECONDS, read_only=True)
            except psycopg.Error as error:
                if not is_lost(error):
                    raise as_store_error(error) from error
                now = time.monotonic()
                self._outage.lost(error, now=now)
                if self._outage.must_give_up(began=began, now=now) or self._closed.wait(_PAUSE_SECONDS):
                    raise unreachable(error) from error
            else:
                self._outage.answered()
                return result

    def _run(self, work: Callable[[PostgresConnection], T]) -> T:
        is_again = False
        while True:
            try:
                return self._in_transaction(work, seconds=RUN_SECONDS, read_only=False)
            except psycopg.Error as error:
                if is_again or not is_lost(error) or isinstance(error, SilentDatabase) or self._local.is_committing:
                    raise as_store_error(error) from error
                is_again = True  # the connection was an old one, and the database may be there

    def _exchange(self, ask: Ask[T], *, seconds: float) -> T:
        try:
            return self._in_transaction(ask, seconds=seconds, read_only=False, slack=0.0)()
        except psycopg.Error as error:
            known = as_store_error(error)
            raise (unreachable(error) if known is error else known) from error

    def _in_transaction(
        self,
        work: Callable[[PostgresConnection], T],
        *,
        seconds: float,
        read_only: bool,
        slack: float | None = None,
    ) -> T:
        self._local.is_committing = False
        sql = self._connection()
        try:
            sql.begin(seconds=seconds, read_only=read_only, slack=slack)
            result = work(sql)
            self._local.is_committing = True
            sql.commit()
        except BaseException as error:
            if needs_new_connection(error):
                self._drop(sql)
            else:
                self._roll_back(sql)
            raise
        if sql.has_large_buffers:
            self._drop(sql)
        return result

    def _roll_back(self, sql: PostgresConnection) -> None:
        try:
            sql.rollback()
        except psycopg.Error:
            self._drop(sql)

    def _connection(self) -> PostgresConnection:
        found: PostgresConnection | None = getattr(self._local, "sql", None)
        if found is None or found.is_broken:
            if found is not None:
                self._drop(found)
            found = self._local.sql = self._open()
            with self._connections_lock:
                self._connections.add(found)
        return found

    def _drop(self, connection: PostgresConnection) -> None:
        connection.close()
        self._local.sql = None
        with self._connections_lock:
            self._connections.discard(connection)
