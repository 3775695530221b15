"""Copy a whole store from SQLite to PostgreSQL, or back. All functions block.

Tables are copied in the order of their keys, some rows at a time, so a copy that was stopped goes on where it was.
Until it is complete the id of the copy's event log has a prefix, and no server opens it. At the end the rows of both
are counted and hashed. The event log keeps its id and its numbers: clients continue with the cursors that they have.
"""

from __future__ import annotations

import hashlib
import re
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import msgspec
import psycopg

from holdfast.errors import BadRequest, StoreDamaged
from holdfast.store.postgres import postgres_schema
from holdfast.store.postgres.connection import PostgresConnection
from holdfast.store.postgres.database_errors import as_store_error
from holdfast.store.postgres.single_owner import SingleOwner
from holdfast.store.rows.migrations import MIGRATIONS
from holdfast.store.rows.sql import Sql
from holdfast.store.sqlite import database_file
from holdfast.store.unfinished_copy import UNFINISHED

_ROWS = 500
_SECONDS = 60.0
_MADE = re.compile(r"CREATE TABLE (\w+)")
_LOG = "log"
_DERIVED: dict[str, frozenset[str]] = {"message_text": frozenset({"indexed"})}
"""Columns that the copy makes anew: the search index."""

Progress: TypeAlias = Callable[[str, int], None]
"""Called with the name of a table and how many of its rows are copied."""


class CopiedTable(NamedTuple):
    name: str
    rows: int
    digest: str


class _Table(NamedTuple):
    name: str
    columns: tuple[str, ...]
    key: tuple[str, ...]

    def select(self, condition: str = "") -> str:
        columns, key = ", ".join(self.columns), ", ".join(self.key)
        return f"SELECT {columns} FROM {self.name} {condition} ORDER BY {key}"  # noqa: S608 - names of our own tables

    @property
    def after(self) -> str:
        return f"WHERE ({', '.join(self.key)}) > ({', '.join('?' for _ in self.key)})"

    @property
    def last_key(self) -> str:
        key, order = ", ".join(self.key), ", ".join(f"{each} DESC" for each in self.key)
        return f"SELECT {key} FROM {self.name} ORDER BY {order} LIMIT 1"  # noqa: S608 - the same

    @property
    def insert(self) -> str:
        columns, places = ", ".join(self.columns), ", ".join("?" for _ in self.columns)
        return f"INSERT INTO {self.name} ({columns}) VALUES ({places}) ON CONFLICT DO NOTHING"  # noqa: S608 - the same


def copy_to_postgres(database: Path, conninfo: str, *, progress: Progress) -> tuple[CopiedTable, ...]:
    """Copy a SQLite file to an empty PostgreSQL database, or go on with that. No server may use either."""
    with _SqliteEnd(database, is_new=False) as source, _PostgresEnd(conninfo, other=database) as target:
        return _copy(source, target, tables=source.tables(), progress=progress)


def copy_to_sqlite(conninfo: str, database: Path, *, progress: Progress) -> tuple[CopiedTable, ...]:
    """Copy a PostgreSQL database to a new SQLite file, or go on with that. No server may use either."""
    with _SqliteEnd(database, is_new=True) as target, _PostgresEnd(conninfo, other=database) as source:
        return _copy(source, target, tables=target.tables(), progress=progress)


def _copy(source: _End, target: _End, *, tables: list[_Table], progress: Progress) -> tuple[CopiedTable, ...]:
    log_id, last, pruned = _identity(source.sql)
    if log_id.startswith(UNFINISHED):
        raise StoreDamaged("a copy into the source was not finished; finish it first ('holdfast store copy')")
    _claim(target, log_id)
    for table in tables:
        for copied in _copy_table(source, target, table):
            progress(table.name, copied)
    found = tuple(_compare(source, target, table) for table in tables)
    target.begin()
    target.sql.execute("UPDATE log SET id = ?, last = ?, pruned = ?", (log_id, last, pruned))
    target.finish_copy()
    target.commit()
    return found


