"""The one connection that must not go through a pooler: it waits for notices that another server has committed.

A notice only wakes; the events are read from the table. After the connection was lost they are read too, because
notices may have been missed.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

import psycopg

from holdfast.store.postgres.commit_thread import CHANNEL
from holdfast.store.postgres.connection import PostgresConnection

_POLL_SECONDS = 1.0
_RETRY_SECONDS = 0.5

_logger = logging.getLogger(__name__)


class EventListener:
    def __init__(
        self, open_connection: Callable[[], PostgresConnection], *, server_id: str, wake: Callable[[], None]
    ) -> None:
        self._open = open_connection
        self._server_id = server_id
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
            sql.raw.execute(f"LISTEN {CHANNEL}".encode())
            self._wake()
            while not self._stopping.is_set():
                foreign = [
                    notice
                    for notice in sql.raw.notifies(timeout=_POLL_SECONDS, stop_after=1)
                    if notice.payload != self._server_id
                ]
                if foreign:
                    self._wake()
        finally:
            sql.close()
