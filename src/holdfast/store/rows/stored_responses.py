"""Responses to requests with an ``Idempotency-Key``. Their table is called ``answers``."""

from __future__ import annotations

from holdfast.store.records import StoredResponse
from holdfast.store.rows.sql import Sql
from holdfast.store.rows.transaction import Transaction


def put(tx: Transaction, response: StoredResponse) -> None:
    tx.sql.execute(
        "INSERT INTO answers (key, request_hash, status, body, created_at) VALUES (?, ?, ?, ?, ?)",
        (response.key, response.request_hash, response.status, response.body, response.created_at),
    )


def stored_response(sql: Sql, key: str) -> StoredResponse | None:
    row = sql.execute(
        "SELECT key, request_hash, status, body, created_at FROM answers WHERE key = ?", (key,)
    ).fetchone()
    return StoredResponse(*row) if row else None


def prune(sql: Sql, before: str) -> int:
    """Remove responses older than the time. Return how many."""
    return sql.execute("DELETE FROM answers WHERE created_at < ?", (before,)).rowcount
