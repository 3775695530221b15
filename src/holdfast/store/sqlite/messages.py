"""Messages and the search over their text."""

from __future__ import annotations

import sqlite3
from typing import Any

import msgspec

from holdfast.errors import NotFound
from holdfast.schema.base import encode
from holdfast.schema.messages import Finish, Message, Shell, Summary, Text, read_message
from holdfast.store.records import Hit, Page
from holdfast.store.sqlite import log
from holdfast.store.sqlite.lookup import require_session
from holdfast.store.sqlite.transaction import Transaction, conflict

_EXCERPT_BEFORE, _EXCERPT_AFTER = 60, 140


def put(tx: Transaction, message: Message) -> None:
    tx.require_session(message.session_id)
    row = tx.sql.execute("SELECT n, session_id, seq FROM messages WHERE id = ?", (message.id,)).fetchone()
    summary = any(isinstance(part, Summary) for part in message.parts)
    if row is None:
        seq = message.seq or _next_seq(tx.sql, message.session_id)
        body = encode(msgspec.structs.replace(message, seq=seq))
        n = tx.sql.execute(
            "INSERT INTO messages (id, session_id, seq, summary, body) VALUES (?, ?, ?, ?, ?)",
            (message.id, message.session_id, seq, summary, body),
        ).lastrowid
    else:
        n, session_id, seq = row
        if session_id != message.session_id:
            raise conflict(f"message {message.id!r} belongs to session {session_id!r}", message_id=message.id)
        body = encode(msgspec.structs.replace(message, seq=seq))
        tx.sql.execute("UPDATE messages SET summary = ?, body = ? WHERE n = ?", (summary, body, n))
    tx.seqs[message.id] = seq
    if message.role == "user" or any(isinstance(part, Finish) for part in message.parts):
        _index(tx, n, _searchable(message))


def _next_seq(sql: sqlite3.Connection, session_id: str) -> int:
    (last,) = sql.execute("SELECT max(seq) FROM messages WHERE session_id = ?", (session_id,)).fetchone()
    return int(last or 0) + 1


def _searchable(message: Message) -> str:
    found = [part.text for part in message.parts if isinstance(part, Text | Summary)]
    found += [part.command for part in message.parts if isinstance(part, Shell)]
    return "\n".join(found)


def _index(tx: Transaction, n: int | None, text: str) -> None:
    row = tx.sql.execute("SELECT text FROM message_text WHERE n = ?", (n,)).fetchone()
    known = row[0] if row else ""
    if known == text:
        return
    if row is not None:
        if tx.has_search:
            tx.sql.execute("INSERT INTO search (search, rowid, text) VALUES ('delete', ?, ?)", (n, known))
        tx.sql.execute("DELETE FROM message_text WHERE n = ?", (n,))
    if text:
        tx.sql.execute("INSERT INTO message_text (n, text) VALUES (?, ?)", (n, text))
        if tx.has_search:
            tx.sql.execute("INSERT INTO search (rowid, text) VALUES (?, ?)", (n, text))


def delete_of_session(tx: Transaction, session_id: str) -> None:
    if tx.has_search:
        tx.sql.execute(
            "INSERT INTO search (search, rowid, text) SELECT 'delete', n, text FROM message_text "
            "WHERE n IN (SELECT n FROM messages WHERE session_id = ?)",
            (session_id,),
        )
    tx.sql.execute("DELETE FROM messages WHERE session_id = ?", (session_id,))


def message(sql: sqlite3.Connection, message_id: str) -> Message:
    row = sql.execute("SELECT body FROM messages WHERE id = ?", (message_id,)).fetchone()
    if row is None:
        raise NotFound(f"message {message_id!r} does not exist", code="message_not_found")
    return read_message(row[0])


def messages(
    sql: sqlite3.Connection, session_id: str, *, limit: int, after: int | None, before: int | None
) -> Page[Message]:
    require_session(sql, session_id)
    if before is None:
        rows = sql.execute(
            "SELECT body FROM messages WHERE session_id = ? AND seq > ? ORDER BY seq LIMIT ?",
            (session_id, after or 0, limit + 1),
        ).fetchall()
        found = tuple(read_message(body) for (body,) in rows[:limit])
        rest = found[-1].seq if len(rows) > limit else None
    else:
        rows = sql.execute(
            "SELECT body FROM messages WHERE session_id = ? AND seq < ? AND seq > ? ORDER BY seq DESC LIMIT ?",
            (session_id, before, after or 0, limit + 1),
        ).fetchall()
        found = tuple(read_message(body) for (body,) in reversed(rows[:limit]))
        rest = found[0].seq if len(rows) > limit else None
    return Page(items=found, at=log.last_number(sql), next=rest)


def since_summary(sql: sqlite3.Connection, session_id: str) -> tuple[Message, ...]:
    require_session(sql, session_id)
    (start,) = sql.execute(
        "SELECT max(seq) FROM messages WHERE session_id = ? AND summary = 1", (session_id,)
    ).fetchone()
    rows = sql.execute(
        "SELECT body FROM messages WHERE session_id = ? AND seq >= ? ORDER BY seq", (session_id, start or 0)
    )
    return tuple(read_message(body) for (body,) in rows)


_HIT = """SELECT sessions.workspace_id, sessions.id, sessions.title, messages.body, message_text.text
    FROM {source} JOIN messages ON messages.n = message_text.n JOIN sessions ON sessions.id = messages.session_id
    WHERE {condition} AND (:workspace IS NULL OR sessions.workspace_id = :workspace) ORDER BY {order} LIMIT :limit"""

_BY_INDEX = _HIT.format(
    source="search JOIN message_text ON message_text.n = search.rowid",
    condition="search MATCH :q",
    order="search.rank",
)
_BY_SCAN = _HIT.format(
    source="message_text",
    condition="NOT EXISTS (SELECT 1 FROM json_each(:words) WHERE NOT instr(lower(message_text.text), value))",
    order="messages.n DESC",
)


def search(
    sql: sqlite3.Connection, q: str, *, workspace_id: str | None, limit: int, has_search: bool
) -> tuple[Hit, ...]:
    words = q.casefold().split()
    if not words:
        return ()
    given: dict[str, Any] = {"workspace": workspace_id, "limit": limit}
    if has_search:
        given["q"] = " ".join('"' + word.replace('"', '""') + '"*' for word in words)
        rows = sql.execute(_BY_INDEX, given).fetchall()
    else:
        given["words"] = encode(words).decode()
        rows = sql.execute(_BY_SCAN, given).fetchall()
    return tuple(_hit(row, words) for row in rows)


def _hit(row: tuple[Any, ...], words: list[str]) -> Hit:
    workspace_id, session_id, title, body, text = row
    found = read_message(body)
    return Hit(
        workspace_id=workspace_id,
        session_id=session_id,
        session_title=title,
        message_id=found.id,
        role=found.role,
        created_at=found.created_at,
        excerpt=_excerpt(text, words),
    )


def _excerpt(text: str, words: list[str]) -> str:
    """The surroundings of the first word that is found, on one line."""
    folded = text.casefold()
    places = [place for word in words if (place := folded.find(word)) >= 0]
    start = max(min(places, default=0) - _EXCERPT_BEFORE, 0)
    end = start + _EXCERPT_BEFORE + _EXCERPT_AFTER
    cut = " ".join(text[start:end].split())
    return ("…" if start else "") + cut + ("…" if end < len(text) else "")
