"""A few threads that read, each on its own read-only connection, each read in one transaction."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from holdfast.errors import StoreDamaged, StoreUnwritable
from holdfast.store.sqlite.database_file import Connect

T = TypeVar("T")

THREADS = 3


class Readers:
    def __init__(self, path: Path, *, connect: Connect) -> None:
        self._path = path
        self._connect = connect
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="store-reader")
        self._mine = threading.local()
        self._all: list[sqlite3.Connection] = []
        self._all_lock = threading.Lock()
        self._closed = False

    async def read(self, query: Callable[[sqlite3.Connection], T]) -> T:
        """The query's answer, all of it from one state of the ledger."""
        if self._closed:
            raise StoreUnwritable("the ledger is closed")
        return await asyncio.get_running_loop().run_in_executor(self._pool, self._in_thread, query)

    def _in_thread(self, query: Callable[[sqlite3.Connection], T]) -> T:
        sql = self._connection()
        try:
            sql.execute("BEGIN")
            try:
                return query(sql)
            finally:
                if sql.in_transaction:
                    sql.execute("ROLLBACK")
        except sqlite3.OperationalError as error:
            raise StoreUnwritable(f"the ledger cannot be read: {error}") from error
        except sqlite3.DatabaseError as error:
            raise StoreDamaged(f"the ledger at {str(self._path)!r} cannot be read: {error}") from error

    def _connection(self) -> sqlite3.Connection:
        found: sqlite3.Connection | None = getattr(self._mine, "sql", None)
        if found is None:
            found = self._mine.sql = self._connect(self._path, read_only=True)
            with self._all_lock:
                self._all.append(found)
        return found

    def close(self) -> None:
        """Blocks until reads that run have answered."""
        self._closed = True
        self._pool.shutdown(wait=True)
        for connection in self._all:
            connection.close()
