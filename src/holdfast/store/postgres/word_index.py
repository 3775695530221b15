"""The search index of PostgreSQL: a column of words. Words are split here, so that both databases find the same."""

from __future__ import annotations

import re
import unicodedata
from typing import Any

from holdfast.store.rows.sql import Sql

_WORD = re.compile(r"[^\W_]+")
_MAX_WORDS = 16_000
"""Words of one message that are indexed; PostgreSQL counts no positions beyond."""
_MAX_WORD = 200
_MAX_POSITIONS = 200

_FIND = """SELECT sessions.workspace_id, sessions.id, sessions.title, messages.body
    FROM message_text JOIN messages ON messages.n = message_text.n JOIN sessions ON sessions.id = messages.session_id
    WHERE indexed = 1 AND words @@ CAST(:q AS tsquery) AND (:workspace IS NULL OR sessions.workspace_id = :workspace)
    ORDER BY ts_rank(words, CAST(:q AS tsquery)) DESC, messages.n DESC LIMIT :limit"""


class WordIndex:
    """A `SearchIndex`."""

    def exists(self, sql: Sql) -> bool:
        return True

    def add(self, sql: Sql, texts: list[tuple[int, str]]) -> None:
        sql.executemany(
            "UPDATE message_text SET words = CAST(? AS tsvector) WHERE n = ?",
            [(word_vector(text), n) for n, text in texts],
        )

    def remove(self, sql: Sql, texts: list[tuple[int, str]]) -> None:
        sql.executemany("UPDATE message_text SET words = NULL WHERE n = ?", [(n,) for n, _ in texts])

    def find(self, sql: Sql, words: list[str], *, workspace_id: str | None, limit: int) -> list[Any]:
        q = word_query(words)
        if not q:
            return []
        return sql.execute(_FIND, {"q": q, "workspace": workspace_id, "limit": limit}).fetchall()


WORD_INDEX = WordIndex()


def split_words(text: str) -> list[str]:
    """Return the words of a text in small letters and without accents."""
    plain = "".join(c for c in unicodedata.normalize("NFKD", text.casefold()) if not unicodedata.combining(c))
    return [word[:_MAX_WORD] for word in _WORD.findall(plain)]


def word_vector(text: str) -> str:
    """Return the text's words and where they are, as PostgreSQL's ``tsvector``."""
    positions: dict[str, list[int]] = {}
    for position, word in enumerate(split_words(text)[:_MAX_WORDS], 1):
        known = positions.setdefault(word, [])
        if len(known) < _MAX_POSITIONS:
            known.append(position)
    return " ".join(f"'{word}':{','.join(map(str, found))}" for word, found in positions.items())


def word_query(words: list[str]) -> str:
    """Return the query for texts that have all words. One with a hyphen stands for its parts in a row."""
    phrases = []
    for word in words:
        parts = split_words(word)
        if parts:
            quoted = [f"'{part}'" for part in parts]
            phrases.append(" <-> ".join([*quoted[:-1], f"{quoted[-1]}:*"]))
    return " & ".join(f"({phrase})" for phrase in phrases)
