"""The transaction of one batch, and the checks of sessions that reads and writes share."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple

from holdfast.errors import Gone, NotFound, StoreConflict
from holdfast.schema.base import LateDecoder, Value
from holdfast.schema.events import KnownDurable
from holdfast.schema.messages import Message, Part
from holdfast.schema.runs import Run
from holdfast.store.event_bodies import parts_in_events
from holdfast.store.rows.sql import SearchIndex, Sql

_run = LateDecoder(Run)


class SessionPlace(Value, frozen=True):
    """Where a session belongs."""

    workspace_id: str
    root_id: str
    """The top of the session's tree."""
    deleted: bool


class StoredMessage(NamedTuple):
    """The row of a message that is about to be replaced."""

    n: int
    session_id: str
    seq: int
    referenced: int
    """How many of its parts events leave out."""
    indexed: int | None
    """Whether the search index has its text. None if it is not searchable."""
    body: bytes | None
    """None if neither events nor the index depend on it."""


class Counters:
    """Numbers that only the writer assigns. A failed batch returns its event numbers, which were not published."""

    __slots__ = ("activity", "last")

    def __init__(self, *, last: int, activity: int) -> None:
        self.last = last
        """The last assigned event number."""
        self.activity = activity
        """The rank of the newest session among all sessions."""


