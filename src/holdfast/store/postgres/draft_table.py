"""Drafts in a table: the text of open messages, so that any server can read it after its writer was killed (`E3`).

A thread inserts what was streamed every `APPEND_SECONDS`, in one transaction that does not wait for the disk
(``synchronous_commit = off``). It survives a killed server at once, and a crash of the database after about 0.6 s.
While the database does not answer, the text is kept in memory and inserted later.
"""

from __future__ import annotations

import logging
import queue
import time
from collections.abc import Callable
from threading import Thread
from typing import TypeAlias

import psycopg

from holdfast.schema.base import LateDecoder, encode
from holdfast.store.open_drafts import DraftLookup, DraftPiece, OpenDraft, OpenDrafts, joined_pieces
from holdfast.store.postgres.connection import PostgresConnection
from holdfast.store.rows import messages
from holdfast.store.rows.sql import Sql

APPEND_SECONDS = 0.05
_RETRY_SECONDS = 0.5
_STATEMENT_SECONDS = 5.0

_logger = logging.getLogger(__name__)
_piece = LateDecoder(DraftPiece)


class _Finished:
    """The message is committed: its draft is not needed any more."""

    def __init__(self, message_id: str) -> None:
        self.message_id = message_id


_Work: TypeAlias = DraftPiece | _Finished | None


class DraftTable:
    """Inserts pieces in the background. `append` and `finish` return at once and never fail."""

    def __init__(self, open_connection: Callable[[], PostgresConnection]) -> None:
        self._open = open_connection
        self._queue: queue.SimpleQueue[_Work] = queue.SimpleQueue()
        self._thread: Thread | None = None
        self._sql: PostgresConnection | None = None
        self._pieces: list[DraftPiece] = []
        self._finished: set[str] = set()
        self._delay = APPEND_SECONDS

    def append(self, piece: DraftPiece) -> None:
        self._submit(piece)

    def finish(self, message_id: str) -> None:
        self._submit(_Finished(message_id))

    def close(self) -> None:
        """Write what is waiting, if the database answers. Blocks until done."""
        if self._thread is not None:
            self._queue.put(None)
            self._thread.join()

    def _submit(self, work: _Work) -> None:
        self._queue.put(work)
        if self._thread is None:
            self._thread = Thread(target=self._run, name="store-drafts", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        running = True
        while running:
            try:
                work = self._queue.get(timeout=self._delay if self._pieces or self._finished else None)
            except queue.Empty:
                self._write()
                continue
            if work is not None:
                time.sleep(self._delay)
            while True:
                match work:
                    case None:
                        running = False
                        break
                    case _Finished():
                        self._finished.add(work.message_id)
                    case _:
                        self._pieces.append(work)
                try:
                    work = self._queue.get_nowait()
                except queue.Empty:
                    break
            self._write()
        if self._sql is not None:
            self._sql.close()

    def _write(self) -> None:
        rows = [
            (piece.message_id, encode(piece))
            for piece in joined_pieces(self._pieces)
            if piece.message_id not in self._finished
        ]
        try:
            if self._sql is None or self._sql.is_broken:
                self._sql = self._open()
            sql = self._sql
            sql.begin(seconds=_STATEMENT_SECONDS)
            sql.execute("SET LOCAL synchronous_commit = off")
            sql.executemany("INSERT INTO drafts (message_id, body) VALUES (?, ?)", rows)
            sql.executemany("DELETE FROM drafts WHERE message_id = ?", [(each,) for each in self._finished])
            sql.commit()
        except psycopg.Error as error:
            if self._delay == APPEND_SECONDS:
                _logger.warning("drafts cannot be written: %s; retrying", " ".join(str(error).split()))
            self._delay = _RETRY_SECONDS
            if self._sql is not None:
                self._sql.close()
        else:
            self._pieces.clear()
            self._finished.clear()
            self._delay = APPEND_SECONDS


class StoredDrafts:
    """The drafts of this server, and those in the table for messages that others write or wrote."""

    def __init__(self, sql: Sql, own: DraftLookup) -> None:
        self._sql = sql
        self._own = own

    def get(self, message_id: str, /) -> OpenDraft | None:
        own = self._own.get(message_id)
        if own is not None:
            return own
        drafts = OpenDrafts()
        drafts.restore(stored_pieces(self._sql, message_id))
        return drafts.all().get(message_id)


def stored_pieces(sql: Sql, message_id: str) -> list[DraftPiece]:
    rows = sql.execute("SELECT body FROM drafts WHERE message_id = ? ORDER BY n", (message_id,))
    return [_piece.decode(body) for (body,) in rows]


def remove_closed(sql: Sql) -> None:
    """Remove the drafts of messages that are finished, or whose run has ended."""
    for (message_id,) in sql.execute("SELECT DISTINCT message_id FROM drafts").fetchall():
        if not messages.restored_drafts(sql, stored_pieces(sql, message_id)):
            sql.execute("DELETE FROM drafts WHERE message_id = ?", (message_id,))
