"""One batch on its way into the tables."""

from __future__ import annotations

import sqlite3
from typing import Any

from holdfast.errors import StoreConflict
from holdfast.schema.base import Value


class Home(Value, frozen=True):
    """Where a session belongs."""

    workspace_id: str
    root_id: str
    deleted: bool


class Counters:
    """Numbers that only the writer gives. A batch that fails gives its event numbers back: nobody has seen them."""

    __slots__ = ("activity", "last")

    def __init__(self, *, last: int, activity: int) -> None:
        self.last = last
        """The last event number given."""
        self.activity = activity
        """The newest session's rank among sessions."""


class Transaction:
    """What the writes and events of one batch share."""

    __slots__ = ("_homes", "counters", "deleted", "first", "seqs", "sql")

    def __init__(self, sql: sqlite3.Connection, *, counters: Counters) -> None:
        self.sql = sql
        self.counters = counters
        self.first = counters.last + 1
        """The number that the batch's first event gets."""
        self.seqs: dict[str, int] = {}
        self.deleted: set[str] = set()
        """Sessions that this batch deletes."""
        self._homes: dict[str, Home] = {}

    def home(self, session_id: str) -> Home:
        """The session's place; `StoreConflict` if it does not exist."""
        home = self._homes.get(session_id)
        if home is None:
            row = self.sql.execute(
                "SELECT workspace_id, root_id, deleted_at IS NOT NULL FROM sessions WHERE id = ?", (session_id,)
            ).fetchone()
            if row is None:
                raise conflict(f"session {session_id!r} does not exist", session_id=session_id)
            home = self._homes[session_id] = Home(row[0], row[1], bool(row[2]))
        return home

    def require_session(self, session_id: str) -> Home:
        """The same for a write: also a deleted one is a conflict."""
        home = self.home(session_id)
        if home.deleted:
            raise conflict(f"session {session_id!r} is deleted", session_id=session_id)
        return home

    def forget_homes(self) -> None:
        """After a deletion."""
        self._homes.clear()

    def next_activity(self) -> int:
        self.counters.activity += 1
        return self.counters.activity


def conflict(message: str, **detail: Any) -> StoreConflict:
    return StoreConflict(message, detail=detail)
