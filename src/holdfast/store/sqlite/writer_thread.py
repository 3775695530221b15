"""The one thread that writes: batches that wait go into one durable commit together.

Each batch of a group stands in its own savepoint, so that a conflict in one does not hurt the others; if the commit
itself fails, none of them happened. Outcomes reach the loop in one call per group, in commit order.

The writer also indexes new text for searching and checkpoints, and nobody else does: now and then when it has nothing
else to do, so that nobody waits for it. SQLite's own threshold bounds the write-ahead log under load; readers are
short, so a passive checkpoint gets all the way.
"""

from __future__ import annotations

import asyncio
import logging
import queue
import sqlite3
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias

from holdfast.errors import StoreConflict, StoreUnwritable
from holdfast.files import file_identity
from holdfast.store.sqlite import event_log
from holdfast.store.sqlite.messages import has_new_text, has_search_index, index_new
from holdfast.store.sqlite.transaction import Counters, Transaction
from holdfast.store.sqlite.write_dispatch import apply
from holdfast.store.writes import Batch, Committed

_logger = logging.getLogger(__name__)

GROUP = 128
"""How many batches may share a commit."""
TIDY_COMMITS = 200
"""After so many commits the writer tidies up as soon as nothing waits."""

Outcome: TypeAlias = Committed | BaseException


class BatchJob:
    __slots__ = ("batch", "future")

    def __init__(self, batch: Batch, future: asyncio.Future[Committed]) -> None:
        self.batch = batch
        self.future = future


class ChoreJob:
    """Maintenance: a function in a transaction of its own."""

    __slots__ = ("chore", "future")

    def __init__(self, chore: Callable[[sqlite3.Connection], Any], future: asyncio.Future[Any]) -> None:
        self.chore = chore
        self.future = future


Job: TypeAlias = BatchJob | ChoreJob
Deliver: TypeAlias = Callable[[list[tuple[BatchJob, Outcome]]], None]


