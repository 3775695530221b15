"""The event log: events numbered in commit order and encoded once."""

from __future__ import annotations

import sqlite3

from holdfast.schema.base import encode
from holdfast.schema.events import KnownDurable, event_kind
from holdfast.store.public_events import public_event
from holdfast.store.records import CommittedEvent, LoggedEvent, LogPage
from holdfast.store.sqlite.transaction import Transaction

PRUNE_BATCH = 2000
"""Events removed in one transaction, so that commits do not wait long."""
MAX_SPAN = 10_000


def append(tx: Transaction, events: tuple[KnownDurable, ...]) -> tuple[CommittedEvent, ...]:
    """Number the events and insert them."""
    committed = []
    rows = []
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
        tx.counters.last += 1
        number, kind, body = tx.counters.last, event_kind(event), encode(event)
        committed.append(CommittedEvent(number, workspace_id, session_id, kind, body, event))
        rows.append((number, workspace_id, session_id, root_id, kind, event.at, body))
    tx.sql.executemany(
        "INSERT INTO events (number, workspace_id, session_id, root_id, kind, at, body) VALUES (?, ?, ?, ?, ?, ?, ?)",
        rows,
    )
    return tuple(committed)


def last_number(sql: sqlite3.Connection) -> int:
    """Return the last assigned number, even if its event was removed."""
    return int(sql.execute("SELECT last FROM log").fetchone()[0])


def set_last_number(sql: sqlite3.Connection, number: int) -> None:
    sql.execute("UPDATE log SET last = ?", (number,))


def identity(sql: sqlite3.Connection) -> tuple[str, int, int]:
    """Return the log id, the last number and the highest pruned number."""
    log_id, last, pruned = sql.execute("SELECT id, last, pruned FROM log").fetchone()
    return str(log_id), int(last), int(pruned)


def prune(sql: sqlite3.Connection, before: str) -> tuple[int, int]:
    """Remove some of the events older than the time. Return how many, and the highest pruned number."""
    _, last, pruned = identity(sql)
    oldest = sql.execute("SELECT number, at FROM events ORDER BY number LIMIT ?", (PRUNE_BATCH + 1,)).fetchall()
    first_kept = next((number for number, at in oldest if at >= before), None)
    if first_kept is None:
        first_kept = oldest[-1][0] if len(oldest) > PRUNE_BATCH else last + 1
    (floor,) = sql.execute("SELECT min(floor) FROM runs WHERE live = 1").fetchone()
    end = first_kept if floor is None else min(first_kept, floor)
    if end - 1 <= pruned:
        return 0, pruned
    removed = sql.execute("DELETE FROM events WHERE number < ?", (end,)).rowcount
    sql.execute("UPDATE log SET pruned = ?", (end - 1,))
    return removed, end - 1


_ALL = """SELECT number, workspace_id, session_id, kind, body FROM events
    WHERE number > :after AND number <= :upto ORDER BY number LIMIT :limit"""

_OF_WORKSPACE = """SELECT number, workspace_id, session_id, kind, body FROM events
    WHERE number > :after AND number <= :upto AND (workspace_id = :workspace OR workspace_id IS NULL)
    ORDER BY number LIMIT :limit"""

_OF_SESSION = """WITH RECURSIVE tree (id) AS (
        SELECT :session UNION SELECT sessions.id FROM sessions JOIN tree ON sessions.parent_id = tree.id)
    SELECT number, workspace_id, session_id, kind, body FROM events
    WHERE root_id = (SELECT root_id FROM sessions WHERE id = :session) AND number > :after AND number <= :upto
        AND session_id IN tree
    ORDER BY number LIMIT :limit"""


def events_after(
    sql: sqlite3.Connection,
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
    for row in rows:
        events.append(LoggedEvent(*row))
        size += len(events[-1].body)
        if len(events) == limit or size >= max_bytes:
            return LogPage(events=tuple(events), passed=events[-1].number, pruned=pruned)
    return LogPage(events=tuple(events), passed=max(upto, number), pruned=pruned)
