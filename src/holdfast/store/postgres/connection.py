"""`PostgresConnection`: an `Sql` over psycopg that sends statements late and together.

A statement is sent when its result is needed, with all statements before it, in one message of the simple protocol. So
a batch costs as many round trips as it has reads, and a statement's error may appear at a later one of the same
transaction. Nothing depends on the session: settings are local to transactions, nothing is prepared. Only one thread
may use a connection at a time. All functions block.

A statement that takes long is no loss, but a database that says nothing at all is one (`SilentDatabase`): while an
answer is missing, a second connection asks from time to time.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

import psycopg
from psycopg import pq

from holdfast.store.postgres.dialect import Expression, bind

T = TypeVar("T")

CONNECT_SECONDS = 5.0
_SHORTEST_CONNECT_SECONDS = 2.0
"""libpq waits at least so long for a connection."""
_SLACK_SECONDS = 2.0
"""How much longer than the database itself a client waits for the end of a statement."""
_ASK_SECONDS = 3.0
"""How long an answer is missing before a second connection asks whether the database answers at all."""
_ANSWER_SECONDS = 2
"""How long that one waits for a connection, and for its answer."""
_UNACKNOWLEDGED_MILLISECONDS = 4000
"""How long sent bytes may be on their way: then a firewall or a cut cable has ended the connection without a word."""
_POLL_SECONDS = 0.5
_SHORTEST_POLL_SECONDS = 0.01
_IDLE_MILLISECONDS = 1500
"""How long a transaction may wait for its client. One that was paused in it must not hold the locks of all others."""


_LARGE_BYTES = 4 << 20
"""Buffers for longer messages and values are not kept."""
_BYTEA = 17

_LAST_DRAWN = Expression("lastval()")


class PostgresRows:
    """The result of a statement that may not have been sent yet."""

    __slots__ = ("_connection", "_index", "count", "rows")

    def __init__(self, connection: PostgresConnection) -> None:
        self._connection = connection
        self._index = 0
        self.rows: list[Any] | None = None
        self.count = -1

    def _ready(self) -> list[Any]:
        if self.rows is None:
            self._connection.flush()
        assert self.rows is not None, "the result of a statement that was rolled back"
        return self.rows

    def fetchone(self) -> Any:
        rows = self._ready()
        if self._index >= len(rows):
            return None
        self._index += 1
        return rows[self._index - 1]

    def fetchall(self) -> list[Any]:
        rows = self._ready()[self._index :]
        self._index += len(rows)
        return rows

    def __iter__(self) -> Iterator[Any]:
        return iter(self.fetchall())

    @property
    def rowcount(self) -> int:
        self._ready()
        return self.count

    @property
    def lastrowid(self) -> Any:
        """The number that this INSERT drew, as an expression for the next statement."""
        return _LAST_DRAWN


class SilentDatabase(psycopg.OperationalError):
    """The database did not answer in time, or says nothing to new connections either."""

    def __init__(self, *, since: float) -> None:
        super().__init__("the database did not answer in time")
        self.since = since
        """When the answer was first waited for, by the steady clock."""


class _TimedConnection(psycopg.Connection[Any]):
    """Gives up when the database does not answer until ``deadline``, or does not answer at all."""

    deadline = float("inf")
    database_answers: Callable[[], bool] | None = None
    """Asks over another connection. Blocks."""

    def wait(self, gen: Generator[Any, Any, T], interval: float = _POLL_SECONDS, timeout: float | None = None) -> T:
        left = max(self.deadline - time.monotonic(), 0.0)
        interval = min(interval, _POLL_SECONDS, left / 4 + _SHORTEST_POLL_SECONDS)
        return super().wait(self._until_deadline(gen), interval=interval, timeout=timeout)

    def _until_deadline(self, gen: Generator[Any, Any, T]) -> Generator[Any, Any, T]:
        began = asked = time.monotonic()
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                if ready:
                    wanted = gen.send(ready)
                    continue
                now = time.monotonic()
                if now > self.deadline:
                    raise SilentDatabase(since=began)
                if self.database_answers is not None and now - asked >= _ASK_SECONDS and self.deadline < float("inf"):
                    if not self.database_answers():
                        raise SilentDatabase(since=began)
                    asked = time.monotonic()
        except StopIteration as end:
            result: T = end.value
            return result


class PostgresConnection:
    """One connection. `begin`, then `execute`, then `commit` or `rollback`."""

    def __init__(self, raw: psycopg.Connection[Any]) -> None:
        self._raw = raw
        self._cursor = raw.cursor()
        self._escaping = pq.Escaping(raw.pgconn)
        self._waiting: list[tuple[bytes, PostgresRows]] = []
        self._mark = 0
        self._mark_sent = True
        """Where the savepoint is among what is waiting, or whether it was sent."""
        self.has_large_buffers = False
        """Whether to close it after its transaction: a connection keeps its buffers until then."""

    @classmethod
    def open(cls, conninfo: str, *, read_write: bool = True, answer_seconds: float | None = None) -> PostgresConnection:
        """Connect. Raises `psycopg.OperationalError`.

        With ``answer_seconds`` a connection that leads nowhere is given up as soon as that, also while it is made.
        """
        options: dict[str, Any] = {
            "application_name": "holdfast",
            "client_encoding": "UTF8",
            "connect_timeout": int(CONNECT_SECONDS),
            "keepalives_idle": 10,
            "keepalives_interval": 5,
            "keepalives_count": 3,
            "tcp_user_timeout": _UNACKNOWLEDGED_MILLISECONDS,
        }
        given = psycopg.conninfo.conninfo_to_dict(conninfo)
        if read_write and "," in str(given.get("host") or given.get("hostaddr") or ""):
            options["target_session_attrs"] = "read-write"
        options = {name: value for name, value in options.items() if name not in given}
        if answer_seconds is not None:
            options["connect_timeout"] = int(min(max(answer_seconds, _SHORTEST_CONNECT_SECONDS), CONNECT_SECONDS))
            options["tcp_user_timeout"] = int(answer_seconds * 1000)
        began = time.monotonic()
        try:
            raw = _TimedConnection.connect(conninfo, autocommit=True, prepare_threshold=None, **options)
        except psycopg.errors.ConnectionTimeout as error:
            raise SilentDatabase(since=began) from error
        if answer_seconds is None:
            raw.database_answers = partial(_database_answers, conninfo, options)
        return cls(raw)

    @property
    def raw(self) -> psycopg.Connection[Any]:
        return self._raw

    @property
    def is_broken(self) -> bool:
        return self._raw.closed

    @property
    def in_transaction(self) -> bool:
        return not self.is_broken and self._raw.info.transaction_status != pq.TransactionStatus.IDLE

    def begin(self, *, seconds: float, read_only: bool = False, slack: float | None = None) -> None:
        """Begin a transaction whose statements take at most so long, with their waits for locks.

        ``slack``: how much longer their answer is waited for, if not as long as usual.
        """
        self._set_deadline(seconds, slack=slack)
        milliseconds = int(seconds * 1000)
        mode = "ISOLATION LEVEL REPEATABLE READ READ ONLY" if read_only else "ISOLATION LEVEL READ COMMITTED"
        self.execute(f"BEGIN {mode}")
        self.execute(f"SET LOCAL statement_timeout = {milliseconds}")
        self.execute(f"SET LOCAL idle_in_transaction_session_timeout = {_IDLE_MILLISECONDS}")

    def _set_deadline(self, seconds: float, *, slack: float | None = None) -> None:
        if isinstance(self._raw, _TimedConnection):
            self._raw.deadline = time.monotonic() + seconds + (_SLACK_SECONDS if slack is None else slack)

    def query(self, statement: str, *, seconds: float) -> list[Any]:
        """Run one statement that is a transaction of its own. Returns its rows."""
        self._set_deadline(seconds)
        cursor = self._cursor.execute(statement.encode())
        rows = cursor.fetchall() if cursor.description is not None else []
        self._set_deadline(float("inf"))  # who waits for notices waits as long as it takes
        return rows

    def commit(self) -> None:
        self.execute("COMMIT")
        self.flush()

    def rollback(self) -> None:
        """Undo the transaction, and forget what was not sent."""
        self._waiting.clear()
        if self.in_transaction:
            self.execute("ROLLBACK")
            self.flush()

    def execute(self, sql: str, parameters: Sequence[Any] | Mapping[str, Any] = (), /) -> PostgresRows:
        rows = PostgresRows(self)
        self._waiting.append((bind(sql, parameters, self._quote), rows))
        return rows

    def executemany(self, sql: str, parameters: Iterable[Any], /) -> PostgresRows:
        rows = PostgresRows(self)
        rows.rows = []
        for each in parameters:
            rows = self.execute(sql, each)
        return rows

    def _quote(self, text: str) -> bytes:
        return bytes(self._escaping.escape_literal(text.encode()))

    def savepoint(self) -> None:
        self._mark, self._mark_sent = len(self._waiting), False
        self.execute("SAVEPOINT batch")

    def roll_back_to_savepoint(self) -> None:
        """Undo what came after the savepoint. Works after an error, too."""
        if self._mark_sent:
            self._waiting.clear()
            self.execute("ROLLBACK TO batch")
        else:
            del self._waiting[self._mark :]

    def flush(self) -> None:
        """Send what is waiting, and store the results. Raises the first error."""
        if not self._waiting:
            return
        self._mark_sent = True
        waiting, self._waiting = self._waiting, []
        cursor = self._cursor
        message = b";\n".join(statement for statement, _ in waiting)
        self.has_large_buffers |= len(message) >= _LARGE_BYTES
        cursor.execute(message)
        for index, (_, rows) in enumerate(waiting):
            if index:
                cursor.nextset()
            rows.count = cursor.rowcount
            rows.rows = cursor.fetchall() if cursor.description is not None else []
            if rows.rows and cursor.pgresult is not None:
                self.has_large_buffers |= _has_large_value(rows.rows, cursor.pgresult)

    def interrupt(self) -> None:
        """End what another thread waits for on this connection. The connection is of no use afterwards."""
        with suppress(OSError, psycopg.Error), socket.socket(fileno=os.dup(self._raw.fileno())) as copy:
            copy.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        with suppress(psycopg.Error):
            self._raw.close()


def _database_answers(conninfo: str, options: Mapping[str, Any]) -> bool:
    """Whether the database says something to a new connection, and be it that it refuses it."""
    options = {**options, "connect_timeout": _ANSWER_SECONDS}
    try:
        with _TimedConnection.connect(conninfo, autocommit=True, prepare_threshold=None, **options) as raw:
            raw.deadline = time.monotonic() + _ANSWER_SECONDS
            raw.execute("SELECT 1")
    except (psycopg.errors.ConnectionTimeout, SilentDatabase):
        return False
    except psycopg.Error:
        return True
    return True


def _has_large_value(rows: list[Any], result: pq.abc.PGresult) -> bool:
    columns = [column for column in range(result.nfields) if result.ftype(column) == _BYTEA]
    return any(row[column] is not None and len(row[column]) >= _LARGE_BYTES for column in columns for row in rows)
