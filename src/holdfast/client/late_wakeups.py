"""Keep one harmless message of the HTTP library's sockets out of logs and terminals.

anyio (4.16) wakes a reader of a Unix socket with ``add_reader(socket, future.set_result, None)``. If bytes arrive in
the same turn of the event loop in which the reader is cancelled, the future has ended when it is woken, and asyncio
reports an `asyncio.InvalidStateError` that nobody can do anything about: nobody waits any more, and nothing is lost.
"""

from __future__ import annotations

import asyncio
import logging

_START = "Exception in callback Future.set_result(None)"


def drop_late_wakeups() -> None:
    """Drop that message; all others of asyncio stay. May be called again."""
    logging.getLogger("asyncio").addFilter(_is_of_interest)


def _is_of_interest(record: logging.LogRecord) -> bool:
    error = record.exc_info[1] if record.exc_info else None
    return not (isinstance(error, asyncio.InvalidStateError) and str(record.msg).startswith(_START))
