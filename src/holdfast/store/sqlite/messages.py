"""Messages, and the search in their text."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from holdfast.errors import NotFound
from holdfast.schema.base import encode
from holdfast.schema.messages import Message, Shell, Summary, Text, read_message
from holdfast.schema.sessions import SearchHit
from holdfast.store.open_drafts import DraftPiece, OpenDraft, OpenDrafts, is_finished
from holdfast.store.records import Page
from holdfast.store.sqlite import event_log
from holdfast.store.sqlite.transaction import Transaction, conflict, require_session

_EXCERPT_BEFORE, _EXCERPT_AFTER = 60, 140
_INDEX_BATCH = 500


def put(tx: Transaction, message: Message, *, attempt: int) -> None:
    tx.require_session(message.session_id)
    row = tx.sql.execute("SELECT n, session_id, seq, referenced FROM messages WHERE id = ?", (message.id,)).fetchone()
    summary = any(isinstance(part, Summary) for part in message.parts)
    if row is None:
        seq = message.seq or _next_seq(tx.sql, message.session_id)
        body = encode(msgspec.structs.replace(message, seq=seq))
        n = tx.sql.execute(
            "INSERT INTO messages (id, session_id, seq, summary, attempt, body) VALUES (?, ?, ?, ?, ?, ?)",
            (message.id, message.session_id, seq, summary, attempt, body),
        ).lastrowid
    else:
        n, session_id, seq, referenced = row
        if session_id != message.session_id:
            raise conflict(f"message {message.id!r} belongs to session {session_id!r}", message_id=message.id)
        body = encode(msgspec.structs.replace(message, seq=seq))
        if referenced:
            (old,) = tx.sql.execute("SELECT body FROM messages WHERE n = ?", (n,)).fetchone()
            event_log.keep_events_of_message(tx, read_message(old), message, referenced=referenced)
        tx.sql.execute(
            "UPDATE messages SET summary = ?, attempt = ?, body = ? WHERE n = ?", (summary, attempt, body, n)
        )
    tx.seqs[message.id] = seq
    tx.messages[message.id] = message
    if message.role == "user" or is_finished(message):
        _put_text(tx, n, _searchable(message))


def _next_seq(sql: sqlite3.Connection, session_id: str) -> int:
    (last,) = sql.execute("SELECT max(seq) FROM messages WHERE session_id = ?", (session_id,)).fetchone()
    return int(last or 0) + 1


def _searchable(message: Message) -> str:
    found = [part.text for part in message.parts if isinstance(part, Text | Summary)]
    found += [part.command for part in message.parts if isinstance(part, Shell)]
    return "\n".join(found)


def _put_text(tx: Transaction, n: int | None, text: str) -> None:
    """Store the text. The writer indexes it later, so that no commit waits for the index."""
    row = tx.sql.execute("SELECT text, indexed FROM message_text WHERE n = ?", (n,)).fetchone()
    known, indexed = row or ("", 0)
    if known == text:
        return
    if indexed:
        tx.sql.execute("INSERT INTO search (search, rowid, text) VALUES ('delete', ?, ?)", (n, known))
    tx.sql.execute("INSERT OR REPLACE INTO message_text (n, text, indexed) VALUES (?, ?, 0)", (n, text))


def has_new_text(sql: sqlite3.Connection) -> bool:
    return sql.execute("SELECT 1 FROM message_text WHERE indexed = 0 LIMIT 1").fetchone() is not None


def index_new_text(sql: sqlite3.Connection) -> int:
    """Index some of the texts that are not indexed yet. Return how many."""
    rows = sql.execute("SELECT n, text FROM message_text WHERE indexed = 0 LIMIT ?", (_INDEX_BATCH,)).fetchall()
    sql.executemany("INSERT INTO search (rowid, text) VALUES (?, ?)", rows)
    sql.executemany("UPDATE message_text SET indexed = 1 WHERE n = ?", [(n,) for n, _ in rows])
    return len(rows)


def delete_of_session(tx: Transaction, session_id: str) -> None:
    indexed = tx.sql.execute(
        "SELECT n, text FROM message_text WHERE indexed = 1 AND n IN (SELECT n FROM messages WHERE session_id = ?)",
        (session_id,),
    ).fetchall()
    if indexed:
        tx.sql.executemany("INSERT INTO search (search, rowid, text) VALUES ('delete', ?, ?)", indexed)
    tx.sql.execute("DELETE FROM messages WHERE session_id = ?", (session_id,))


def restored_drafts(sql: sqlite3.Connection, pieces: Iterable[DraftPiece]) -> OpenDrafts:
    """Return the drafts of the last server whose message is still open, and whose run has not ended."""
    drafts = OpenDrafts()
    drafts.restore(pieces)
    for message_id, draft in drafts.all().items():
        row = sql.execute("SELECT body, attempt FROM messages WHERE id = ?", (message_id,)).fetchone()
        if row is None or row[1] != draft.attempt or not _is_open(sql, read_message(row[0])):
            drafts.remove(message_id)
    return drafts


def _is_open(sql: sqlite3.Connection, message: Message) -> bool:
    run = sql.execute("SELECT live FROM runs WHERE id = ?", (message.run_id,)).fetchone()
    return not is_finished(message) and run is not None and bool(run[0])


def _read(row: tuple[bytes, str, int], drafts: Mapping[str, OpenDraft]) -> Message:
    """Decode a message, with the text of its draft if it is open."""
    body, message_id, attempt = row
    found = read_message(body)
    draft = drafts.get(message_id)
    return found if draft is None or draft.attempt != attempt or is_finished(found) else draft.add_to(found)


def message(sql: sqlite3.Connection, message_id: str, *, drafts: Mapping[str, OpenDraft]) -> Message:
    row = sql.execute("SELECT body, id, attempt FROM messages WHERE id = ?", (message_id,)).fetchone()
    if row is None:
        raise NotFound(f"message {message_id!r} does not exist", code="message_not_found")
    return _read(row, drafts)


def messages(
    sql: sqlite3.Connection,
    session_id: str,
    *,
    limit: int,
    after: int | None,
    before: int | None,
    drafts: Mapping[str, OpenDraft],
) -> Page[Message]:
    require_session(sql, session_id)
    if before is None:
        rows = sql.execute(
            "SELECT body, id, attempt FROM messages WHERE session_id = ? AND seq > ? ORDER BY seq LIMIT ?",
            (session_id, after or 0, limit + 1),
        ).fetchall()
        found = tuple(_read(row, drafts) for row in rows[:limit])
        rest = found[-1].seq if len(rows) > limit else None
    else:
        rows = sql.execute(
            "SELECT body, id, attempt FROM messages WHERE session_id = ? AND seq < ? AND seq > ? "
            "ORDER BY seq DESC LIMIT ?",
            (session_id, before, after or 0, limit + 1),
        ).fetchall()
        found = tuple(_read(row, drafts) for row in reversed(rows[:limit]))
        rest = found[0].seq if len(rows) > limit else None
    return Page(items=found, at=event_log.last_number(sql), next=rest)


def since_summary(sql: sqlite3.Connection, session_id: str, *, drafts: Mapping[str, OpenDraft]) -> tuple[Message, ...]:
    require_session(sql, session_id)
    (start,) = sql.execute(
        "SELECT max(seq) FROM messages WHERE session_id = ? AND summary = 1", (session_id,)
    ).fetchone()
    rows = sql.execute(
        "SELECT body, id, attempt FROM messages WHERE session_id = ? AND seq >= ? ORDER BY seq",
        (session_id, start or 0),
    )
    return tuple(_read(row, drafts) for row in rows)


_INDEXED = """SELECT sessions.workspace_id, sessions.id, sessions.title, messages.body, message_text.text
    FROM search JOIN message_text ON message_text.n = search.rowid
    JOIN messages ON messages.n = message_text.n JOIN sessions ON sessions.id = messages.session_id
    WHERE search MATCH :q AND (:workspace IS NULL OR sessions.workspace_id = :workspace)
    ORDER BY search.rank LIMIT :limit"""

_NEW = """SELECT sessions.workspace_id, sessions.id, sessions.title, messages.body, message_text.text
    FROM message_text JOIN messages ON messages.n = message_text.n JOIN sessions ON sessions.id = messages.session_id
    WHERE indexed = 0 AND (:workspace IS NULL OR sessions.workspace_id = :workspace) ORDER BY messages.n DESC"""


def search(sql: sqlite3.Connection, q: str, *, workspace_id: str | None, limit: int) -> tuple[SearchHit, ...]:
    """Scan the texts that are not indexed yet, then use the index. Without an index all texts are scanned."""
    words = q.replace("\0", " ").casefold().split()  # SQLite ends a text at NUL
    if not words:
        return ()
    parameters: dict[str, Any] = {"workspace": workspace_id, "limit": limit}
    patterns = [re.compile(rf"(?<!\w){re.escape(word)}") for word in words]
    rows = [
        row for row in sql.execute(_NEW, parameters) if all(pattern.search(row[4].casefold()) for pattern in patterns)
    ]
    if has_search_index(sql):
        parameters["q"] = " ".join('"' + word.replace('"', '""') + '"*' for word in words)
        rows += sql.execute(_INDEXED, parameters).fetchall()
    return tuple(_hit(row, words) for row in rows[:limit])


def has_search_index(sql: sqlite3.Connection) -> bool:
    return sql.execute("SELECT 1 FROM sqlite_schema WHERE name = 'search'").fetchone() is not None


def _hit(row: tuple[Any, ...], words: list[str]) -> SearchHit:
    workspace_id, session_id, title, body, text = row
    found = read_message(body)
    return SearchHit(
        workspace_id=workspace_id,
        session_id=session_id,
        session_title=title,
        message_id=found.id,
        role=found.role,
        created_at=found.created_at,
        excerpt=_excerpt(text, words),
    )


def _excerpt(text: str, words: list[str]) -> str:
    """Return the text around the first match, on one line."""
    folded = text.casefold()
    matches = [match for word in words if (match := folded.find(word)) >= 0]
    start = max(min(matches, default=0) - _EXCERPT_BEFORE, 0)
    end = start + _EXCERPT_BEFORE + _EXCERPT_AFTER
    cut = " ".join(text[start:end].split())
    return ("…" if start else "") + cut + ("…" if end < len(text) else "")
