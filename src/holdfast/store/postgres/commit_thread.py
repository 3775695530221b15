"""The thread that commits: it owns one connection, puts all waiting batches into one transaction, and numbers events.

**Order.** The events of all servers are numbered by one row, ``log``. A transaction locks it with its last message,
which also contains the events and the COMMIT: so the lock is held for one commit and no round trip, numbers have no
gaps, and a transaction that sees number n sees every smaller one. Batches that wait meanwhile are committed together.
Listeners get the events of other servers before those of a commit that follows them.

**Unknown outcomes.** Each transaction inserts a row with an id of its own into ``commits``. If the answer to the COMMIT
is lost, the thread inserts the same id over a new connection. That waits for the end of the old transaction if it still
runs. If the row is there, the commit has happened; if not, it cannot happen any more, and the group is done again.

**A database that does not answer** is waited for: `WAIT_SECONDS` for all batches together, then they are refused until
it answers again. A batch whose outcome is unknown waits as long as that takes.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple, TypeAlias
from uuid import uuid4

import psycopg

from holdfast.errors import CommitRefused, HoldfastError, OutcomeUnknown, StoreUnreachable
from holdfast.schema.events import read_event
from holdfast.store.pending_work import BatchOutcome, PendingBatch, WorkQueue, settle
from holdfast.store.postgres.connection import PostgresConnection
from holdfast.store.postgres.database_errors import (
    as_store_error,
    has_no_tables,
    is_lease_error,
    is_lost,
    is_refusal,
    lost_since,
    may_repeat,
    needs_new_connection,
    unreachable,
)
from holdfast.store.postgres.known_rows import KnownRows
from holdfast.store.postgres.lease_check import Fences, LeaseCheck
from holdfast.store.postgres.outage import WAIT_SECONDS, Outage
from holdfast.store.postgres.postgres_writes import PostgresTransaction, apply_postgres_write, write_statistics
from holdfast.store.postgres.word_index import WORD_INDEX
from holdfast.store.records import CommittedEvent
from holdfast.store.rows import event_log, messages
from holdfast.store.rows.event_log import NewEvent
from holdfast.store.writes import AddToolUse, AddUsage, Committed

_logger = logging.getLogger(__name__)

COMMIT_SECONDS = 5.0
"""How long a statement of a commit may take, with its wait for locks."""
MAINTENANCE_COMMITS = 200
_PAUSE_SECONDS = 0.05
_REPEATS = 5
_PAGE = 500
CHANNEL = "holdfast_events"


class PendingCall:
    """A function that the thread calls in a transaction of its own, such as pruning."""

    __slots__ = ("function", "future")

    def __init__(self, function: Callable[[PostgresConnection], Any], future: asyncio.Future[Any]) -> None:
        self.function = function
        self.future = future


class PendingFollow:
    """Deliver what other servers have committed."""

    __slots__ = ("future",)

    def __init__(self, future: asyncio.Future[None] | None) -> None:
        self.future = future


PendingItem: TypeAlias = PendingBatch | PendingCall | PendingFollow
Outcomes: TypeAlias = list[tuple[PendingBatch, BatchOutcome]]


class Delivery(NamedTuple):
    """What the event loop gets at once: events of other servers, then the outcomes of a group."""

    events: tuple[CommittedEvent, ...] = ()
    outcomes: tuple[tuple[PendingBatch, BatchOutcome], ...] = ()
    unknown: tuple[PendingBatch, ...] = ()
    """Batches whose COMMIT was sent to a database that has not answered for a while. Their outcomes follow."""


class _Applied(NamedTuple):
    pending: PendingBatch
    events: list[NewEvent]
    seqs: dict[str, int]
    statistics: list[AddUsage | AddToolUse]


class _UnknownOutcome(Exception):
    """The connection was lost while the COMMIT was under way."""

    def __init__(self, applied: list[_Applied], refused: Outcomes) -> None:
        super().__init__()
        self.applied = applied
        self.refused = refused


class _GivenUp(Exception):
    """The server stops, and the database does not answer."""


class CommitThread:
    def __init__(
        self,
        open_connection: Callable[[], PostgresConnection],
        *,
        loop: asyncio.AbstractEventLoop,
        deliver: Callable[[Delivery], None],
        position: int,
        fences: Fences,
        host_of: Callable[[str], str],
        notifies: bool,
        outage: Outage,
    ) -> None:
        self._open = open_connection
        self._loop = loop
        self._deliver = deliver
        self._position = position
        """The last number that was delivered."""
        self._fences = fences
        self._known = KnownRows(fences)
        self._host_of = host_of
        self._notifies = notifies
        self._outage = outage
        self._queue: WorkQueue[PendingCall | PendingFollow] = WorkQueue()
        self._sql: PostgresConnection | None = None
        self._lost_since: float | None = None
        self._lost_by: BaseException | None = None
        self._is_stuck = False
        """Something must succeed before the next group is begun, and the database does not answer."""
        self._told: list[PendingBatch] | None = None
        """The group whose callers were told that its outcome is not known."""
        self._commits = MAINTENANCE_COMMITS
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="store-writer", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def submit(self, work: PendingItem) -> None:
        """Queue the work, or refuse it if the database has not answered for a while."""
        if isinstance(work, PendingBatch):
            refused = self._refusal()
            if refused is not None:
                settle(work.future, None, refused)
                return
        self._queue.put(work)

    def refusal(self) -> StoreUnreachable:
        """Why batches are refused that wait for the outcome of another one."""
        error = self._lost_by
        if error is None:
            return StoreUnreachable("the PostgreSQL database has just answered again; nothing was changed: try again")
        return unreachable(error)

    def stop(self) -> None:
        """Commit what is waiting, and close. Blocks until done."""
        self._stopping.set()
        self._queue.end()
        self._thread.join()

    def _run(self) -> None:
        for work in self._queue.groups():
            match work:
                case PendingCall():
                    self._call(work)
                case PendingFollow():
                    self._follow(work)
                case _:
                    self._commit_group(work)
            del work  # the next one may come late, and this one may be large
            if self._commits >= MAINTENANCE_COMMITS and not self._queue.count_waiting():
                self._commits = 0
                self._maintain()
            if self._sql is not None and self._sql.has_large_buffers:
                self._sql.close()
                self._sql = None
        if self._sql is not None:
            self._sql.close()

    def _post(self, delivery: Delivery) -> None:
        self._loop.call_soon_threadsafe(self._deliver, delivery)

    def _commit_group(self, group: list[PendingBatch]) -> None:
        self._commits += 1
        outcomes = self._attempt(group)
        first = next((o.numbers[0] for _, o in outcomes if isinstance(o, Committed) and o.numbers), None)
        missed: tuple[CommittedEvent, ...] = ()
        if first is not None:
            if first > self._position + 1:
                with suppress(_GivenUp):
                    missed = self._read_missed(first - 1, group)
            self._position = max(o.numbers[-1] for _, o in outcomes if isinstance(o, Committed) and o.numbers)
        self._post(Delivery(missed, tuple(outcomes)))

    def _read_missed(self, upto: int, group: list[PendingBatch]) -> tuple[CommittedEvent, ...]:
        """Read the events of other servers before ours. Ours are committed, so this is tried until it succeeds."""
        while True:
            try:
                events = self._events_upto(upto)
            except psycopg.Error as error:
                self._roll_back(error)
                self._pause(error, group)
            else:
                self._found()
                return events

    def _attempt(self, group: list[PendingBatch]) -> Outcomes:
        repeats = 0
        relies = True
        while True:
            commit_id = uuid4().hex
            try:
                applied, refused, last = self._try_group(group, commit_id, relies=relies)
            except _UnknownOutcome as unknown:
                self._known.clear()
                self._tell_waiting(group)
                try:
                    found = self._resolve(commit_id, group)
                except _GivenUp:
                    return [(pending, _not_known(unknown)) for pending in group]
                if found is None:
                    continue
                applied, refused, last = unknown.applied, unknown.refused, found
            except Exception as error:  # noqa: BLE001 - the callers get it, and the thread continues
                self._roll_back(error)
                self._known.clear()
                if is_lost(error) or has_no_tables(error):
                    if self._wait_for_database(error):
                        continue
                elif may_repeat(error) and repeats < _REPEATS:
                    repeats += 1
                    continue
                elif relies and is_refusal(error):
                    relies = False
                    continue
                if is_lease_error(error):
                    error = self._fences.lost()
                if len(group) > 1 and not isinstance(error, StoreUnreachable) and not needs_new_connection(error):
                    return [outcome for pending in group for outcome in self._attempt([pending])]
                return [(pending, as_store_error(error)) for pending in group]
            self._found()
            return _numbered(applied, last) + refused

    def _try_group(
        self, group: list[PendingBatch], commit_id: str, *, relies: bool
    ) -> tuple[list[_Applied], Outcomes, int]:
        """Return what was applied, what was refused, and the last number.

        First the group ``relies`` on what is known: it has no savepoints, is sent in as few messages as possible, and
        any refusal or error ends the attempt. Without that, each batch reads what it needs and fails alone.
        """
        sql = self._connection()
        sql.begin(seconds=COMMIT_SECONDS)
        check = LeaseCheck(self._fences)
        if relies:
            applied = [self._apply(sql, pending, check, relies=True) for pending in group]
            return applied, [], self._finish(sql, applied, [], check=check, commit_id=commit_id)
        applied, refused = self._apply_each(sql, group, check)
        if not applied:
            sql.rollback()
            return [], refused, 0
        return applied, refused, self._finish(sql, applied, refused, check=check, commit_id=commit_id)

    def _apply_each(
        self, sql: PostgresConnection, group: list[PendingBatch], check: LeaseCheck
    ) -> tuple[list[_Applied], Outcomes]:
        """Apply the batches that can be applied. Return them, and what the others were refused for."""
        applied: list[_Applied] = []
        refused: Outcomes = []
        for pending in group:
            if len(group) > 1:
                sql.savepoint()
            try:
                one = self._apply(sql, pending, check, relies=False)
                if len(group) > 1:
                    sql.execute("RELEASE batch")
                    sql.flush()
                applied.append(one)
            except Exception as error:
                if needs_new_connection(error) or may_repeat(error):
                    raise
                refused.append((pending, as_store_error(error)))
                if len(group) > 1:
                    sql.roll_back_to_savepoint()
        return applied, refused

    def _apply(self, sql: PostgresConnection, pending: PendingBatch, check: LeaseCheck, *, relies: bool) -> _Applied:
        batch = pending.batch
        transaction = PostgresTransaction(
            sql, host_of=self._host_of, known=self._known, relies=relies, events=batch.events
        )
        for write in batch.writes:
            apply_postgres_write(transaction, write)
        events = event_log.prepare(transaction, batch.events)
        check.add(transaction.workspaces(), transaction.relied_fences())
        return _Applied(pending, events, transaction.seqs, transaction.statistics)

    def _finish(
        self, sql: PostgresConnection, applied: list[_Applied], refused: Outcomes, *, check: LeaseCheck, commit_id: str
    ) -> int:
        """Write the statistics, lock the log, number the events, check the leases and commit: all in one message."""
        write_statistics(sql, (each for one in applied for each in one.statistics))
        rows = [new.row for one in applied for new in one.events]
        count = len(rows)
        if count:
            last = sql.execute("UPDATE log SET last = last + ? RETURNING last", (count,))
        else:
            last = sql.execute("SELECT last FROM log")
        check.insert_commit(sql, commit_id)
        if rows:
            values = [value for index, row in enumerate(rows) for value in (count - 1 - index, *row)]
            sql.execute(event_log.INSERT_EVENTS + ", ".join([_EVENT_VALUES] * count), values)
        if self._notifies and count:
            sql.execute("SELECT pg_notify(?, ?)", (CHANNEL, self._fences.server_id))
        sql.execute("COMMIT")
        try:
            sql.flush()
        except psycopg.Error as error:
            if is_lost(error) or sql.is_broken:
                sql.close()
                self._note_lost(error)
                raise _UnknownOutcome(applied, refused) from error
            raise
        return int(last.fetchone()[0])

    def _resolve(self, commit_id: str, group: list[PendingBatch]) -> int | None:
        """Return the last number if the commit has happened; None if it never will. Waits for the database."""
        while True:
            try:
                sql = self._connection()
                sql.begin(seconds=COMMIT_SECONDS)
                taken = sql.execute(
                    "INSERT INTO commits (id) VALUES (?) ON CONFLICT DO NOTHING RETURNING id", (commit_id,)
                )
                found = sql.execute("SELECT last FROM commits WHERE id = ?", (commit_id,)).fetchone()
                is_new = taken.fetchone() is not None
                sql.commit()
            except psycopg.Error as error:
                self._roll_back(error)
                self._pause(error, group)
            else:
                self._found()
                last = None if is_new else found[0]
                _logger.warning(
                    "the answer to a commit was lost; the database says that it %s",
                    "has not happened" if last is None else "has happened",
                )
                return last

    def _connection(self) -> PostgresConnection:
        if self._sql is None or self._sql.is_broken:
            self._sql = self._open()
        return self._sql

    def _roll_back(self, error: BaseException) -> None:
        """Undo the transaction in which the error was raised."""
        if self._sql is None:
            return
        if needs_new_connection(error):
            self._sql.close()
            return
        try:
            self._sql.rollback()
        except psycopg.Error:
            self._sql.close()

    def _note_lost(self, error: BaseException) -> None:
        if self._lost_since is None:
            self._lost_since = lost_since(error, now=time.monotonic())
            _logger.warning("the database does not answer: %s", " ".join(str(error).split()))
        self._lost_by = error
        self._outage.lost(error, now=time.monotonic())

    def _wait_for_database(self, error: BaseException) -> bool:
        """Return whether to try again: for some time after the database was lost, counted once for all batches."""
        if self._sql is not None:
            self._sql.close()
        if self._give_up(error) or self._stopping.is_set():
            return False
        time.sleep(_PAUSE_SECONDS)
        return True

    def _give_up(self, error: BaseException) -> bool:
        """Return whether the database was waited for long enough. Then batches that wait behind are refused, too."""
        self._note_lost(error)
        assert self._lost_since is not None
        if time.monotonic() - self._lost_since < WAIT_SECONDS:
            return False
        self._refuse_waiting(unreachable(error))
        return True

    def _found(self) -> None:
        """The database answers."""
        self._outage.answered()
        self._lost_since, self._lost_by, self._is_stuck, self._told = None, None, False, None

    def _pause(self, error: BaseException, group: list[PendingBatch]) -> None:
        """Wait before trying again what must succeed for the group. Batches that wait are refused after a while."""
        self._note_lost(error)
        if self._tell_waiting(group) and self._stopping.is_set():
            raise _GivenUp
        time.sleep(_PAUSE_SECONDS)

    def _tell_waiting(self, group: list[PendingBatch]) -> bool:
        """If the database has not answered for a while, refuse what waits, and tell the group that nothing is known."""
        self._is_stuck = True
        refused = self._refusal()
        if refused is None:
            return False
        self._refuse_waiting(refused)
        if group is not self._told:
            self._told = group
            self._post(Delivery(unknown=tuple(group)))
        return True

    def _refusal(self) -> StoreUnreachable | None:
        """Return why a new batch is refused without being begun; None if it is not."""
        since, error = self._lost_since, self._lost_by
        if not self._is_stuck or since is None or error is None or time.monotonic() - since < WAIT_SECONDS:
            return None
        return unreachable(error)

    def _refuse_waiting(self, refused: StoreUnreachable) -> None:
        outcomes = [(work, refused) for work in self._queue.take_batches()]
        if outcomes:
            self._post(Delivery((), tuple(outcomes)))

    def _call(self, work: PendingCall) -> None:
        try:
            sql = self._connection()
            sql.begin(seconds=COMMIT_SECONDS)
            result = work.function(sql)
            sql.commit()
        except Exception as error:  # noqa: BLE001 - the caller gets it, and the thread continues
            self._roll_back(error)
            if is_lost(error):
                self._give_up(error)
            self._loop.call_soon_threadsafe(settle, work.future, None, as_store_error(error))
        else:
            self._found()
            self._loop.call_soon_threadsafe(settle, work.future, result, None)

    def _follow(self, work: PendingFollow) -> None:
        """Deliver the events of other servers. If that fails, the next notice or commit does it."""
        error: BaseException | None = None
        try:
            while events := self._events_upto(None):
                self._position = events[-1].number
                self._post(Delivery(events))
        except (psycopg.Error, HoldfastError) as failed:
            self._roll_back(failed)
            if is_lost(failed):
                self._give_up(failed)
            error = as_store_error(failed)
        else:
            self._found()
        if work.future is not None:
            self._loop.call_soon_threadsafe(settle, work.future, None, error)

    def _events_upto(self, upto: int | None) -> tuple[CommittedEvent, ...]:
        """Read events after the position: all up to the number, or some."""
        found: list[CommittedEvent] = []
        sql = self._connection()
        sql.begin(seconds=COMMIT_SECONDS, read_only=True)
        last = event_log.last_number(sql) if upto is None else upto
        position = self._position
        while position < last:
            page = event_log.events_after(
                sql, position, upto=last, workspace_id=None, session_id=None, limit=_PAGE, max_bytes=1 << 20
            )
            found += [_committed(event) for event in page.events]
            position = page.passed
            if upto is None and found:
                break
        sql.commit()
        if upto is None and not found:
            self._position = position
        return tuple(found)

    def _maintain(self) -> None:
        """Index new text, and remove old rows of ``commits``. After a failure the next maintenance tries again."""
        try:
            while self._maintain_once() and not self._queue.count_waiting():
                pass
        except (psycopg.Error, CommitRefused) as error:
            self._roll_back(error)
            _logger.warning("database maintenance failed: %s; commits continue", " ".join(str(error).split()))

    def _maintain_once(self) -> bool:
        sql = self._connection()
        sql.begin(seconds=COMMIT_SECONDS)
        count = messages.index_new_text(sql, WORD_INDEX)
        sql.execute("DELETE FROM commits WHERE at < clock_timestamp() - interval '1 hour'")
        sql.commit()
        return count > 0


_EVENT_VALUES = "((SELECT last FROM log) - ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"


def _not_known(error: BaseException) -> OutcomeUnknown:
    return OutcomeUnknown(
        f"the PostgreSQL database does not answer ({error.__cause__}), and the server stops: whether the last "
        "change was stored shows at its next start"
    )


def _numbered(applied: list[_Applied], last: int) -> Outcomes:
    number = last - sum(len(one.events) for one in applied) + 1
    outcomes: Outcomes = []
    for one in applied:
        events = tuple(new.committed(number + index) for index, new in enumerate(one.events))
        number += len(events)
        numbers = tuple(event.number for event in events)
        outcomes.append((one.pending, Committed(numbers=numbers, events=events, seqs=one.seqs)))
    return outcomes


def _committed(event: Any) -> CommittedEvent:
    known: Any = read_event(event.body)
    return CommittedEvent(event.number, event.workspace_id, event.session_id, event.kind, event.body, known)
