"""The ledger in one SQLite file: WAL, one writer thread with group commit, a few reading threads."""

from __future__ import annotations

from holdfast.store.sqlite.sqlite_store import SqliteStore, open_store

__all__ = ["SqliteStore", "open_store"]