class Writer:
    """Owns the writing connection from its own thread; everything else is told through the loop."""

    def __init__(
        self, connection: sqlite3.Connection, *, path: Path, loop: asyncio.AbstractEventLoop, deliver: Deliver
    ) -> None:
        self._sql = connection
        self._path = path
        self._file = file_identity(path)
        self._untidy = TIDY_COMMITS if has_new_text(connection) else 0
        self._loop = loop
        self._deliver = deliver
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._has_search = has_search_index(connection)
        (activity,) = connection.execute("SELECT coalesce(max(activity), 0) FROM sessions").fetchone()
        self._counters = Counters(last=event_log.last_number(connection), activity=activity)
        self._thread = threading.Thread(target=self._run, name="store-writer", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def submit(self, job: Job) -> None:
        self._jobs.put(job)

    def stop(self) -> None:
        """Commits what waits, checkpoints, closes. Blocks until done."""
        self._jobs.put(None)
        self._thread.join()

    def _run(self) -> None:
        going = True
        while going:
            job = self._jobs.get()
            group: list[BatchJob] = []
            while True:
                match job:
                    case None:
                        going = False
                        break
                    case ChoreJob():
                        self._commit_group(group)
                        group = []
                        self._do_chore(job)
                    case BatchJob():
                        group.append(job)
                if len(group) >= GROUP:
                    break
                try:
                    job = self._jobs.get_nowait()
                except queue.Empty:
                    break
            self._commit_group(group)
            self._untidy += 1
            if self._untidy >= TIDY_COMMITS and self._jobs.empty():
                self._untidy = 0
                self._tidy()
        self._close()

    def _commit_group(self, group: list[BatchJob]) -> None:
        if not group:
            return
        before = self._counters.last
        try:
            outcomes = self._try_group(group)
        except Exception as error:  # noqa: BLE001 - the senders hear of it, and the writer lives on
            self._counters.last = before
            self._roll_back()
            outcomes = [(job, _as_store_error(error)) for job in group]
        self._loop.call_soon_threadsafe(self._deliver, outcomes)

    def _try_group(self, group: list[BatchJob]) -> list[tuple[BatchJob, Outcome]]:
        before = self._counters.last
        self._require_file()
        self._sql.execute("BEGIN IMMEDIATE")
        if len(group) == 1:
            outcomes: list[tuple[BatchJob, Outcome]] = [(group[0], self._apply(group[0].batch))]
        else:
            outcomes = [(job, self._try_batch(job.batch)) for job in group]
        if self._counters.last != before:
            event_log.remember_last(self._sql, self._counters.last)
        self._sql.execute("COMMIT")
        return outcomes

    def _require_file(self) -> None:
        """SQLite goes on writing to a file that was deleted or replaced; what is answered must be found again."""
        if file_identity(self._path) != self._file:
            raise StoreUnwritable(
                f"the database {str(self._path)!r} was removed or replaced while it was in use; put it back, or stop "
                "the server and start it again",
                detail={"path": str(self._path)},
            )

    def _try_batch(self, batch: Batch) -> Outcome:
        """The batch's outcome if the group commits. Raises when the whole transaction is lost."""
        before = self._counters.last
        self._sql.execute("SAVEPOINT batch")
        try:
            outcome: Outcome = self._apply(batch)
        except Exception as error:
            if not self._sql.in_transaction:
                raise
            self._sql.execute("ROLLBACK TO batch")
            self._counters.last = before
            outcome = _as_store_error(error)
        self._sql.execute("RELEASE batch")
        return outcome

    def _apply(self, batch: Batch) -> Committed:
        transaction = Transaction(self._sql, counters=self._counters)
        for write in batch.writes:
            apply(transaction, write)
        events = event_log.append(transaction, batch.events)
        return Committed(numbers=tuple(event.number for event in events), events=events, seqs=transaction.seqs)

    def _do_chore(self, job: ChoreJob) -> None:
        try:
            self._sql.execute("BEGIN IMMEDIATE")
            result = job.chore(self._sql)
            self._sql.execute("COMMIT")
        except Exception as error:  # noqa: BLE001 - the sender hears of it, and the writer lives on
            self._roll_back()
            self._loop.call_soon_threadsafe(settle, job.future, None, _as_store_error(error))
        else:
            self._loop.call_soon_threadsafe(settle, job.future, result, None)

    def _roll_back(self) -> None:
        """Back to before the transaction; SQLite may have done so already."""
        with suppress(sqlite3.Error):
            if self._sql.in_transaction:
                self._sql.execute("ROLLBACK")

    def _tidy(self) -> None:
        """What can wait. If it fails, commits go on, and it is tried again later."""
        try:
            while self._has_search and self._index_some() and self._jobs.empty():
                pass
            self._sql.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        except sqlite3.Error as error:
            self._roll_back()
            _logger.warning("the database could not be tidied: %s; commits go on", error)

    def _index_some(self) -> bool:
        """Whether there was anything to index."""
        self._sql.execute("BEGIN IMMEDIATE")
        count = index_new(self._sql)
        self._sql.execute("COMMIT")
        return count > 0

    def _close(self) -> None:
        self._tidy()
        try:
            self._sql.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        except sqlite3.Error as error:
            _logger.warning("the database could not be checkpointed at the end: %s; the next start does it", error)
        self._sql.close()


def settle(future: asyncio.Future[Any], result: object, error: BaseException | None) -> None:
    """On the loop: answer a waiter that may have left."""
    if future.done():
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)


def _as_store_error(error: BaseException) -> BaseException:
    """What SQLite said, as the tree's leaf; a bug stays the exception it is."""
    match error:
        case sqlite3.IntegrityError():
            return _caused(StoreConflict(f"a condition of the ledger does not hold: {error}"), error)
        case sqlite3.ProgrammingError() | sqlite3.InterfaceError():
            return error
        case sqlite3.Error():
            name = getattr(error, "sqlite_errorname", None) or type(error).__name__
            return _caused(
                StoreUnwritable(
                    f"the ledger cannot be written: {error}; nothing was changed: free space on its disk or check it",
                    detail={"cause": name},
                ),
                error,
            )
        case _:
            return error


def _caused(error: BaseException, cause: BaseException) -> BaseException:
    error.__cause__ = cause
    return error