def _identity(sql: Sql) -> tuple[str, int, int]:
    log_id, last, pruned = sql.execute("SELECT id, last, pruned FROM log").fetchone()
    return str(log_id), int(last), int(pruned)


def _claim(target: _End, log_id: str) -> None:
    """Mark the target as a copy of this source. Raises `BadRequest` if it has sessions of its own."""
    marked = f"{UNFINISHED}{log_id}"
    known, last, _ = _identity(target.sql)
    if known == marked:
        return
    (workspaces,) = target.sql.execute("SELECT count(*) FROM workspaces").fetchone()
    if workspaces or last:
        raise BadRequest("the target has sessions already; copy to an empty database")
    target.begin()
    target.sql.execute("UPDATE log SET id = ?", (marked,))
    target.commit()


def _copy_table(source: _End, target: _End, table: _Table) -> Iterator[int]:
    """Copy the rows that are missing. Yields how many are there."""
    (copied,) = target.sql.execute(f"SELECT count(*) FROM {table.name}").fetchone()  # noqa: S608 - our own table
    if table.name == "sessions":  # parents first: a child refers to them
        for rows in _pages(_sessions_by_depth(source.sql, table)):
            _insert(target, table, rows)
            yield len(rows)
        return
    position = target.sql.execute(table.last_key).fetchone()
    key = [table.columns.index(each) for each in table.key]
    while True:
        if position is None:
            rows = source.sql.execute(f"{table.select()} LIMIT {_ROWS}").fetchall()
        else:
            rows = source.sql.execute(f"{table.select(table.after)} LIMIT {_ROWS}", tuple(position)).fetchall()
        if not rows:
            return
        _insert(target, table, rows)
        source.keep()
        position = tuple(rows[-1][index] for index in key)
        copied += len(rows)
        yield copied


def _sessions_by_depth(sql: Sql, table: _Table) -> list[Any]:
    columns = ", ".join(f"sessions.{each}" for each in table.columns)
    return sql.execute(
        "WITH RECURSIVE tree (id, depth) AS (SELECT id, 0 FROM sessions WHERE parent_id IS NULL "  # noqa: S608 - our own
        "UNION ALL SELECT sessions.id, depth + 1 FROM sessions JOIN tree ON sessions.parent_id = tree.id) "
        f"SELECT {columns} FROM tree JOIN sessions ON sessions.id = tree.id ORDER BY depth, sessions.id"
    ).fetchall()


def _pages(rows: list[Any]) -> Iterator[list[Any]]:
    for start in range(0, len(rows), _ROWS):
        yield rows[start : start + _ROWS]


def _insert(target: _End, table: _Table, rows: list[Any]) -> None:
    target.begin()
    target.sql.executemany(table.insert, [tuple(row) for row in rows])
    target.commit()


def _compare(source: _End, target: _End, table: _Table) -> CopiedTable:
    here, there = _digest(source, table), _digest(target, table)
    if here != there:
        raise StoreDamaged(
            f"the copy of the table {table.name!r} differs: {here.rows} rows became {there.rows}; nothing of the "
            "source was changed: empty the target and copy again"
        )
    return there


def _digest(end: _End, table: _Table) -> CopiedTable:
    digest = hashlib.sha256()
    count = 0
    for rows in end.pages(table):
        for row in rows:
            digest.update(msgspec.msgpack.encode([int(value) if isinstance(value, bool) else value for value in row]))
            count += 1
    return CopiedTable(table.name, count, digest.hexdigest())


class _End:
    """One of the two databases."""

    sql: Sql

    def begin(self) -> None:
        raise NotImplementedError

    def commit(self) -> None:
        raise NotImplementedError

    def finish_copy(self) -> None:
        """Set what is not in the rows of shared tables."""

    def keep(self) -> None:
        """Stay the owner during a long copy."""

    def pages(self, table: _Table) -> Iterator[list[Any]]:
        """All rows of a table in the order of its key."""
        raise NotImplementedError


