"""The search index of SQLite, a table of FTS5. A SQLite without FTS5 works without it."""

from __future__ import annotations

from typing import Any

from holdfast.store.rows.sql import Sql

_INDEXED = """SELECT sessions.workspace_id, sessions.id, sessions.title, messages.body
    FROM search JOIN messages ON messages.n = search.rowid JOIN sessions ON sessions.id = messages.session_id
    WHERE search MATCH :q AND (:workspace IS NULL OR sessions.workspace_id = :workspace)
    ORDER BY search.rank LIMIT :limit"""

_NO_TEXT = (0, "")
"""Changes nothing. A statement keeps a copy of its last values until it gets others, and a text may be very long."""


class Fts5Index:
    """A `SearchIndex`. It has no content of its own, so it must be given the text that it removes."""

    def exists(self, sql: Sql) -> bool:
        return sql.execute("SELECT 1 FROM sqlite_schema WHERE name = 'search'").fetchone() is not None

    def add(self, sql: Sql, texts: list[tuple[int, str]]) -> None:
        sql.executemany("INSERT INTO search (rowid, text) SELECT ?1, ?2 WHERE ?1 > 0", [*texts, _NO_TEXT])

    def remove(self, sql: Sql, texts: list[tuple[int, str]]) -> None:
        insert = "INSERT INTO search (search, rowid, text) SELECT 'delete', ?1, ?2 WHERE ?1 > 0"
        sql.executemany(insert, [*texts, _NO_TEXT])

    def find(self, sql: Sql, words: list[str], *, workspace_id: str | None, limit: int) -> list[Any]:
        q = " ".join('"' + word.replace('"', '""') + '"*' for word in words)
        return sql.execute(_INDEXED, {"q": q, "workspace": workspace_id, "limit": limit}).fetchall()


FTS5_INDEX = Fts5Index()
