"""The threads that own the connections: one writer and a few readers.

The writer puts all waiting batches into one durable commit. Each batch of a group has its own savepoint, so that a
conflict in one does not affect the others. If the commit itself fails, none of them is applied. The event loop gets the
outcomes of a group in one call, in commit order.

The writer also indexes new text for the search and runs the checkpoints, from time to time, when no batch waits. Under
load SQLite's own threshold limits the write-ahead log. Reads are short, so a passive checkpoint completes.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from holdfast.errors import StoreConflict, StoreDamaged, StoreLocked, StoreUnwritable
from holdfast.files import file_identity
from holdfast.store import writes as w
from holdfast.store.pending_work import BatchOutcome, PendingBatch, WorkQueue, settle
from holdfast.store.rows import event_log, messages
from holdfast.store.rows.apply_write import apply_write
from holdfast.store.rows.transaction import Counters, Transaction
from holdfast.store.sqlite.database_file import BUSY_MESSAGE, Connect, is_busy, why_not_opened
from holdfast.store.sqlite.search_index import FTS5_INDEX
from holdfast.store.sqlite.space_reserve import SpaceReserve, is_disk_full
from holdfast.tasks import CallThreads

_logger = logging.getLogger(__name__)

T = TypeVar("T")

MAINTENANCE_COMMITS = 200
"""After this many commits the writer does maintenance as soon as no batch waits."""
FOREIGN_LOCK_SECONDS = 5.0
"""How long commits wait for another process that holds the write lock. Then they are refused until it is gone."""
_BUSY_POLL_MILLISECONDS = 100
_READERS = 3


class PendingFunction:
    """A function that the writer calls, such as pruning, in a transaction of its own unless it makes one itself."""

    __slots__ = ("function", "future", "transaction")

    def __init__(
        self, function: Callable[[sqlite3.Connection], Any], future: asyncio.Future[Any], *, transaction: bool = True
    ) -> None:
        self.function = function
        self.future = future
        self.transaction = transaction


PendingWork: TypeAlias = PendingBatch | PendingFunction
Deliver: TypeAlias = Callable[[list[tuple[PendingBatch, BatchOutcome]]], None]


class WriterThread:
    """Owns the only connection that writes. Results go back through the event loop."""

    def __init__(
        self, connection: sqlite3.Connection, *, path: Path, loop: asyncio.AbstractEventLoop, deliver: Deliver
    ) -> None:
        self._sql = connection
        self._path = path
        self._file = file_identity(path)
        self._commits = MAINTENANCE_COMMITS if messages.has_new_text(connection) else 0
        """Commits since the last maintenance."""
        self._loop = loop
        self._deliver = deliver
        self._queue: WorkQueue[PendingFunction] = WorkQueue()
        self._has_search = FTS5_INDEX.exists(connection)
        (activity,) = connection.execute("SELECT coalesce(max(activity), 0) FROM sessions").fetchone()
        self._counters = Counters(last=event_log.last_number(connection), activity=activity)
        self._reserve = SpaceReserve(path)
        self._busy_since = self._last_busy = -FOREIGN_LOCK_SECONDS
        """When another process was first and last found to hold the write lock."""
        connection.execute(f"PRAGMA busy_timeout = {_BUSY_POLL_MILLISECONDS}")
        self._thread = threading.Thread(target=self._run, name="store-writer", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def submit(self, work: PendingWork) -> None:
        self._queue.put(work)

    def stop(self) -> None:
        """Commit what is waiting, checkpoint and close. Blocks until done."""
        self._queue.end()
        self._thread.join()

    def _run(self) -> None:
        for work in self._queue.groups():
            if isinstance(work, PendingFunction):
                self._call(work)
            else:
                self._commit_group(work)
            del work  # the next one may come late, and this one may be large
            self._commits += 1
            if self._commits >= MAINTENANCE_COMMITS and not self._queue.count_waiting():
                self._commits = 0
                self._maintain()
        self._close()

    def _commit_group(self, group: list[PendingBatch]) -> None:
        if self._reserve.held or self._reserve.make():
            outcomes = self._attempt(group)
        else:
            outcomes = [(pending, _disk_full()) for pending in group if not pending.batch.uses_reserve]
            outcomes += self._attempt([pending for pending in group if pending.batch.uses_reserve])
            self._reuse_log()
        again = [pending for pending, outcome in outcomes if _may_use_reserve(pending, outcome)]
        if again and self._reserve.held:
            self._reserve.release()
            outcomes = [(pending, outcome) for pending, outcome in outcomes if pending not in again]
            outcomes += self._attempt(again)
            self._reuse_log()
        self._loop.call_soon_threadsafe(self._deliver, outcomes)

    def _reuse_log(self) -> None:
        """Checkpoint on a full disk, so that the next commit overwrites the write-ahead log instead of growing it."""
        with suppress(sqlite3.Error):
            self._sql.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()

    def _attempt(self, group: list[PendingBatch]) -> list[tuple[PendingBatch, BatchOutcome]]:
        if not group:
            return []
        before = self._counters.last
        try:
            return self._try_group(group)
        except Exception as error:  # noqa: BLE001 - the callers get it, and the writer continues
            self._counters.last = before
            self._roll_back()
            return [(pending, _as_store_error(error)) for pending in group]

    def _try_group(self, group: list[PendingBatch]) -> list[tuple[PendingBatch, BatchOutcome]]:
        before = self._counters.last
        self._require_file()
        self._begin()
        if len(group) == 1:
            outcomes: list[tuple[PendingBatch, BatchOutcome]] = [(group[0], self._apply(group[0].batch))]
        else:
            outcomes = [(pending, self._try_batch(pending.batch)) for pending in group]
        if self._counters.last != before:
            event_log.set_last_number(self._sql, self._counters.last)
        self._sql.execute("COMMIT")
        return outcomes

    def _begin(self) -> None:
        """Take the write lock. If another process has it, wait once for all batches, not once for each group."""
        while True:
            try:
                self._sql.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError as error:
                now = time.monotonic()
                if not is_busy(error):
                    raise
                if now - self._last_busy > FOREIGN_LOCK_SECONDS:
                    self._busy_since = now
                self._last_busy = now
                if now - self._busy_since >= FOREIGN_LOCK_SECONDS:
                    raise
            else:
                return

    def _require_file(self) -> None:
        """SQLite continues to write to a file that was deleted or replaced, and such a commit would be lost."""
        if file_identity(self._path) != self._file:
            raise StoreUnwritable(
                f"the database {str(self._path)!r} was removed or replaced while it was in use; put it back, or "
                "restart the server",
                code="store_removed",
                detail={"path": str(self._path)},
            )

    def _try_batch(self, batch: w.Batch) -> BatchOutcome:
        """Return the batch's outcome if the group commits. Raises if the whole transaction is lost."""
        before = self._counters.last
        self._sql.execute("SAVEPOINT batch")
        try:
            outcome: BatchOutcome = self._apply(batch)
        except Exception as error:
            if not self._sql.in_transaction:
                raise
            self._sql.execute("ROLLBACK TO batch")
            self._counters.last = before
            outcome = _as_store_error(error)
        self._sql.execute("RELEASE batch")
        return outcome

    def _apply(self, batch: w.Batch) -> w.Committed:
        transaction = Transaction(self._sql, counters=self._counters, search=FTS5_INDEX, events=batch.events)
        for write in batch.writes:
            apply_write(transaction, write)
        events = event_log.append(transaction, batch.events)
        return w.Committed(numbers=tuple(event.number for event in events), events=events, seqs=transaction.seqs)

    def _call(self, work: PendingFunction) -> None:
        try:
            if work.transaction:
                self._begin()
            result = work.function(self._sql)
            if work.transaction:
                self._sql.execute("COMMIT")
        except Exception as error:  # noqa: BLE001 - the caller gets it, and the writer continues
            self._roll_back()
            self._loop.call_soon_threadsafe(settle, work.future, None, _as_store_error(error))
        else:
            self._loop.call_soon_threadsafe(settle, work.future, result, None)

    def _roll_back(self) -> None:
        """Undo the transaction, unless SQLite has done so already."""
        with suppress(sqlite3.Error):
            if self._sql.in_transaction:
                self._sql.execute("ROLLBACK")

    def _maintain(self) -> None:
        """Index new text and checkpoint. After a failure commits continue, and the next maintenance tries again."""
        try:
            while self._has_search and self._index_some() and not self._queue.count_waiting():
                pass
            self._sql.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        except sqlite3.Error as error:
            self._roll_back()
            _logger.warning("database maintenance failed: %s; commits continue", error)

    def _index_some(self) -> bool:
        """Return whether there was text to index."""
        self._sql.execute("BEGIN IMMEDIATE")
        count = messages.index_new_text(self._sql, FTS5_INDEX)
        self._sql.execute("COMMIT")
        return count > 0

    def _close(self) -> None:
        self._maintain()
        try:
            self._sql.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        except sqlite3.Error as error:
            _logger.warning("the last checkpoint of the database failed: %s; the next start repeats it", error)
        self._sql.close()


