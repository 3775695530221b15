"""Finding ids by how they begin."""

from __future__ import annotations

from collections.abc import Collection

from holdfast.schema.sessions import IdKind, IdMatch
from holdfast.store.records import OwnedKind
from holdfast.store.rows.sql import Sql

_QUERIES: dict[IdKind, str] = {
    "session": "SELECT found.id FROM sessions AS found "
    "WHERE found.id >= ? AND found.id < ? AND deleted_at IS NULL ORDER BY found.id LIMIT ?",
    "run": "SELECT found.id FROM runs AS found JOIN sessions ON sessions.id = session_id "
    "WHERE found.id >= ? AND found.id < ? AND deleted_at IS NULL ORDER BY found.id LIMIT ?",
    "message": "SELECT found.id FROM messages AS found JOIN sessions ON sessions.id = session_id "
    "WHERE found.id >= ? AND found.id < ? AND deleted_at IS NULL ORDER BY found.id LIMIT ?",
    "approval": "SELECT found.id FROM approvals AS found JOIN sessions ON sessions.id = session_id "
    "WHERE found.id >= ? AND found.id < ? AND deleted_at IS NULL ORDER BY found.id LIMIT ?",
    "question": "SELECT found.id FROM questions AS found JOIN sessions ON sessions.id = session_id "
    "WHERE found.id >= ? AND found.id < ? AND deleted_at IS NULL ORDER BY found.id LIMIT ?",
    "job": "SELECT found.id FROM jobs AS found JOIN sessions ON sessions.id = session_id "
    "WHERE found.id >= ? AND found.id < ? AND deleted_at IS NULL ORDER BY found.id LIMIT ?",
}


def find_ids(sql: Sql, *, prefix: str, kinds: Collection[IdKind], limit: int) -> tuple[IdMatch, ...]:
    """Ids that begin with ``prefix``, in order. An id that is the prefix itself is the only match."""
    above = prefix[:-1] + chr(ord(prefix[-1]) + 1)
    found: list[IdMatch] = []
    for kind, query in _QUERIES.items():
        if not kinds or kind in kinds:
            found += [IdMatch(kind, row[0]) for row in sql.execute(query, (prefix, above, limit))]
    exact = [match for match in found if match.id == prefix]
    return tuple(exact or found[:limit])


_WORKSPACE_OF: dict[OwnedKind, str] = {
    "session": "SELECT workspace_id FROM sessions WHERE id = ?",
    "run": "SELECT workspace_id FROM runs JOIN sessions ON sessions.id = session_id WHERE runs.id = ?",
    "approval": "SELECT workspace_id FROM approvals WHERE id = ?",
    "question": "SELECT workspace_id FROM questions WHERE id = ?",
    "job": "SELECT workspace_id FROM jobs WHERE id = ?",
    "call": "SELECT workspace_id FROM call_outputs JOIN sessions ON sessions.id = session_id WHERE call_id = ?",
}


def workspace_of(sql: Sql, *, kind: OwnedKind, owned_id: str) -> str | None:
    row = sql.execute(_WORKSPACE_OF[kind], (owned_id,)).fetchone()
    return None if row is None else str(row[0])
