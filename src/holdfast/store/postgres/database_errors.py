"""Errors of PostgreSQL as ours."""

from __future__ import annotations

import psycopg

from holdfast.errors import HoldfastError, StoreConflict, StoreLocked, StoreUnreachable, StoreUnwritable
from holdfast.store.postgres.connection import SilentDatabase

LEASE_CONSTRAINT = "lease_held"
_READ_ONLY = "25006"
_TOO_SLOW = frozenset({"57014", "55P03"})
"""A statement was cancelled by its time limit, or a lock was not free in time."""
_REPEAT = frozenset({"40001", "40P01"})
"""Serialization failure and deadlock: the transaction was rolled back, and may be done again."""
_INTEGRITY = "23"
_RESOURCES = "53"
_TOO_MANY_CONNECTIONS = "53300"
_CONNECTION = ("08", "57P")
_TABLES_MISSING = frozenset({"42P01", "42703", "3F000"})
"""A table, a column or the schema does not exist: the database is empty, of another program, or being restored."""


def is_lost(error: BaseException) -> bool:
    """Whether the connection is gone, or was refused for now."""
    if not isinstance(error, psycopg.Error):
        return False
    state = error.sqlstate
    if state is None:
        return isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
    return state.startswith(_CONNECTION) or state in (_TOO_MANY_CONNECTIONS, "25P03")


def lost_since(error: BaseException, *, now: float) -> float:
    """Since when the database does not answer, as the error tells it."""
    return error.since if isinstance(error, SilentDatabase) else now


def may_repeat(error: BaseException) -> bool:
    return isinstance(error, psycopg.Error) and error.sqlstate in _REPEAT


def is_read_only(error: BaseException) -> bool:
    return isinstance(error, psycopg.Error) and error.sqlstate == _READ_ONLY


def has_no_tables(error: BaseException) -> bool:
    """Whether the database that answers is not ours, or not now: it was made anew, or is being restored."""
    return isinstance(error, psycopg.Error) and error.sqlstate in _TABLES_MISSING


def needs_new_connection(error: BaseException) -> bool:
    """Whether the connection is of no use: it is gone, or leads to a database that cannot take what is ours.

    After a failover the same address may lead to one that can.
    """
    return is_lost(error) or is_read_only(error) or has_no_tables(error)


def is_refusal(error: BaseException) -> bool:
    """Whether a condition of the rows does not hold. What the writer believed of them may be the reason."""
    if is_lease_error(error):
        return False
    return isinstance(error, HoldfastError | psycopg.IntegrityError)


def is_lease_error(error: BaseException) -> bool:
    return isinstance(error, psycopg.errors.CheckViolation) and error.diag.constraint_name == LEASE_CONSTRAINT


_REFUSALS: tuple[tuple[tuple[str, ...], str], ...] = (
    (
        ("password authentication failed", "no password supplied", "password retrieved from file"),
        "the password is wrong or missing: run 'holdfast store password' (or correct the address, ~/.pgpass or "
        "PGPASSWORD), then restart the server",
    ),
    (
        ("pg_hba.conf", "authentication failed for user"),
        "the database does not let this user in from here: add a line to its pg_hba.conf, or correct the address",
    ),
    (
        ("certificate", "SSL", "sslmode"),
        "the encrypted connection cannot be made: check sslmode, sslrootcert, sslcert and sslkey in the address, and "
        "the names and dates of the certificates",
    ),
    (
        ("too many clients", "connection slots", "too many connections", "max_client_conn"),
        "the database has no free connection: raise max_connections, or use PgBouncer; Holdfast tries again by itself",
    ),
    (
        ("not currently accepting connections",),
        "its administrator has closed it (ALTER DATABASE … ALLOW_CONNECTIONS true opens it); Holdfast tries again by "
        "itself",
    ),
    (
        ("does not exist", "not allow connections"),
        "create the user and the database, or correct the address (docs/fleet.md)",
    ),
    (
        ("read-only", "not accept", "recovery mode", "starting up", "shutting down"),
        "no host of the address takes writes now; Holdfast tries again by itself",
    ),
)
"""What the database says when it refuses a connection, and what to do. libpq gives no code for these errors."""


def unreachable(error: BaseException) -> StoreUnreachable:
    reason = " ".join(str(error).split()) or type(error).__name__
    if has_no_tables(error):
        said = reason.partition(" LINE 1:")[0]  # what follows quotes the statement
        return StoreUnreachable(
            f"the PostgreSQL database does not have the tables of Holdfast ({said}): it is empty, another one, or "
            "being restored; nothing was changed: bring the right database back, and Holdfast goes on by itself; to "
            "begin with an empty one, restart the server, which makes the tables",
            detail={"cause": "tables_missing"},
        )
    for signs, advice in _REFUSALS:
        if any(sign in reason for sign in signs):
            return StoreUnreachable(
                f"the PostgreSQL database refuses the connection: {reason}; nothing was changed: {advice}"
            )
    return StoreUnreachable(
        f"the PostgreSQL database does not answer: {reason}; nothing was changed: check that it runs; Holdfast tries "
        "again by itself"
    )


def as_store_error(error: BaseException) -> BaseException:
    """Turn an error of psycopg into ours. A bug keeps its exception."""
    if isinstance(error, HoldfastError) or not isinstance(error, psycopg.Error):
        return error
    found = _mapped(error)
    if found is None:
        return error
    found.__cause__ = error
    return found


def _mapped(error: psycopg.Error) -> HoldfastError | None:
    if is_lost(error) or has_no_tables(error):
        return unreachable(error)
    state = error.sqlstate or ""
    reason = " ".join((error.diag.message_primary or str(error)).split())
    if state.startswith(_INTEGRITY):
        return StoreConflict(f"a constraint of the database does not hold: {reason}")
    if state in _TOO_SLOW or state in _REPEAT:
        return StoreLocked(
            f"the PostgreSQL database is too slow, or another program has locked its tables ({reason}); nothing was "
            "changed: try again later"
        )
    if state == _READ_ONLY:
        return StoreUnwritable(
            "the PostgreSQL database is read-only (a standby, or set so by its administrator); nothing was changed: "
            "connect to the primary",
            detail={"cause": "read_only"},
        )
    if state.startswith((_RESOURCES, "58")):
        return StoreUnwritable(
            f"the PostgreSQL database cannot be written: {reason}; nothing was changed: free space on its disk or "
            "check it",
            detail={"cause": state},
        )
    if state.startswith("42501"):
        return StoreUnwritable(
            f"the user of the PostgreSQL database may not do this: {reason}; see the privileges in docs/fleet.md",
            detail={"cause": state},
        )
    return None
