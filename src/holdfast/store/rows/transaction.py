"""The transaction of one batch, and the checks of sessions that reads and writes share."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from holdfast.errors import Gone, NotFound, StoreConflict
from holdfast.schema.base import LateDecoder, Value
from holdfast.schema.messages import Message
from holdfast.schema.runs import Run
from holdfast.store.rows.sql import SearchIndex, Sql

_run = LateDecoder(Run)


class SessionPlace(Value, frozen=True):
    """Where a session belongs."""

    workspace_id: str
    root_id: str
    """The top of the session's tree."""
    deleted: bool


class Counters:
    """Numbers that only the writer assigns. A failed batch returns its event numbers, which were not published."""

    __slots__ = ("activity", "last")

    def __init__(self, *, last: int, activity: int) -> None:
        self.last = last
        """The last assigned event number."""
        self.activity = activity
        """The rank of the newest session among all sessions."""


class Transaction:
    """What the writes and events of one batch share."""

    __slots__ = ("_places", "counters", "deleted", "first", "messages", "runs", "search", "seqs", "sql")

    def __init__(self, sql: Sql, *, counters: Counters, search: SearchIndex) -> None:
        self.sql = sql
        self.search = search
        self.counters = counters
        self.first: Any = counters.last + 1
        """The number of the batch's first event, or an expression for one that is not larger."""
        self.seqs: dict[str, int] = {}
        """The ``seq`` of each message and snapshot that the batch writes."""
        self.messages: dict[str, Message] = {}
        """The messages that the batch writes, as stored."""
        self.runs: dict[str, Run] = {}
        """The runs that the batch writes, as stored."""
        self.deleted: set[str] = set()
        """Sessions that this batch deletes."""
        self._places: dict[str, SessionPlace] = {}

    def place(self, session_id: str) -> SessionPlace:
        """Return where the session belongs. Raises `StoreConflict` if it does not exist."""
        place = self._places.get(session_id)
        if place is None:
            row = self.sql.execute(
                "SELECT workspace_id, root_id, deleted_at IS NOT NULL FROM sessions WHERE id = ?", (session_id,)
            ).fetchone()
            if row is None:
                raise conflict(f"session {session_id!r} does not exist", session_id=session_id)
            place = self._places[session_id] = SessionPlace(row[0], row[1], bool(row[2]))
        return place

    def find_run(self, run_id: str) -> Run | None:
        """Return the run as its row has it: without a text that a message has."""
        row = self.sql.execute("SELECT body FROM runs WHERE id = ?", (run_id,)).fetchone()
        return None if row is None else _run.decode(row[0])

    def note_run(self, run: Run) -> None:
        """The batch writes the run like this."""
        self.runs[run.id] = run

    def find_message(self, message_id: str) -> tuple[int, str, int, int] | None:
        """Return a message's row number, session, ``seq``, and how many of its parts events leave out."""
        found: tuple[int, str, int, int] | None = self.sql.execute(
            "SELECT n, session_id, seq, referenced FROM messages WHERE id = ?", (message_id,)
        ).fetchone()
        return found

    def next_message_seq(self, session_id: str) -> int:
        (last,) = self.sql.execute("SELECT max(seq) FROM messages WHERE session_id = ?", (session_id,)).fetchone()
        return int(last or 0) + 1

    def note_message(self, message: Message, seq: int) -> None:
        """The batch writes the message, with this ``seq``."""
        self.seqs[message.id] = seq
        self.messages[message.id] = message

    def require_session(self, session_id: str) -> SessionPlace:
        """Return where the session belongs. Raises `StoreConflict` if it does not exist or is deleted."""
        place = self.place(session_id)
        if place.deleted:
            raise conflict(f"session {session_id!r} is deleted", session_id=session_id)
        return place

    def forget_places(self) -> None:
        """Call it after a deletion."""
        self._places.clear()

    def places(self) -> Collection[SessionPlace]:
        """Where the sessions that the batch concerns belong."""
        return self._places.values()

    def next_activity(self) -> Any:
        """Return a number, or an expression for one, that is higher than every one before it."""
        self.counters.activity += 1
        return self.counters.activity


def require_session(sql: Sql, session_id: str) -> None:
    """Raise `NotFound` or `Gone` unless the session can be read."""
    row = sql.execute("SELECT deleted_at FROM sessions WHERE id = ?", (session_id,)).fetchone()
    if row is None:
        raise NotFound(f"session {session_id!r} does not exist", code="session_not_found")
    if row[0] is not None:
        raise Gone(f"session {session_id!r} was deleted at {row[0]}")


def conflict(message: str, **detail: Any) -> StoreConflict:
    return StoreConflict(message, detail=detail)
