"""The event log: events numbered in commit order. What a message or run has is left out of them (`event_bodies`)."""

from __future__ import annotations

from typing import Any

from holdfast.schema import events as e
from holdfast.schema.base import Value, encode
from holdfast.schema.events import KnownDurable, event_kind
from holdfast.schema.messages import Message
from holdfast.schema.runs import Run
from holdfast.store.event_bodies import (
    MESSAGE_KINDS,
    LeftOut,
    StoredBody,
    fill_message,
    fill_run,
    moved_by,
    shorten_message,
    shorten_run,
)
from holdfast.store.public_events import public_event
from holdfast.store.records import CommittedEvent, LoggedEvent, LogPage
from holdfast.store.rows.row_bodies import referenced_message, referenced_run
from holdfast.store.rows.sql import Sql
from holdfast.store.rows.transaction import Transaction

PRUNE_BATCH = 2000
"""Events removed in one transaction, so that commits do not wait long."""
MAX_SPAN = 10_000


class NewEvent(Value, frozen=True):
    """An event that is ready to be numbered."""

    event: KnownDurable
    body: bytes
    row: tuple[Any, ...]
    """The columns of the log after the number: workspace, session, root, kind, time, body, and what it leaves out."""

    def committed(self, number: int) -> CommittedEvent:
        row = self.row
        return CommittedEvent(number, row[0], row[1], row[3], self.body, self.event)


def prepare(tx: Transaction, events: tuple[KnownDurable, ...]) -> list[NewEvent]:
    """Return the events as the log stores them. Raises `StoreConflict` if a session does not exist."""
    prepared = []
    for given in events:
        session_id: str | None = getattr(given, "session_id", None)
        workspace_id: str | None
        root_id: str | None
        if session_id is None:
            workspace_id, root_id = getattr(given, "workspace_id", None), None
        else:
            place = tx.place(session_id)
            workspace_id, root_id = place.workspace_id, place.root_id
        event = public_event(given, seqs=tx.seqs, deleted=tx.deleted)
        body = encode(event)
        stored = _shortened(tx, event) or StoredBody(body)
        left_out = stored.left_out or _NOTHING
        row = (
            *(workspace_id, session_id, root_id, event_kind(event), event.at, stored.body),
            *(left_out.source or None, left_out.first, left_out.count),
        )
        prepared.append(NewEvent(event, body, row))
    return prepared


def append(tx: Transaction, events: tuple[KnownDurable, ...]) -> tuple[CommittedEvent, ...]:
    """Number the events and insert them."""
    prepared = prepare(tx, events)
    first = tx.counters.last + 1
    tx.counters.last += len(prepared)
    tx.sql.executemany(INSERT_EVENT, [(number, *new.row) for number, new in enumerate(prepared, first)])
    return tuple(new.committed(number) for number, new in enumerate(prepared, first))


INSERT_EVENTS = (
    "INSERT INTO events (number, workspace_id, session_id, root_id, kind, at, body, source, first_part, part_count) "
    "VALUES "
)
INSERT_EVENT = f"{INSERT_EVENTS}(?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"


_NOTHING = LeftOut("")


def _shortened(tx: Transaction, event: KnownDurable) -> StoredBody | None:
    """Return the body without what the batch stores elsewhere; None if it must be stored whole."""
    match event:
        case e.MessageCreated() | e.MessageUpdated() | e.MessageFinished():
            message = tx.messages.get(event.message.id)
            if message is None or event.session_id in tx.deleted:
                return None
            found = shorten_message(event, message)
            if found is not None and found.left_out is not None and found.left_out.count > tx.referenced[message.id]:
                count = tx.referenced[message.id] = found.left_out.count
                tx.sql.execute("UPDATE messages SET referenced = ? WHERE id = ?", (count, message.id))
            return found
        case e.RunAccepted() | e.RunStarted() | e.RunJoined() | e.RunStopping() | e.RunUpdated() | e.RunFinished():
            run = tx.runs.get(event.run.id)
            return None if run is None or event.session_id in tx.deleted else shorten_run(event, run)
        case _:
            return None


def keep_events_of_message(tx: Transaction, old: Message, new: Message, *, referenced: int) -> int:
    """Call it before a message is replaced. Its events in the log keep the parts that they had.

    Returns how many parts of the new message they leave out.
    """
    moved = moved_by(old.parts, new.parts, count=referenced)
    if moved == 0:
        return referenced
    place = tx.place(old.session_id)
    if moved is not None:
        tx.sql.execute(
            "UPDATE events SET first_part = first_part + ? WHERE root_id = ? AND source = ?",
            (moved, place.root_id, old.id),
        )
        return referenced + moved
    for number, body, left_out in _left_out_by(tx, old.id, root_id=place.root_id):
        _store_whole(tx, number, fill_message(body, left_out, old))
    return 0


def complete_events_of_run(tx: Transaction, old: Run) -> None:
    """Call it before a run's prompt is replaced. Its events in the log keep the prompt that they had."""
    for number, body, _ in _left_out_by(tx, old.id, root_id=tx.place(old.session_id).root_id):
        _store_whole(tx, number, fill_run(body, old))