class _SqliteEnd(_End):
    def __init__(self, path: Path, *, is_new: bool) -> None:
        self._path = path
        self._is_new = is_new

    def __enter__(self) -> _SqliteEnd:
        if not self._is_new and not self._path.is_file():
            raise BadRequest(f"there is no database {str(self._path)!r}")
        database_file.prepare_directory(self._path)
        self._lock = database_file.OwnerLock(self._path)
        try:
            database_file.prepare_file(self._path)
            database_file.inspect(self._path)
            self._connection = database_file.open_writer(self._path)
            self._connection.execute("PRAGMA foreign_keys = OFF")
        except BaseException:
            self._lock.release()
            raise
        self.sql = self._connection
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()
        self._lock.release()

    def tables(self) -> list[_Table]:
        names = [name for statements in MIGRATIONS for text in statements for name in _MADE.findall(text)]
        return [self._table(name) for name in names if name != _LOG]

    def _table(self, name: str) -> _Table:
        columns = self._connection.execute("SELECT name, pk FROM pragma_table_info(?) ORDER BY cid", (name,)).fetchall()
        key = tuple(column for column, place in sorted(columns, key=lambda each: each[1]) if place)
        left_out = _DERIVED.get(name, frozenset())
        return _Table(name, tuple(column for column, _ in columns if column not in left_out), key)

    def begin(self) -> None:
        self._connection.execute("BEGIN IMMEDIATE")

    def commit(self) -> None:
        self._connection.execute("COMMIT")

    def finish_copy(self) -> None:
        self._lock.set_used(used=True)

    def pages(self, table: _Table) -> Iterator[list[Any]]:
        rows = self._connection.execute(table.select())
        while page := rows.fetchmany(_ROWS):
            yield page


class _PostgresEnd(_End):
    def __init__(self, conninfo: str, *, other: Path) -> None:
        """``other``: the file at the other end, which is locked: so a copy that was killed can go on at once."""
        self._conninfo = conninfo
        self._home_id = f"copy {socket.gethostname()} {other}"

    def __enter__(self) -> _PostgresEnd:
        try:
            self._connection = PostgresConnection.open(self._conninfo)
            postgres_schema.migrate(self._connection)
            self._owner = SingleOwner(home_id=self._home_id)
            self.begin()
            self._owner.acquire(self._connection)
            self.commit()
        except psycopg.Error as error:
            raise as_store_error(error) from error
        self.sql = self._connection
        return self

    def __exit__(self, kind: object, error: BaseException | None, _: object) -> None:
        try:
            if not self._connection.is_broken:
                self._connection.rollback()
                self.begin()
                self._owner.release(self._connection)
                self._connection.commit()
        finally:
            self._connection.close()
        if isinstance(error, psycopg.Error):
            raise as_store_error(error) from error

    def begin(self) -> None:
        self._connection.begin(seconds=_SECONDS)

    def commit(self) -> None:
        self._connection.commit()

    def keep(self) -> None:
        self.begin()
        self._owner.renew(self._connection)
        self.commit()

    def finish_copy(self) -> None:
        for (table,) in self._connection.execute(
            "SELECT table_name FROM information_schema.columns "
            "WHERE table_schema = current_schema() AND column_name = 'n' AND is_identity = 'YES'"
        ).fetchall():
            self._connection.execute(
                f"SELECT setval(pg_get_serial_sequence('{table}', 'n'), "  # noqa: S608 - names of our own tables
                f"(SELECT coalesce(max(n), 0) + 1 FROM {table}), false)"
            )
        self._connection.execute(
            "SELECT setval('session_activity', (SELECT coalesce(max(activity), 0) + 1 FROM sessions), false)"
        )

    def pages(self, table: _Table) -> Iterator[list[Any]]:
        self._connection.begin(seconds=_SECONDS)
        self._connection.execute(f"DECLARE compared CURSOR FOR {table.select()}")
        while page := self._connection.execute(f"FETCH {_ROWS} FROM compared").fetchall():
            yield page
        self._connection.rollback()
        self.keep()
