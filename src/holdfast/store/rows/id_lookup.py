"""Finding ids by how they begin."""

from __future__ import annotations

from collections.abc import Collection

from holdfast.schema.sessions import IdKind, IdMatch
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
