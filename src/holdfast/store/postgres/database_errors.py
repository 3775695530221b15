"""Errors of PostgreSQL as ours."""

from __future__ import annotations

import psycopg

from holdfast.errors import HoldfastError, StoreConflict, StoreLocked, StoreUnreachable, StoreUnwritable

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


def is_lost(error: BaseException) -> bool:
    """Whether the connection is gone, or was refused for now."""
    if not isinstance(error, psycopg.Error):
        return False
    state = error.sqlstate
    if state is None:
        return isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
    return state.startswith(_CONNECTION) or state in (_TOO_MANY_CONNECTIONS, "25P03")


def may_repeat(error: BaseException) -> bool:
    return isinstance(error, psycopg.Error) and error.sqlstate in _REPEAT


def is_read_only(error: BaseException) -> bool:
    return isinstance(error, psycopg.Error) and error.sqlstate == _READ_ONLY


def is_lease_error(error: BaseException) -> bool:
    return isinstance(error, psycopg.errors.CheckViolation) and error.diag.constraint_name == LEASE_CONSTRAINT


def unreachable(error: BaseException) -> StoreUnreachable:
    reason = " ".join(str(error).split()) or type(error).__name__
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
    if is_lost(error):
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
