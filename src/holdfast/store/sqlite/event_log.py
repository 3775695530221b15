"""The event log: numbers in commit order, bodies encoded once."""

from __future__ import annotations

import sqlite3

from holdfast.schema.base import encode
from holdfast.schema.events import KnownDurable, event_kind
from holdfast.store.protocol import LogPage
from holdfast.store.public_events import told
from holdfast.store.sqlite.transaction import Transaction
from holdfast.store.writes import LoggedEvent

PRUNE_AT_ONCE = 2000
"""Events removed per transaction, so that commits do not wait long behind pruning."""
SPAN = 10_000


def append(tx: Transaction, events: tuple[KnownDurable, ...]) -> tuple[LoggedEvent, ...]:
    """Gives each event its number and its place in the table."""
    logged = tuple(_logged(tx, event) for event in events)
    tx.sql.executemany(
        "INSERT INTO events (number, workspace_id, session_id, root_id, kind, at, body) VALUES (?, ?, ?, ?, ?, ?, ?)",
        [
            (row.number, row.workspace_id, row.session_id, row.root_session_id, row.kind, event.at, row.body)
            for row, event in zip(logged, events, strict=True)
        ],
    )
    return logged


def _logged(tx: Transaction, event: KnownDurable) -> LoggedEvent:
    session_id: str | None = getattr(event, "session_id", None)
    workspace_id: str | None
    root_id: str | None
    if session_id is None:
        workspace_id, root_id = getattr(event, "workspace_id", None), None
    else:
        home = tx.home(session_id)
        workspace_id, root_id = home.workspace_id, home.root_id
    body = encode(told(event, seqs=tx.seqs, deleted=tx.deleted))
    tx.counters.last += 1
    return LoggedEvent(
        number=tx.counters.last,
        workspace_id=workspace_id,
        session_id=session_id,
        root_session_id=root_id,
        kind=event_kind(event),
        body=body,
    )


def last_number(sql: sqlite3.Connection) -> int:
    """The last number given, also when its event was removed since."""
    return int(sql.execute("SELECT last FROM log").fetchone()[0])


def remember_last(sql: sqlite3.Connection, number: int) -> None:
    sql.execute("UPDATE log SET last = ?", (number,))


def identity(sql: sqlite3.Connection) -> tuple[str, int, int]:
    """Log id, last number, highest pruned number."""
    log_id, last, pruned = sql.execute("SELECT id, last, pruned FROM log").fetchone()
    return str(log_id), int(last), int(pruned)


def prune(sql: sqlite3.Connection, before: str) -> tuple[int, int]:
    """Removes a bounded prefix of what is older; how many, and the highest number pruned so far."""
    _, last, pruned = identity(sql)
    oldest = sql.execute("SELECT number, at FROM events ORDER BY number LIMIT ?", (PRUNE_AT_ONCE + 1,)).fetchall()
    young = next((number for number, at in oldest if at >= before), None)
    if young is None:
        young = oldest[-1][0] if len(oldest) > PRUNE_AT_ONCE else last + 1
    (floor,) = sql.execute("SELECT min(floor) FROM runs WHERE live = 1").fetchone()
    end = young if floor is None else min(young, floor)
    if end - 1 <= pruned:
        return 0, pruned
    removed = sql.execute("DELETE FROM events WHERE number < ?", (end,)).rowcount
    sql.execute("UPDATE log SET pruned = ?", (end - 1,))
    return removed, end - 1


_ALL = """SELECT number, workspace_id, session_id, root_id, kind, body FROM events
    WHERE number > :after AND number <= :upto ORDER BY number LIMIT :limit"""

_OF_WORKSPACE = """SELECT number, workspace_id, session_id, root_id, kind, body FROM events
    WHERE number > :after AND number <= :upto AND (workspace_id = :workspace OR workspace_id IS NULL)
    ORDER BY number LIMIT :limit"""

_OF_SESSION = """WITH RECURSIVE tree (id) AS (
        SELECT :session UNION SELECT sessions.id FROM sessions JOIN tree ON sessions.parent_id = tree.id)
    SELECT number, workspace_id, session_id, root_id, kind, body FROM events
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
    """A session's filter wins over a workspace's: the session is in one.

    A workspace has no index of its own: most events of a user are of few workspaces, and who reads the log is near its
    end. Reading at most `SPAN` numbers at a time keeps even the longest way back in short transactions.
    """
    query = _OF_SESSION if session_id is not None else _OF_WORKSPACE if workspace_id is not None else _ALL
    if query is _OF_WORKSPACE:
        upto = min(upto, number + SPAN)
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
