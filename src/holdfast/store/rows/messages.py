"""Messages, and the search in their text."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import msgspec

from holdfast.errors import NotFound
from holdfast.schema.messages import Message, Shell, Summary, Text
from holdfast.schema.sessions import SearchHit
from holdfast.store.open_drafts import DraftLookup, DraftPiece, OpenDrafts, is_finished
from holdfast.store.records import Page
from holdfast.store.rows import event_log
from holdfast.store.rows.row_bodies import pack_message, unpack_message
from holdfast.store.rows.sql import SearchIndex, Sql
from holdfast.store.rows.transaction import StoredMessage, Transaction, conflict, require_session

_EXCERPT_BEFORE, _EXCERPT_AFTER = 60, 140
_INDEX_BATCH = 500
_INSERT = """INSERT INTO messages (id, session_id, seq, summary, attempt, referenced, body)
    VALUES (?, ?, ?, ?, ?, ?, ?)"""
_UPDATE = "UPDATE messages SET summary = ?, attempt = ?, referenced = ?, body = ? WHERE n = ?"
_LARGE_BYTES = 1 << 20


def put(tx: Transaction, message: Message, *, attempt: int) -> None:
    tx.require_session(message.session_id)
    summary = any(isinstance(part, Summary) for part in message.parts)
    referenced = tx.count_parts_in_events(message)
    stored = tx.find_message(message)
    n: Any
    if stored is None:
        seq = message.seq or tx.next_message_seq(message.session_id)
        body = pack_message(msgspec.structs.replace(message, seq=seq))
        row = (message.id, message.session_id, seq, summary, attempt, referenced, body)
        n = tx.sql.execute(_INSERT, row).lastrowid
    else:
        if stored.session_id != message.session_id:
            raise conflict(f"message {message.id!r} belongs to session {stored.session_id!r}", message_id=message.id)
        n, seq = stored.n, stored.seq
        body = pack_message(msgspec.structs.replace(message, seq=seq))
        referenced = max(_keep_dependents(tx, stored, message), referenced)
        tx.sql.execute(_UPDATE, (summary, attempt, referenced, body, n))
        if len(body) > _LARGE_BYTES:
            tx.sql.execute(_UPDATE, (summary, attempt, 0, b"", 0))  # no row: the statement forgets its copy of the body
    tx.note_message(message, seq, referenced=referenced)
    if (stored is None or stored.indexed is None) and (message.role == "user" or is_finished(message)):
        tx.sql.execute("INSERT INTO message_text (n, text, indexed) VALUES (?, '', 0) ON CONFLICT DO NOTHING", (n,))


def _searchable(message: Message) -> str:
    found = [part.text for part in message.parts if isinstance(part, Text | Summary)]
    found += [part.command for part in message.parts if isinstance(part, Shell)]
    return "\n".join(found)


def _keep_dependents(tx: Transaction, stored: StoredMessage, message: Message) -> int:
    """Call it before a message is replaced, for what depends on its old text: events in the log, and the search index.

    Returns how many parts of the new message events leave out.
    """
    if stored.body is None:
        return 0
    old = unpack_message(stored.body)
    if stored.indexed and (known := _searchable(old)) != _searchable(message):
        tx.search.remove(tx.sql, [(stored.n, known)])
        tx.sql.execute("UPDATE message_text SET indexed = 0 WHERE n = ?", (stored.n,))
    if not stored.referenced:
        return 0
    return event_log.keep_events_of_message(tx, old, message, referenced=stored.referenced)


def has_new_text(sql: Sql) -> bool:
    return sql.execute("SELECT 1 FROM message_text WHERE indexed = 0 LIMIT 1").fetchone() is not None


def index_new_text(sql: Sql, index: SearchIndex) -> int:
    """Index some of the texts that are not indexed yet, so that no commit waits for the index. Return how many."""
    found = sql.execute(
        "SELECT n, body FROM message_text JOIN messages USING (n) WHERE indexed = 0 LIMIT ?", (_INDEX_BATCH,)
    ).fetchall()
    rows = [(n, _searchable(unpack_message(body))) for n, body in found]
    index.add(sql, rows)
    sql.executemany("UPDATE message_text SET indexed = 1 WHERE n = ?", [(n,) for n, _ in rows])
    return len(rows)


def delete_of_session(tx: Transaction, session_id: str) -> None:
    indexed = tx.sql.execute(
        "SELECT n, body FROM message_text JOIN messages USING (n) WHERE indexed = 1 AND session_id = ?", (session_id,)
    ).fetchall()
    texts = [(n, _searchable(unpack_message(body))) for n, body in indexed]
    if texts:
        tx.search.remove(tx.sql, texts)
    tx.sql.execute("DELETE FROM messages WHERE session_id = ?", (session_id,))


def restored_drafts(sql: Sql, pieces: Iterable[DraftPiece]) -> OpenDrafts:
    """Return the drafts of the last server whose message is still open, and whose run has not ended."""
    drafts = OpenDrafts()
    drafts.restore(pieces)
    for message_id, draft in drafts.all().items():
        row = sql.execute("SELECT body, attempt FROM messages WHERE id = ?", (message_id,)).fetchone()
        if row is None or row[1] != draft.attempt or not _is_open(sql, unpack_message(row[0])):
            drafts.remove(message_id)
    return drafts


def _is_open(sql: Sql, message: Message) -> bool:
    run = sql.execute("SELECT live FROM runs WHERE id = ?", (message.run_id,)).fetchone()
    return not is_finished(message) and run is not None and bool(run[0])


def _read(row: tuple[bytes, str, int], drafts: DraftLookup) -> Message:
    """Decode a message, with the text of its draft if it is open."""
    body, message_id, attempt = row
    found = unpack_message(body)
    if found.role == "user" or is_finished(found):
        return found
    draft = drafts.get(message_id)
    return found if draft is None or draft.attempt != attempt else draft.add_to(found)


def message(sql: Sql, message_id: str, *, drafts: DraftLookup) -> Message:
    row = sql.execute("SELECT body, id, attempt FROM messages WHERE id = ?", (message_id,)).fetchone()
    if row is None:
        raise NotFound(f"message {message_id!r} does not exist", code="message_not_found")
    return _read(row, drafts)


def messages(
    sql: Sql,
    session_id: str,
    *,
    limit: int,
    after: int | None,
    before: int | None,
    drafts: DraftLookup,
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


def since_summary(sql: Sql, session_id: str, *, drafts: DraftLookup) -> tuple[Message, ...]:
    require_session(sql, session_id)
    (start,) = sql.execute(
        "SELECT max(seq) FROM messages WHERE session_id = ? AND summary = 1", (session_id,)
    ).fetchone()
    rows = sql.execute(
        "SELECT body, id, attempt FROM messages WHERE session_id = ? AND seq >= ? ORDER BY seq",
        (session_id, start or 0),
    )
    return tuple(_read(row, drafts) for row in rows)


_NEW = """SELECT sessions.workspace_id, sessions.id, sessions.title, messages.body
    FROM message_text JOIN messages ON messages.n = message_text.n JOIN sessions ON sessions.id = messages.session_id
    WHERE indexed = 0 AND (:workspace IS NULL OR sessions.workspace_id = :workspace) ORDER BY messages.n DESC"""


def search(sql: Sql, q: str, *, workspace_id: str | None, limit: int, index: SearchIndex) -> tuple[SearchHit, ...]:
    """Scan the texts that are not indexed yet, then use the index. Without an index all texts are scanned."""
    words = q.replace("\0", " ").casefold().split()  # SQLite ends a text at NUL
    if not words:
        return ()
    patterns = [re.compile(rf"(?<!\w){re.escape(word)}") for word in words]
    new = [_Match(row) for row in sql.execute(_NEW, {"workspace": workspace_id})]
    hits = [match for match in new if all(pattern.search(match.text.casefold()) for pattern in patterns)]
    if index.exists(sql):
        hits += [_Match(row) for row in index.find(sql, words, workspace_id=workspace_id, limit=limit)]
    return tuple(hit.shown(words) for hit in hits[:limit])


class _Match:
    """A message that may match, with its text."""

    def __init__(self, row: tuple[str, str, str, bytes]) -> None:
        self._workspace_id, self._session_id, self._title, body = row
        self._message = unpack_message(body)
        self.text = _searchable(self._message)

    def shown(self, words: list[str]) -> SearchHit:
        return SearchHit(
            workspace_id=self._workspace_id,
            session_id=self._session_id,
            session_title=self._title,
            message_id=self._message.id,
            role=self._message.role,
            created_at=self._message.created_at,
            excerpt=_excerpt(self.text, words),
        )


def _excerpt(text: str, words: list[str]) -> str:
    """Return the text around the first match, on one line."""
    folded = text.casefold()
    matches = [match for word in words if (match := folded.find(word)) >= 0]
    start = max(min(matches, default=0) - _EXCERPT_BEFORE, 0)
    end = start + _EXCERPT_BEFORE + _EXCERPT_AFTER
    cut = " ".join(text[start:end].split())
    return ("…" if start else "") + cut + ("…" if end < len(text) else "")
