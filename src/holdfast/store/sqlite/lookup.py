"""What reads of several subjects ask first."""

from __future__ import annotations

import sqlite3

from holdfast.errors import Gone, NotFound


def require_session(sql: sqlite3.Connection, session_id: str) -> None:
    """`NotFound` or `Gone` unless the session is there."""
    row = sql.execute("SELECT deleted_at FROM sessions WHERE id = ?", (session_id,)).fetchone()
    if row is None:
        raise NotFound(f"session {session_id!r} does not exist", code="session_not_found")
    if row[0] is not None:
        raise Gone(f"session {session_id!r} was deleted at {row[0]}")
