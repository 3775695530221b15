"""Workspaces and sessions."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET

from holdfast.errors import NotFound
from holdfast.schema.base import LateDecoder, encode
from holdfast.schema.sessions import Session, Workspace
from holdfast.schema.usage import Usage
from holdfast.store.records import LaneRow, Page
from holdfast.store.rows import event_log, messages, runs
from holdfast.store.rows.sql import Sql
from holdfast.store.rows.transaction import SessionPlace, Transaction, conflict, require_session
from holdfast.store.writes import DeleteSession, UpdateSession

_workspace = LateDecoder(Workspace)
_usage = LateDecoder(Usage)

_TREE = """WITH RECURSIVE tree (id) AS (
    SELECT id FROM sessions WHERE id = ?
    UNION SELECT sessions.id FROM sessions JOIN tree ON sessions.parent_id = tree.id) SELECT id FROM tree"""


def put_workspace(tx: Transaction, workspace: Workspace) -> None:
    tx.sql.execute(
        "INSERT INTO workspaces (id, path, body) VALUES (?, ?, ?) "
        "ON CONFLICT (id) DO UPDATE SET path = excluded.path, body = excluded.body",
        (workspace.id, workspace.path, encode(workspace)),
    )


def put(tx: Transaction, session: Session, *, lane: LaneRow | None) -> None:
    root_id = session.id if session.parent_id is None else tx.require_session(session.parent_id).root_id
    usage = encode(session.usage)
    tx.make_newest(session.id)
    tx.sql.execute(
        "INSERT INTO sessions (id, workspace_id, parent_id, root_id, forked_from, activity, title, folded_title, "
        "archived, usage, created_at, updated_at, agent) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            session.id,
            session.workspace_id,
            session.parent_id,
            root_id,
            session.forked_from,
            tx.next_activity(),
            session.title,
            session.title.casefold(),
            session.archived,
            usage,
            session.created_at,
            session.updated_at,
            session.agent,
        ),
    )
    runs.insert_lane(tx, lane or LaneRow(session.id))
    tx.add_session(session.id, SessionPlace(session.workspace_id, root_id, deleted=False), usage=usage)


def update(tx: Transaction, write: UpdateSession) -> None:
    tx.require_session(write.session_id)
    given: dict[str, Any] = {"id": write.session_id}
    for name in ("title", "archived", "updated_at", "agent"):
        value = getattr(write, name)
        given[name] = None if value is UNSET else value
    given["folded"] = None if write.title is UNSET else write.title.casefold()
    tx.sql.execute(
        "UPDATE sessions SET title = coalesce(:title, title), folded_title = coalesce(:folded, folded_title), "
        "archived = coalesce(:archived, archived), updated_at = coalesce(:updated_at, updated_at), "
        "agent = coalesce(:agent, agent) WHERE id = :id",
        given,
    )


def delete(tx: Transaction, write: DeleteSession) -> None:
    """Delete the whole tree. The row of each session stays, and of each run what `R3` and `R9` need."""
    tx.require_session(write.session_id)
    for session_id in _tree(tx.sql, write.session_id):
        tx.deleted.add(session_id)
        if unfinished := runs.unfinished_ids(tx.sql, session_id):
            raise conflict(f"session {session_id!r} has unfinished runs: {', '.join(unfinished)}", run_ids=unfinished)
        runs.remove_text(tx, session_id)
        messages.delete_of_session(tx, session_id)
        for statement in _DELETE_RECORDS:
            tx.sql.execute(statement, {"id": session_id})
        tx.sql.execute(
            "UPDATE sessions SET deleted_at = ?, title = '', folded_title = '' WHERE id = ? AND deleted_at IS NULL",
            (write.at, session_id),
        )
    tx.forget_places()


_DELETE_RECORDS = (
    "DELETE FROM events WHERE root_id = (SELECT root_id FROM sessions WHERE id = :id) AND session_id = :id",
    "DELETE FROM approvals WHERE session_id = :id",
    "DELETE FROM questions WHERE session_id = :id",
    "DELETE FROM grants WHERE session_id = :id",
    "DELETE FROM jobs WHERE session_id = :id AND state <> 'running'",
    "DELETE FROM todos WHERE session_id = :id",
    "DELETE FROM reads WHERE session_id = :id",
    "DELETE FROM call_outputs WHERE session_id = :id",
    "DELETE FROM snapshots WHERE session_id = :id",
)


def read_workspace(body: bytes) -> Workspace:
    return _workspace.decode(body)


def workspace(sql: Sql, workspace_id: str) -> Workspace:
    row = sql.execute("SELECT body FROM workspaces WHERE id = ?", (workspace_id,)).fetchone()
    if row is None:
        raise NotFound(f"workspace {workspace_id!r} does not exist", code="workspace_not_found")
    return _workspace.decode(row[0])


def workspace_at(sql: Sql, path: str) -> Workspace | None:
    row = sql.execute("SELECT body FROM workspaces WHERE path = ?", (path,)).fetchone()
    return None if row is None else _workspace.decode(row[0])


def workspaces(sql: Sql) -> tuple[Workspace, ...]:
    return tuple(_workspace.decode(body) for (body,) in sql.execute("SELECT body FROM workspaces ORDER BY rowid"))


_SESSION = """SELECT id, workspace_id, parent_id, forked_from, title, archived, usage, created_at, updated_at,
    EXISTS (SELECT 1 FROM runs WHERE session_id = sessions.id AND state IN ('active', 'stopping')),
    (SELECT count(*) FROM runs WHERE session_id = sessions.id AND live = 1 AND state = 'queued'),
    agent, activity, deleted_at
    FROM sessions"""


def _session(row: tuple[Any, ...]) -> Session:
    return Session(
        id=row[0],
        workspace_id=row[1],
        parent_id=row[2],
        forked_from=row[3],
        title=row[4],
        archived=bool(row[5]),
        usage=_usage.decode(row[6]),
        created_at=row[7],
        updated_at=row[8],
        busy=bool(row[9]),
        queued=row[10],
        agent=row[11],
    )


def session(sql: Sql, session_id: str) -> Session:
    require_session(sql, session_id)
    return _session(sql.execute(f"{_SESSION} WHERE id = ?", (session_id,)).fetchone())


_FILTER = """(:q IS NULL OR instr(folded_title, :q) > 0) AND (:archived IS NULL OR archived = :archived)
    AND (:before IS NULL OR activity < :before) AND deleted_at IS NULL ORDER BY activity DESC LIMIT :limit"""


def sessions(
    sql: Sql,
    workspace_id: str,
    *,
    limit: int,
    before: int | None,
    q: str | None,
    archived: bool | None,
    parent_id: str | None,
) -> Page[Session]:
    level = "parent_id IS NULL" if parent_id is None else "parent_id = :parent"
    rows = sql.execute(
        f"{_SESSION} WHERE workspace_id = :workspace AND {level} AND {_FILTER}",
        {
            "workspace": workspace_id,
            "parent": parent_id,
            "q": q.casefold() if q else None,
            "archived": archived,
            "before": before,
            "limit": limit + 1,
        },
    ).fetchall()
    shown = rows[:limit]
    return Page(
        items=tuple(_session(row) for row in shown),
        at=event_log.last_number(sql),
        next=shown[-1][12] if len(rows) > limit else None,
    )


def descendants(sql: Sql, session_id: str) -> tuple[str, ...]:
    return _tree(sql, session_id)[1:]


def _tree(sql: Sql, session_id: str) -> tuple[str, ...]:
    """Return the session, then all below it."""
    return tuple(row[0] for row in sql.execute(_TREE, (session_id,)))
