"""`SqliteStore`: each method passes its work to the writer thread or to a reader thread."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from holdfast.errors import BadRequest, StoreUnwritable
from holdfast.schema.approvals import Grant
from holdfast.store.commit_listeners import CommitListeners
from holdfast.store.open_drafts import DraftPiece, OpenDrafts, is_finished
from holdfast.store.pending_work import BatchOutcome, PendingBatch, settle
from holdfast.store.protocol import CommitListener
from holdfast.store.riding_writes import RidingWrites
from holdfast.store.rows import approvals, audit, event_log, messages, stored_responses
from holdfast.store.rows.ledger_reads import DraftQuery, LedgerReads
from holdfast.store.sqlite import database_file, draft_log
from holdfast.store.sqlite.database_file import Connect, OwnerLock
from holdfast.store.sqlite.database_threads import PendingFunction, ReaderThreads, WriterThread
from holdfast.store.sqlite.draft_log import DraftLog
from holdfast.store.sqlite.search_index import FTS5_INDEX
from holdfast.store.unfinished_copy import require_finished
from holdfast.store.writes import AddAudit, Batch, Committed, EndAudit, PutMessage

if TYPE_CHECKING:
    from holdfast.store.sqlite.known_grants import KnownGrants

T = TypeVar("T")


async def open_store(path: Path, *, connect: Connect = database_file.connect) -> SqliteStore:
    """Open or create the database. Raises `StoreLocked`, `StoreDamaged`, `StoreNewer` or `StoreUnwritable`."""
    loop = asyncio.get_running_loop()
    return await asyncio.to_thread(_open, path, connect=connect, loop=loop)


def _open(path: Path, *, connect: Connect, loop: asyncio.AbstractEventLoop) -> SqliteStore:
    database_file.prepare_directory(path)
    lock = OwnerLock(path)
    try:
        if not path.exists():
            lock.set_used(used=False)
        database_file.prepare_file(path)
        database_file.inspect(path, connect=connect, was_used=lock.was_used)
        writer = database_file.open_writer(path, connect=connect)
        lock.set_used(used=True)
        drafts = messages.restored_drafts(writer, draft_log.read_pieces(draft_log.log_path(path)))
        return SqliteStore(writer, path=path, lock=lock, connect=connect, loop=loop, drafts=drafts)
    except sqlite3.DatabaseError as error:
        lock.release()
        raise database_file.damaged(path, str(error)) from error
    except BaseException:
        lock.release()
        raise


class SqliteStore(LedgerReads):
    """A `Store` in one file, created by `open_store`. Call it only on the event loop it was opened on."""

    _search_index = FTS5_INDEX

    def __init__(
        self,
        connection: sqlite3.Connection,
        *,
        path: Path,
        lock: OwnerLock,
        connect: Connect,
        loop: asyncio.AbstractEventLoop,
        drafts: OpenDrafts,
    ) -> None:
        self.path = path
        self._lock = lock
        self._connect = connect
        self._loop = loop
        self._listeners = CommitListeners(loop)
        self._log_id, self._last, self._pruned = event_log.identity(connection)
        require_finished(self._log_id)
        self._readers = ReaderThreads(path, connect=connect)
        self._read = self._readers.read
        self._writer = WriterThread(connection, path=path, loop=loop, deliver=self._deliver)
        self._drafts = drafts
        self._grants: KnownGrants | None = None
        self._draft_log = DraftLog(draft_log.log_path(path))
        self._new_drafts: list[DraftPiece] = []
        """Streamed text that the log was not given yet."""
        self._draft_timer: asyncio.TimerHandle | None = None
        self._closing: asyncio.Task[None] | None = None
        self._riding = RidingWrites(self._submit, loop=loop)
        self._writer.start()

    async def commit(self, batch: Batch, *, until_known: bool = True) -> Committed:
        self._require_open()
        return await self._riding.submit(batch)

    def _submit(self, batch: Batch) -> asyncio.Future[Committed]:
        future: asyncio.Future[Committed] = self._loop.create_future()
        self._writer.submit(PendingBatch(batch, future))
        return future

    def append_audit(self, write: AddAudit | EndAudit) -> None:
        if self._closing is None:
            self._riding.add(write)

    def append_draft(
        self, session_id: str, message_id: str, part: int, text: str, *, attempt: int = 1, is_reasoning: bool = False
    ) -> None:
        if self._closing is None and text:
            self._new_drafts.append(
                self._drafts.append(session_id, message_id, part, text, attempt=attempt, is_reasoning=is_reasoning)
            )
            if self._draft_log.has_pieces:
                self._log_drafts()
            elif self._draft_timer is None:
                self._draft_timer = self._loop.call_later(draft_log.COLLECT_SECONDS, self._log_drafts)

    def _log_drafts(self) -> None:
        """Hand over what was collected."""
        if self._draft_timer is not None:
            self._draft_timer.cancel()
            self._draft_timer = None
        for piece in self._new_drafts:
            self._draft_log.append(piece)
        self._new_drafts.clear()
        if self._draft_log.is_long:
            self._draft_log.replace(piece for draft in self._drafts.all().values() for piece in draft.pieces())

    def _close_drafts(self, batch: Batch) -> None:
        """Remove the drafts of messages that the commit finished."""
        for write in batch.writes:
            if isinstance(write, PutMessage) and is_finished(write.message):
                self._drafts.remove(write.message.id)
        if not self._drafts:
            self._new_drafts.clear()
            self._draft_log.clear()

    def listen(self, listener: CommitListener) -> Callable[[], None]:
        return self._listeners.add(listener)

    def _deliver(self, outcomes: list[tuple[PendingBatch, BatchOutcome]]) -> None:
        """Called on the event loop once per group. The callers continue after it, before what the listeners start."""
        for pending, outcome in outcomes:
            if isinstance(outcome, Committed):
                settle(pending.future, outcome, None)
            else:
                settle(pending.future, None, outcome)
        for pending, outcome in outcomes:
            if self._grants is not None:
                self._grants.forget_changed(pending.batch)
            if not isinstance(outcome, Committed):
                continue
            if self._drafts:
                self._close_drafts(pending.batch)
            if outcome.events:
                self._last = outcome.numbers[-1]
                self._listeners.tell(outcome.events)

    async def grants(self, workspace_id: str, *, session_id: str | None = None) -> tuple[Grant, ...]:
        if self._grants is None:
            from holdfast.store.sqlite.known_grants import KnownGrants  # not above: a server starts without it

            self._grants = KnownGrants()
        read = partial(self._read, partial(approvals.grants_of_all_sessions, workspace_id=workspace_id))
        return await self._grants.get(workspace_id, session_id, read=read)

    async def _read_with_drafts(self, query: DraftQuery[T], *, session_id: str | None = None) -> T:
        drafts = self._drafts.all() if session_id is None else self._drafts.of_session(session_id)
        return await self._read(partial(query, drafts=drafts))

    async def _call_in_writer(self, function: Callable[[sqlite3.Connection], T], *, transaction: bool = True) -> T:
        self._require_open()
        future: asyncio.Future[T] = self._loop.create_future()
        self._writer.submit(PendingFunction(function, future, transaction=transaction))
        return await future

    def _require_open(self) -> None:
        if self._closing is not None:
            raise StoreUnwritable("the database is closed: the server is stopping")

    async def catch_up(self) -> None:
        """This server is the only one that commits, and `commit` returns after the listeners were called."""

    async def prune_events(self, *, before: str) -> int:
        total = 0
        while True:
            removed, pruned = await self._call_in_writer(partial(event_log.prune, before=before))
            self._pruned = pruned
            total += removed
            if removed == 0:
                return total

    async def prune_responses(self, *, before: str) -> int:
        return await self._call_in_writer(partial(stored_responses.prune, before=before))

    async def prune_audit(self, *, before: str) -> int:
        total = 0
        while removed := await self._call_in_writer(partial(audit.prune, before=before)):
            total += removed
        return total

    async def size(self) -> int:
        return await asyncio.to_thread(database_file.size_on_disk, self.path)

    async def give_back_space(self) -> None:
        await self._call_in_writer(database_file.give_back_space, transaction=False)

    async def backup(self, path: Path) -> None:
        await asyncio.to_thread(self._backup, path)

    def _backup(self, path: Path) -> None:
        """SQLite copies in one read transaction, so the copy contains a commit whole or not at all."""
        unfinished = path.with_name(f"{path.name}.unfinished")
        if path.exists():
            raise BadRequest(f"{str(path)!r} already exists; choose another path for the backup")
        try:
            os.close(os.open(unfinished, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600))
            with (
                closing(self._connect(self.path, read_only=True)) as source,
                closing(database_file.connect(unfinished, read_only=False)) as target,
            ):
                source.backup(target)
                target.execute("PRAGMA journal_mode = DELETE")
            unfinished.rename(path)
        except (OSError, sqlite3.Error) as error:
            unfinished.unlink(missing_ok=True)
            raise StoreUnwritable(
                f"the backup {str(path)!r} could not be written: {error}; check the directory and the space on its disk"
            ) from error

    async def close(self) -> None:
        if self._closing is None:
            self._riding.close()
            self._log_drafts()
            self._closing = asyncio.create_task(asyncio.to_thread(self._close), name="store:close")
        await asyncio.shield(self._closing)

    def _close(self) -> None:
        self._readers.close()
        self._writer.stop()
        self._draft_log.close()
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
