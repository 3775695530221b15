"""The store in one SQLite file in WAL mode: one writer thread with group commit, and a few reader threads."""

from __future__ import annotations

from holdfast.store.sqlite.sqlite_store import SqliteStore, open_store

__all__ = ["SqliteStore", "open_store"]
