"""What differs from `rows` when a batch is written: counters that all servers share, and hosts of workspaces."""

from __future__ import annotations

from collections.abc import Callable

from holdfast.schema.base import encode
from holdfast.schema.sessions import Workspace
from holdfast.store import writes as w
from holdfast.store.postgres.connection import PostgresConnection
from holdfast.store.postgres.dialect import Expression
from holdfast.store.postgres.word_index import WORD_INDEX
from holdfast.store.rows import sessions
from holdfast.store.rows.apply_write import apply_write
from holdfast.store.rows.sql import Sql
from holdfast.store.rows.transaction import Counters, Transaction

_NEXT_ACTIVITY = Expression("nextval('session_activity')")
_NEXT_NUMBER = Expression("(SELECT last + 1 FROM log)")
"""At most the number of the batch's first event: others may commit first."""


_NO_COUNTERS = Counters(last=0, activity=0)


class PostgresTransaction(Transaction):
    """What the writes and events of one batch share. The database computes its numbers."""

    __slots__ = ("_workspaces", "host_of")

    def __init__(self, sql: PostgresConnection, *, host_of: Callable[[str], str]) -> None:
        """``host_of`` says for the path of a directory on which host it is; empty: on all."""
        super().__init__(sql, counters=_NO_COUNTERS, search=WORD_INDEX)
        self.first = _NEXT_NUMBER
        self.host_of = host_of
        self._workspaces: set[str] = set()

    def next_activity(self) -> Expression:
        return _NEXT_ACTIVITY

    def add_workspace(self, workspace_id: str) -> None:
        self._workspaces.add(workspace_id)

    def workspaces(self) -> set[str]:
        """The workspaces that the batch changes."""
        for run in self.runs.values():
            self.place(run.session_id)
        return self._workspaces | {place.workspace_id for place in self.places()}


def apply_postgres_write(tx: PostgresTransaction, write: w.AnyWrite) -> None:
    match write:
        case w.PutWorkspace():
            _put_workspace(tx, write.workspace)
        case w.AddGrant():
            tx.add_workspace(write.grant.workspace_id)
            apply_write(tx, write)
        case w.RemoveGrants():
            tx.add_workspace(write.workspace_id)
            apply_write(tx, write)
        case _:
            apply_write(tx, write)


def _put_workspace(tx: PostgresTransaction, workspace: Workspace) -> None:
    tx.sql.execute(
        "INSERT INTO workspaces (id, path, body, host_id) VALUES (?, ?, ?, ?) "
        "ON CONFLICT (id) DO UPDATE SET path = excluded.path, body = excluded.body",
        (workspace.id, workspace.path, encode(workspace), tx.host_of(workspace.path)),
    )


def workspace_at(sql: Sql, path: str, *, host_id: str) -> Workspace | None:
    row = sql.execute(
        "SELECT body FROM workspaces WHERE path = ? AND host_id IN ('', ?) ORDER BY host_id DESC LIMIT 1",
        (path, host_id),
    ).fetchone()
    return None if row is None else sessions.read_workspace(row[0])
