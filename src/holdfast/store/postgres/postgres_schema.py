"""The tables on PostgreSQL: those of `rows.migrations`, and those that only several servers need.

The version is in the table ``schema_version``. Servers that start at the same time migrate one after the other, by an
advisory lock that ends with the transaction.
"""

from __future__ import annotations

import secrets

import psycopg

from holdfast.errors import StoreDamaged, StoreNewer, StoreUnreachable, StoreUnwritable
from holdfast.store.postgres.connection import PostgresConnection
from holdfast.store.postgres.dialect import table_statement
from holdfast.store.rows.migrations import MIGRATIONS

MIGRATION_LOCK = 0x486F6C6466617374
"""``Holdfast``, as the number of the advisory lock."""

_FIRST = (
    # A session's place among all sessions of all servers.
    "CREATE SEQUENCE session_activity",
    # One row for each group of batches: whether a COMMIT whose answer was lost has happened. ``last`` is NULL if the
    # id was taken so that it cannot happen any more. ``held``: the leases were held at the commit.
    """CREATE TABLE commits (
        id TEXT COLLATE "C" PRIMARY KEY,
        last BIGINT,
        at TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(),
        held BOOLEAN NOT NULL DEFAULT true,
        CONSTRAINT lease_held CHECK (held))""",
    "CREATE INDEX commits_by_age ON commits (at)",
    # The text of messages that are still being written.
    """CREATE TABLE drafts (
        n BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        message_id TEXT COLLATE "C" NOT NULL,
        body BYTEA NOT NULL)""",
    "CREATE INDEX drafts_of_message ON drafts (message_id, n)",
    # The words of a message, for the search.
    "ALTER TABLE message_text ADD COLUMN words TSVECTOR",
    "CREATE INDEX message_words ON message_text USING gin (words)",
    # A directory is on a host; '' stands for one that all hosts mount.
    "ALTER TABLE workspaces ADD COLUMN rowid BIGINT GENERATED ALWAYS AS IDENTITY",
    "ALTER TABLE workspaces ADD COLUMN host_id TEXT COLLATE \"C\" NOT NULL DEFAULT ''",
    "ALTER TABLE workspaces DROP CONSTRAINT workspaces_path_key",
    "ALTER TABLE workspaces ADD CONSTRAINT workspaces_once UNIQUE (host_id, path)",
    """CREATE TABLE servers (
        id TEXT COLLATE "C" PRIMARY KEY,
        host_id TEXT COLLATE "C" NOT NULL,
        address TEXT,
        started_at TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(),
        expires_at TIMESTAMPTZ NOT NULL,
        dead BOOLEAN NOT NULL DEFAULT false,
        info JSONB NOT NULL DEFAULT '{}')""",
    # Who may write what. Every change of the holder adds 1 to the fence.
    """CREATE TABLE leases (
        workspace_id TEXT COLLATE "C" PRIMARY KEY,
        server_id TEXT COLLATE "C",
        fence BIGINT NOT NULL DEFAULT 1,
        kind TEXT COLLATE "C" NOT NULL DEFAULT 'owner')""",
)

POSTGRES_MIGRATIONS: tuple[tuple[str, ...], ...] = (_FIRST,)
"""Migrations of PostgreSQL's own tables. They run after those of `rows`, and are never edited after a release."""


def migrate(sql: PostgresConnection) -> None:
    """Run the missing migrations in one transaction.

    Raises `StoreNewer` if a newer Holdfast made the tables, and `StoreUnwritable` if the user may not change them.
    """
    try:
        _migrate(sql)
    except psycopg.errors.InsufficientPrivilege as error:
        reason = error.diag.message_primary
        raise StoreUnwritable(
            f"the user of the PostgreSQL database may not do this: {reason}; start once with the owner of the "
            "database, which makes the tables or upgrades them, and see the privileges in docs/fleet.md"
        ) from error


def _migrate(sql: PostgresConnection) -> None:
    sql.begin(seconds=120.0)
    sql.execute(f"SELECT pg_advisory_xact_lock({MIGRATION_LOCK})")
    (known,) = sql.execute("SELECT to_regclass('schema_version') IS NOT NULL").fetchone()
    if not known:
        _require_empty(sql)
        sql.execute("CREATE TABLE schema_version (shared BIGINT NOT NULL, own BIGINT NOT NULL)")
        sql.execute("INSERT INTO schema_version VALUES (0, 0)")
    version = sql.execute("SELECT shared, own FROM schema_version").fetchone()
    if version is None:
        raise StoreUnreachable(
            "the tables of the PostgreSQL database are empty, as while a backup is restored; nothing was changed: "
            "start the server when the restore is complete"
        )
    shared, own = version
    if shared > len(MIGRATIONS) or own > len(POSTGRES_MIGRATIONS):
        raise StoreNewer(
            f"the database was written by a newer Holdfast (schema version {shared}.{own}, but this one supports only "
            f"up to {len(MIGRATIONS)}.{len(POSTGRES_MIGRATIONS)}); it was not changed: install the newer version",
            detail={"found": f"{shared}.{own}", "known": f"{len(MIGRATIONS)}.{len(POSTGRES_MIGRATIONS)}"},
        )
    if (shared, own) == (len(MIGRATIONS), len(POSTGRES_MIGRATIONS)):
        sql.rollback()
        return
    for statements in MIGRATIONS[shared:]:
        for statement in statements:
            sql.execute(table_statement(statement))
    if shared == 0:
        sql.execute("INSERT INTO log VALUES (1, ?, 0, 0)", (secrets.token_hex(4),))
    for statements in POSTGRES_MIGRATIONS[own:]:
        for statement in statements:
            sql.execute(statement)
    sql.execute("UPDATE schema_version SET shared = ?, own = ?", (len(MIGRATIONS), len(POSTGRES_MIGRATIONS)))
    sql.commit()


def _require_empty(sql: PostgresConnection) -> None:
    """Other programs' tables are not touched: ours have common names."""
    (taken,) = sql.execute("SELECT to_regclass('sessions') IS NOT NULL OR to_regclass('log') IS NOT NULL").fetchone()
    if taken:
        raise StoreDamaged(
            "the PostgreSQL database has tables of another program; it was not changed: give Holdfast a database of "
            "its own (CREATE DATABASE holdfast)"
        )
    (may_create,) = sql.execute("SELECT has_schema_privilege(current_schema(), 'CREATE')").fetchone()
    if not may_create:
        raise StoreUnwritable(
            "the user of the PostgreSQL database may not create tables in it; start once with the owner of the "
            "database, or GRANT CREATE ON SCHEMA public"
        )