class ReaderThreads:
    """Threads that read, each on its own read-only connection, each read in one transaction."""

    def __init__(self, path: Path, *, connect: Connect) -> None:
        self._path = path
        self._connect = connect
        self._threads = CallThreads(_READERS, name="store-reader")
        self._local = threading.local()
        self._connections: list[sqlite3.Connection] = []
        self._connections_lock = threading.Lock()
        self._closed = False

    async def read(self, query: Callable[[sqlite3.Connection], T]) -> T:
        """Return the result of the query, which sees one state of the database."""
        if self._closed:
            raise StoreUnwritable("the database is closed: the server is stopping")
        return await self._threads.call(partial(self._read, query))

    def close(self) -> None:
        """Blocks until running reads have ended."""
        self._closed = True
        self._threads.close()
        for connection in self._connections:
            connection.close()

    def _read(self, query: Callable[[sqlite3.Connection], T]) -> T:
        try:
            sql = self._connection()
            sql.execute("BEGIN")
            try:
                return query(sql)
            finally:
                if sql.in_transaction:
                    sql.execute("ROLLBACK")
        except sqlite3.OperationalError as error:
            if is_busy(error):
                raise StoreLocked(BUSY_MESSAGE) from error
            reason = why_not_opened(error, self._path) or error
            raise StoreUnwritable(
                f"the database {str(self._path)!r} cannot be read: {reason}; check its disk"
            ) from reason
        except sqlite3.DatabaseError as error:
            raise StoreDamaged(
                f"the database {str(self._path)!r} cannot be read: {error}; restore a backup of it (`holdfast restore`)"
            ) from error

    def _connection(self) -> sqlite3.Connection:
        found: sqlite3.Connection | None = getattr(self._local, "sql", None)
        if found is None:
            found = self._local.sql = self._connect(self._path, read_only=True)
            with self._connections_lock:
                self._connections.append(found)
        return found


