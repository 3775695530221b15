"""`PostgresStore`: commits go to one thread, reads to a bounded pool."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import psycopg

from holdfast.errors import (
    BadRequest,
    CommitRefused,
    ConfigError,
    HoldfastError,
    OutcomeUnknown,
    StoreUnwritable,
)
from holdfast.schema.sessions import Workspace
from holdfast.store.commit_listeners import CommitListeners
from holdfast.store.open_drafts import OpenDrafts, is_finished
from holdfast.store.pending_work import OutcomeLookUp, PendingBatch, settle
from holdfast.store.postgres import draft_table, postgres_schema
from holdfast.store.postgres.commit_thread import CommitThread, Delivery, PendingCall, PendingFollow
from holdfast.store.postgres.connection import PostgresConnection
from holdfast.store.postgres.database_errors import as_store_error
from holdfast.store.postgres.draft_table import DraftTable, StoredDrafts
from holdfast.store.postgres.event_listener import EventListener
from holdfast.store.postgres.lease_check import Fences
from holdfast.store.postgres.outage import Outage
from holdfast.store.postgres.postgres_writes import workspace_at
from holdfast.store.postgres.reader_pool import Ask, ReaderPool
from holdfast.store.postgres.single_owner import RENEW_SECONDS, SingleOwner, read_home_id
from holdfast.store.postgres.word_index import WORD_INDEX
from holdfast.store.protocol import CommitListener
from holdfast.store.riding_writes import RidingWrites
from holdfast.store.rows import audit, event_log, stored_responses
from holdfast.store.rows.ledger_reads import DraftQuery, LedgerReads
from holdfast.store.rows.sql import Sql
from holdfast.store.sqlite.database_file import OwnerLock
from holdfast.store.unfinished_copy import require_finished
from holdfast.store.writes import AddAudit, Batch, Committed, EndAudit, PutMessage

T = TypeVar("T")

READERS = 4
OPEN_SECONDS = 30.0
RENEWAL_SECONDS = 5.0
_RENEWERS = 3
"""Connections for renewals. One is enough while the database answers; the others are for those that lead nowhere."""

_logger = logging.getLogger(__name__)


async def open_postgres_store(
    conninfo: str,
    *,
    home: Path,
    host_id: str = "",
    shared: tuple[str, ...] = (),
    fences: Fences | None = None,
    readers: int = READERS,
    renewal_seconds: float = RENEWAL_SECONDS,
) -> PostgresStore:
    """Open the database, and make or migrate its tables. ``home``: the directory of this server's own files.

    ``host_id`` names the host of the directories; those below ``shared`` are on all hosts.

    Without ``fences`` the server is the only one: another gets `StoreLocked`. With ``fences`` several servers use the
    database, and each commit needs the leases of the workspaces that it changes. A renewal that is not answered within
    ``renewal_seconds`` is given up. Raises `StoreUnreachable`, `StoreNewer`, `StoreDamaged` or `StoreUnwritable`.
    """
    loop = asyncio.get_running_loop()
    return await asyncio.to_thread(
        _open,
        conninfo,
        home=home,
        host_id=host_id,
        shared=shared,
        fences=fences,
        readers=readers,
        renewal_seconds=renewal_seconds,
        loop=loop,
    )


def with_password(conninfo: str, password: str | None) -> str:
    """Return the address of a database, with the password unless it has one. `ConfigError` if it is no address."""
    try:
        given = psycopg.conninfo.conninfo_to_dict(conninfo)
        if password is None or given.get("password"):
            return conninfo
        return psycopg.conninfo.make_conninfo(conninfo, password=password)
    except psycopg.ProgrammingError as error:
        reason = " ".join(str(error).split())
        if not reason.startswith("invalid URI query parameter"):
            reason = reason.partition(":")[0]  # the rest quotes the address, with its password
        raise ConfigError(f"the address of the PostgreSQL database cannot be read: {reason}") from None


def _open(
    conninfo: str,
    *,
    home: Path,
    host_id: str,
    shared: tuple[str, ...],
    fences: Fences | None,
    readers: int,
    renewal_seconds: float,
    loop: asyncio.AbstractEventLoop,
) -> PostgresStore:
    lock = OwnerLock(home / "postgres")
    owner = None if fences is not None else SingleOwner(home_id=read_home_id(home / "postgres.id"))
    try:
        sql = PostgresConnection.open(conninfo)
        try:
            postgres_schema.migrate(sql)
            sql.begin(seconds=OPEN_SECONDS)
            if owner is not None:
                owner.acquire(sql)
            draft_table.remove_closed(sql)
            identity = event_log.identity(sql)
            require_finished(identity[0])
            sql.commit()
        finally:
            sql.close()
    except BaseException as error:
        lock.release()
        if isinstance(error, psycopg.Error):
            raise as_store_error(error) from error
        raise
    return PostgresStore(
        conninfo,
        lock=lock,
        loop=loop,
        owner=owner,
        fences=fences,
        host_id=host_id,
        shared=shared,
        readers=readers,
        renewal_seconds=renewal_seconds,
        identity=identity,
    )


class PostgresStore(LedgerReads):
    """A `Store` in a PostgreSQL database, created by `open_postgres_store`."""

    _search_index = WORD_INDEX

    def __init__(
        self,
        conninfo: str,
        *,
        lock: OwnerLock,
        loop: asyncio.AbstractEventLoop,
        owner: SingleOwner | None,
        fences: Fences | None,
        host_id: str,
        shared: tuple[str, ...],
        readers: int,
        renewal_seconds: float,
        identity: tuple[str, int, int],
    ) -> None:
        held: Fences | None = fences or owner
        assert held is not None
        self._lock = lock
        self._loop = loop
        self._owner = owner
        self._host_id = host_id
        self._listeners = CommitListeners(loop)
        self._riding = RidingWrites(self._submit, loop=loop)
        self._log_id, self._last, self._pruned = identity
        open_connection = partial(PostgresConnection.open, conninfo)
        outage = Outage()
        self._pool = ReaderPool(open_connection, size=readers, outage=outage)
        self._read = self._pool.read
        self._renewal_seconds = renewal_seconds
        self._renewals = ReaderPool(
            partial(open_connection, answer_seconds=renewal_seconds), size=_RENEWERS, name="store-lease"
        )
        self._drafts = OpenDrafts()
        self._draft_table = DraftTable(open_connection)
        self._thread = CommitThread(
            open_connection,
            loop=loop,
            deliver=self._deliver,
            position=self._last,
            fences=held,
            host_of=partial(_host_of, host_id=host_id, shared=shared),
            notifies=owner is None,
            outage=outage,
        )
        self._thread.start()
        self._event_listener: EventListener | None = None
        if owner is None:
            self._event_listener = EventListener(
                open_connection, server_id=held.server_id, position=lambda: self._last, wake=self._wake
            )
            self._event_listener.start()
        self._to_be_told: set[asyncio.Future[Committed]] = set()
        """Commits whose callers do not wait for an outcome that is not known."""
        self._closing: asyncio.Task[None] | None = None
        self._renewing = None if owner is None else asyncio.run_coroutine_threadsafe(self._renew(owner), loop)

    async def commit(self, batch: Batch, *, until_known: bool = True) -> Committed:
        self._require_open()
        future = self._riding.submit(batch)
        if until_known:
            return await future
        self._to_be_told.add(future)
        try:
            return await future
        finally:
            self._to_be_told.discard(future)

    def _submit(self, batch: Batch) -> asyncio.Future[Committed]:
        future: asyncio.Future[Committed] = self._loop.create_future()
        self._thread.submit(PendingBatch(batch, future))
        return future

    def append_audit(self, write: AddAudit | EndAudit) -> None:
        if self._closing is None:
            self._riding.add(write)

    def append_draft(
        self, session_id: str, message_id: str, part: int, text: str, *, attempt: int = 1, is_reasoning: bool = False
    ) -> None:
        if self._closing is None and text:
            self._draft_table.append(
                self._drafts.append(session_id, message_id, part, text, attempt=attempt, is_reasoning=is_reasoning)
            )

    def _close_drafts(self, batch: Batch) -> None:
        """Remove the drafts of messages that the commit finished."""
        for write in batch.writes:
            if isinstance(write, PutMessage) and is_finished(write.message):
                self._drafts.remove(write.message.id)
                self._draft_table.finish(write.message.id)

    def listen(self, listener: CommitListener) -> Callable[[], None]:
        return self._listeners.add(listener)

    def _deliver(self, delivery: Delivery) -> None:
        """Called on the event loop. Listeners are called before the callers continue."""
        if delivery.events:
            self._last = delivery.events[-1].number
            self._listeners.tell(delivery.events)
        for pending, outcome in delivery.outcomes:
            if not isinstance(outcome, Committed):
                settle(pending.future, None, outcome)
                continue
            self._close_drafts(pending.batch)
            if outcome.events:
                self._last = outcome.numbers[-1]
                self._listeners.tell(outcome.events)
            settle(pending.future, outcome, None)
        for pending in delivery.unknown:
            if pending.future in self._to_be_told and not pending.future.done():
                told, pending.future = pending.future, self._loop.create_future()
                pending.future.add_done_callback(_read_error)
                told.set_exception(_outcome_unknown(OutcomeLookUp(pending.future, self._thread.refusal)))

    async def catch_up(self) -> None:
        """Return when listeners have what was committed before the call, by any server."""
        if self._owner is not None:
            return
        self._require_open()
        future: asyncio.Future[None] = self._loop.create_future()
        self._thread.submit(PendingFollow(future))
        await future

    def _wake(self) -> None:
        self._thread.submit(PendingFollow(None))

    async def transact(self, work: Callable[[PostgresConnection], T]) -> T:
        """Run the work in one transaction of its own on a connection of the pool, once."""
        self._require_open()
        return await self._pool.transact(work)

    async def exchange(self, ask: Ask[T]) -> T:
        """Run a transaction that is sent as one message, over a connection that is only used for leases, once."""
        self._require_open()
        return await self._renewals.exchange(ask, seconds=self._renewal_seconds)

    async def _renew(self, owner: SingleOwner) -> None:
        while True:
            await asyncio.sleep(RENEW_SECONDS)
            try:
                await self.exchange(owner.renew)
            except HoldfastError as error:
                _logger.warning("the lease of the database could not be renewed: %s", error)

    async def _call(self, function: Callable[[PostgresConnection], T]) -> T:
        self._require_open()
        future: asyncio.Future[T] = self._loop.create_future()
        self._thread.submit(PendingCall(function, future))
        return await future

    def _require_open(self) -> None:
        if self._closing is not None:
            raise StoreUnwritable("the database is closed: the server is stopping")

    async def _read_with_drafts(self, query: DraftQuery[T], *, session_id: str | None = None) -> T:
        own = self._drafts.all() if session_id is None else self._drafts.of_session(session_id)

        def read(sql: Sql) -> T:
            return query(sql, drafts=StoredDrafts(sql, own))

        return await self._read(read)

    async def workspace_at(self, path: str) -> Workspace | None:
        return await self._read(partial(workspace_at, path=path, host_id=self._host_id))

    async def prune_events(self, *, before: str) -> int:
        total = 0
        while True:
            removed, self._pruned = await self._call(partial(_prune_events, before=before))
            total += removed
            if removed == 0:
                return total

    async def prune_responses(self, *, before: str) -> int:
        return await self._call(partial(stored_responses.prune, before=before))

    async def prune_audit(self, *, before: str) -> int:
        total = 0
        while removed := await self._call(partial(audit.prune, before=before)):
            total += removed
        return total

    async def size(self) -> int:
        return await self._read(_database_size)

    async def give_back_space(self) -> None:
        """PostgreSQL reuses the space of removed rows by itself (autovacuum)."""

    async def backup(self, path: Path) -> None:
        raise BadRequest(
            "the sessions are in PostgreSQL, which Holdfast does not copy to a file; use pg_dump, or what your "
            "database is backed up with; 'holdfast store copy' makes a SQLite file of it",
            code="not_sqlite",
        )

    async def close(self) -> None:
        if self._closing is None:
            self._riding.close()
            self._closing = asyncio.create_task(self._close(), name="store:close")
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        if self._renewing is not None:
            self._renewing.cancel()
        await asyncio.to_thread(self._thread.stop)
        await asyncio.to_thread(self._draft_table.close)
        if self._event_listener is not None:
            await asyncio.to_thread(self._event_listener.stop)
        if self._owner is not None:
            with suppress(CommitRefused):
                await self._pool.transact(self._owner.release)
        await asyncio.to_thread(self._renewals.close)
        await asyncio.to_thread(self._pool.close)
        self._lock.release()

    @property
    def log_id(self) -> str:
        return self._log_id

    @property
    def last_number(self) -> int:
        return self._last

    @property
    def oldest_number(self) -> int:
        return self._pruned + 1


def _outcome_unknown(look_up: OutcomeLookUp) -> OutcomeUnknown:
    return OutcomeUnknown(
        "the PostgreSQL database does not answer, and was lost while it stored this: whether it did is found out when "
        "it answers again; repeat the request then, with the same run_id or Idempotency-Key",
        look_up=look_up,
    )


def _read_error(outcome: asyncio.Future[Committed]) -> None:
    """Read the exception, or asyncio reports it if nobody waits any more."""
    if not outcome.cancelled():
        outcome.exception()


def _host_of(path: str, *, host_id: str, shared: tuple[str, ...]) -> str:
    """The host that a directory is on; empty for one that all hosts mount."""
    directory = Path(path)
    return "" if any(directory.is_relative_to(root) for root in shared) else host_id


def _prune_events(sql: PostgresConnection, *, before: str) -> tuple[int, int]:
    """Prune while the log is locked: several servers do it at the same time."""
    sql.execute("SELECT 1 FROM log FOR UPDATE")
    return event_log.prune(sql, before=before)


def _database_size(sql: Sql) -> int:
    size: Any = sql.execute("SELECT pg_database_size(current_database())").fetchone()[0]
    return int(size)
