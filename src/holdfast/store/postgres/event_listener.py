"""One connection that waits for notices that another server has committed.

A notice only wakes; the events are read from the table. Notices may be missed: while the connection is lost, and when a
firewall cuts it without a word. So the number of the last event is also looked at once a second.

A pooler in transaction mode passes no notices on. Such a connection is recognized, and looks more often instead.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

import psycopg

from holdfast.store.postgres.commit_thread import CHANNEL
from holdfast.store.postgres.connection import PostgresConnection

_LOOK_SECONDS = 1.0
_POOLED_LOOK_SECONDS = 0.05
_ANSWER_SECONDS = 3.0
_RETRY_SECONDS = 0.5

_logger = logging.getLogger(__name__)


class EventListener:
    def __init__(
        self,
        open_connection: Callable[[], PostgresConnection],
        *,
        server_id: str,
        position: Callable[[], int],
        wake: Callable[[], None],
    ) -> None:
        """``position``: the number of the last event that listeners of the store got."""
        self._open = open_connection
        self._server_id = server_id
        self._position = position
        self._wake = wake
        self._sql: PostgresConnection | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="store-listener", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Blocks until the thread has ended."""
        self._stopping.set()
        if self._sql is not None:
            self._sql.interrupt()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._listen()
            except psycopg.Error as error:
                if self._stopping.is_set():
                    return
                _logger.warning("the listener lost the database: %s", " ".join(str(error).split()))
                self._stopping.wait(_RETRY_SECONDS)

    def _listen(self) -> None:
        sql = self._sql = self._open()
        try:
            wait = self._wait_pooled if _is_pooled(sql) else self._wait_for_notice
            if wait == self._wait_for_notice:
                sql.query(f"LISTEN {CHANNEL}", seconds=_ANSWER_SECONDS)
            self._wake()
            while not self._stopping.is_set():
                if wait(sql) or self._is_behind(sql):
                    self._wake()
        finally:
            sql.close()

    def _wait_for_notice(self, sql: PostgresConnection) -> bool:
        """Return whether a notice of another server came."""
        notices = list(sql.raw.notifies(timeout=_LOOK_SECONDS, stop_after=1))
        return any(notice.payload != self._server_id for notice in notices)

    def _wait_pooled(self, sql: PostgresConnection) -> bool:
        self._stopping.wait(_POOLED_LOOK_SECONDS)
        return False

    def _is_behind(self, sql: PostgresConnection) -> bool:
        rows = sql.query("SELECT last FROM log", seconds=_ANSWER_SECONDS)
        return any(int(last) > self._position() for (last,) in rows)  # none: the database is being restored


def _is_pooled(sql: PostgresConnection) -> bool:
    """Whether a pooler is between: the process that answers is not the one that greeted."""
    ((pid,),) = sql.query("SELECT pg_backend_pid()", seconds=_ANSWER_SECONDS)
    return int(pid) != sql.raw.info.backend_pid