class Transaction:
    """What the writes and events of one batch share: also what they know of rows, so that each is read once."""

    __slots__ = (
        "_events",
        "_last_seqs",
        "_new_places",
        "_newest",
        "_parts_in_events",
        "_places",
        "_usages",
        "counters",
        "deleted",
        "first",
        "messages",
        "referenced",
        "runs",
        "search",
        "seqs",
        "sql",
    )

    def __init__(
        self, sql: Sql, *, counters: Counters, search: SearchIndex, events: tuple[KnownDurable, ...] = ()
    ) -> None:
        """``events``: those that the batch will append."""
        self.sql = sql
        self.search = search
        self.counters = counters
        self.first: Any = counters.last + 1
        """The number of the batch's first event, or an expression for one that is not larger."""
        self.seqs: dict[str, int] = {}
        """The ``seq`` of each message and snapshot that the batch writes."""
        self.messages: dict[str, Message] = {}
        """The messages that the batch writes, as stored."""
        self.referenced: dict[str, int] = {}
        """How many parts of each of them events leave out, as stored."""
        self.runs: dict[str, Run] = {}
        """The runs that the batch writes, as stored."""
        self.deleted: set[str] = set()
        """Sessions that this batch deletes."""
        self._places: dict[str, SessionPlace] = {}
        self._new_places: dict[str, SessionPlace] = {}
        """Of the sessions that the batch inserts."""
        self._newest = ""
        self._usages: dict[str, bytes] = {}
        """The usage of sessions, as stored."""
        self._last_seqs: dict[str, int] = {}
        """The ``seq`` of the newest message of sessions."""
        self._events = events
        self._parts_in_events: dict[str, list[tuple[Part, ...]]] | None = None

    def add_session(self, session_id: str, place: SessionPlace, *, usage: bytes) -> None:
        """The batch inserts the session."""
        self._new_places[session_id] = place
        self._usages[session_id] = usage
        self._last_seqs[session_id] = 0

    def place(self, session_id: str) -> SessionPlace:
        """Return where the session belongs. Raises `StoreConflict` if it does not exist."""
        place = self._places.get(session_id)
        if place is None:
            place = self._places[session_id] = self._new_places.get(session_id) or self._read_place(session_id)
        return place

    def _read_place(self, session_id: str) -> SessionPlace:
        row = self.sql.execute(
            "SELECT workspace_id, root_id, deleted_at IS NOT NULL, usage FROM sessions WHERE id = ?", (session_id,)
        ).fetchone()
        if row is None:
            raise conflict(f"session {session_id!r} does not exist", session_id=session_id)
        self._usages[session_id] = row[3]
        return SessionPlace(row[0], row[1], bool(row[2]))

    def usage(self, session_id: str) -> bytes:
        """Return the session's usage as stored."""
        found = self._usages.get(session_id)
        if found is None:
            (found,) = self.sql.execute("SELECT usage FROM sessions WHERE id = ?", (session_id,)).fetchone()
        return found

    def note_usage(self, session_id: str, usage: bytes) -> None:
        """The batch writes the usage like this."""
        self._usages[session_id] = usage

    def find_run(self, run_id: str) -> Run | None:
        """Return the run as its row has it: without a text that a message has."""
        known = self.runs.get(run_id)
        if known is not None:
            return known
        row = self.sql.execute("SELECT body FROM runs WHERE id = ?", (run_id,)).fetchone()
        return None if row is None else _run.decode(row[0])

    def note_run(self, run: Run) -> None:
        """The batch writes the run like this."""
        self.runs[run.id] = run

    def find_message(self, message: Message) -> StoredMessage | None:
        """Return the row that the message replaces. A new session has no messages but those of the batch."""
        if message.session_id in self._new_places and message.id not in self.messages:
            return None
        row = self.sql.execute(_FIND_MESSAGE, (message.id,)).fetchone()
        return None if row is None else StoredMessage(*row)

    def next_message_seq(self, session_id: str) -> int:
        last = self._last_seqs.get(session_id)
        if last is None:
            (found,) = self.sql.execute("SELECT max(seq) FROM messages WHERE session_id = ?", (session_id,)).fetchone()
            last = self._last_seqs[session_id] = int(found or 0)
        return last + 1

    def note_message(self, message: Message, seq: int, *, referenced: int) -> None:
        """The batch writes the message, with this ``seq``, of which events leave out so many parts."""
        self.seqs[message.id] = seq
        self.messages[message.id] = message
        self.referenced[message.id] = referenced
        last = self._last_seqs.get(message.session_id)
        if last is not None and seq > last:
            self._last_seqs[message.session_id] = seq

    def count_parts_in_events(self, message: Message) -> int:
        """Return how many of the message's parts the batch's events leave out, if it is stored like this."""
        if self._parts_in_events is None:
            self._parts_in_events = parts_in_events(self._events)
        most = 0
        for parts in self._parts_in_events.get(message.id, ()):
            if len(parts) > most and parts == message.parts[: len(parts)]:
                most = len(parts)
        return most

    def require_session(self, session_id: str) -> SessionPlace:
        """Return where the session belongs. Raises `StoreConflict` if it does not exist or is deleted."""
        place = self.place(session_id)
        if place.deleted:
            raise conflict(f"session {session_id!r} is deleted", session_id=session_id)
        return place

    def forget_places(self) -> None:
        """Call it after a deletion."""
        self._places.clear()
        self._new_places.clear()
        self._last_seqs.clear()

    def places(self) -> Collection[SessionPlace]:
        """Where the sessions that the batch concerns belong."""
        return self._places.values()

    def make_newest(self, session_id: str) -> bool:
        """The session becomes the newest one. Returns whether it is not already."""
        is_other = self._newest != session_id
        self._newest = session_id
        return is_other

    def next_activity(self) -> Any:
        """Return a number, or an expression for one, that is higher than every one before it."""
        self.counters.activity += 1
        return self.counters.activity


_FIND_MESSAGE = """SELECT messages.n, session_id, seq, referenced, indexed,
        CASE WHEN referenced > 0 OR indexed = 1 THEN body END
    FROM messages LEFT JOIN message_text ON message_text.n = messages.n WHERE id = ?"""


def require_session(sql: Sql, session_id: str) -> None:
    """Raise `NotFound` or `Gone` unless the session can be read."""
    row = sql.execute("SELECT deleted_at FROM sessions WHERE id = ?", (session_id,)).fetchone()
    if row is None:
        raise NotFound(f"session {session_id!r} does not exist", code="session_not_found")
    if row[0] is not None:
        raise Gone(f"session {session_id!r} was deleted at {row[0]}")


def conflict(message: str, **detail: Any) -> StoreConflict:
    return StoreConflict(message, detail=detail)