def _left_out_by(tx: Transaction, source: str, *, root_id: str) -> list[tuple[int, bytes, LeftOut]]:
    rows = tx.sql.execute(
        "SELECT number, body, first_part, part_count FROM events WHERE root_id = ? AND source = ?", (root_id, source)
    )
    return [(number, body, LeftOut(source, first, count)) for number, body, first, count in rows]


def _store_whole(tx: Transaction, number: int, body: bytes) -> None:
    tx.sql.execute("UPDATE events SET body = ?, source = NULL WHERE number = ?", (body, number))


class _Sources:
    """Reads the messages and runs of one page of events, each once."""

    def __init__(self, sql: Sql) -> None:
        self._sql = sql
        self._messages: dict[str, Message] = {}
        self._runs: dict[str, Run] = {}

    def whole_body(self, kind: str, body: bytes, left_out: LeftOut) -> bytes:
        source = left_out.source
        if kind in MESSAGE_KINDS:
            message = self._messages.get(source)
            if message is None:
                message = self._messages[source] = referenced_message(self._sql, source)
            return fill_message(body, left_out, message)
        run = self._runs.get(source)
        if run is None:
            run = self._runs[source] = referenced_run(self._sql, source)
        return fill_run(body, run)


def last_number(sql: Sql) -> int:
    """Return the last assigned number, even if its event was removed."""
    return int(sql.execute("SELECT last FROM log").fetchone()[0])


def set_last_number(sql: Sql, number: int) -> None:
    sql.execute("UPDATE log SET last = ?", (number,))


def identity(sql: Sql) -> tuple[str, int, int]:
    """Return the log id, the last number and the highest pruned number."""
    log_id, last, pruned = sql.execute("SELECT id, last, pruned FROM log").fetchone()
    return str(log_id), int(last), int(pruned)


def prune(sql: Sql, before: str) -> tuple[int, int]:
    """Remove some of the events older than the time. Return how many, and the highest pruned number.

    The answers are short. The log may be locked meanwhile, and a server that is paused reads none of them.
    """
    _, last, pruned = identity(sql)
    first_kept, count, latest = sql.execute(_OLDEST, (before, PRUNE_BATCH + 1)).fetchone()
    if first_kept is None:
        first_kept = latest if count > PRUNE_BATCH else last + 1
    (floor,) = sql.execute("SELECT min(floor) FROM runs WHERE live = 1").fetchone()
    end = first_kept if floor is None else min(first_kept, floor)
    if end - 1 <= pruned:
        return 0, pruned
    removed = sql.execute("DELETE FROM events WHERE number < ?", (end,)).rowcount
    sql.execute("UPDATE log SET pruned = ?", (end - 1,))
    return removed, end - 1


_OLDEST = """SELECT min(CASE WHEN at >= ? THEN number END), count(*), max(number)
    FROM (SELECT number, at FROM events ORDER BY number LIMIT ?) AS oldest"""

_ALL = """SELECT number, workspace_id, session_id, kind, body, source, first_part, part_count FROM events
    WHERE number > :after AND number <= :upto ORDER BY number LIMIT :limit"""

_OF_WORKSPACE = """SELECT number, workspace_id, session_id, kind, body, source, first_part, part_count FROM events
    WHERE number > :after AND number <= :upto AND (workspace_id = :workspace OR workspace_id IS NULL)
    ORDER BY number LIMIT :limit"""

_OF_SESSION = """WITH RECURSIVE tree (id) AS (
        SELECT id FROM sessions WHERE id = :session
        UNION SELECT sessions.id FROM sessions JOIN tree ON sessions.parent_id = tree.id)
    SELECT number, workspace_id, session_id, kind, body, source, first_part, part_count FROM events
    WHERE root_id = (SELECT root_id FROM sessions WHERE id = :session) AND number > :after AND number <= :upto
        AND session_id IN (SELECT id FROM tree)
    ORDER BY number LIMIT :limit"""


def events_after(
    sql: Sql,
    number: int,
    *,
    upto: int,
    workspace_id: str | None,
    session_id: str | None,
    limit: int,
    max_bytes: int,
) -> LogPage:
    """A session's filter takes precedence over a workspace's, since the session is in the workspace.

    Workspaces have no index: most events are of few workspaces, and most readers are near the end of the log. Reading
    at most `MAX_SPAN` numbers at a time keeps transactions short for a reader that is far behind.
    """
    query = _OF_SESSION if session_id is not None else _OF_WORKSPACE if workspace_id is not None else _ALL
    if query is _OF_WORKSPACE:
        upto = min(upto, number + MAX_SPAN)
    rows = sql.execute(
        query, {"after": number, "upto": upto, "limit": limit, "workspace": workspace_id, "session": session_id}
    )
    (pruned,) = sql.execute("SELECT pruned FROM log").fetchone()
    events: list[LoggedEvent] = []
    size = 0
    sources = _Sources(sql)
    for row_number, of_workspace, of_session, kind, body, source, first, count in rows:
        whole = body if source is None else sources.whole_body(kind, body, LeftOut(source, first, count))
        events.append(LoggedEvent(row_number, of_workspace, of_session, kind, whole))
        size += len(events[-1].body)
        if len(events) == limit or size >= max_bytes:
            return LogPage(events=tuple(events), passed=events[-1].number, pruned=pruned)
    return LogPage(events=tuple(events), passed=max(upto, number), pruned=pruned)