def _as_store_error(error: BaseException) -> BaseException:
    """Turn an error of SQLite into ours. A bug keeps its exception."""
    match error:
        case sqlite3.IntegrityError():
            return _with_cause(StoreConflict(f"a constraint of the database does not hold: {error}"), error)
        case sqlite3.ProgrammingError() | sqlite3.InterfaceError():
            return error
        case sqlite3.OperationalError() if is_busy(error):
            return _with_cause(StoreLocked(BUSY_MESSAGE), error)
        case sqlite3.Error():
            name = getattr(error, "sqlite_errorname", None) or type(error).__name__
            return _with_cause(
                StoreUnwritable(
                    f"the database cannot be written: {error}; nothing was changed: free space on its disk or check it",
                    detail={"cause": name},
                ),
                error,
            )
        case _:
            return error


def _may_use_reserve(pending: PendingBatch, outcome: BatchOutcome) -> bool:
    return pending.batch.uses_reserve and isinstance(outcome, StoreUnwritable) and is_disk_full(outcome.__cause__)


def _disk_full() -> StoreUnwritable:
    return StoreUnwritable(
        "the database cannot be written: its disk is full, and the space that is left is for cancels and ends; nothing "
        "was changed: free some space",
        detail={"cause": "reserve"},
    )


def _with_cause(error: BaseException, cause: BaseException) -> BaseException:
    error.__cause__ = cause
    return error
