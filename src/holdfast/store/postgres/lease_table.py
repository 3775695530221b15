"""The rows of servers and leases. The rules are those of `fleet.lease_rules`; the only clock is the database's.

A commit checks its leases by itself (`lease_check`). A change of a lease's holder waits for the commits that have
checked it, and so does the death of a server: it locks the server's row for an update of its key. A renewal changes no
key, so that it waits for no commit, and no commit waits for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec

from holdfast.schema.base import Value
from holdfast.store.postgres.connection import PostgresConnection, PostgresRows

LeaseKind: TypeAlias = Literal["owner", "caretaker"]
"""An owner has the directory and runs what is queued. A caretaker only keeps the books."""


class KnownServer(Value, frozen=True):
    id: str
    host_id: str
    address: str | None
    started_at: str
    expires_in: float
    """Seconds until its time is over; negative if it is over."""
    dead: bool
    info: dict[str, Any]
    renewals: str = ""
    """Changes with each renewal."""

    @property
    def is_alive(self) -> bool:
        return not self.dead and self.expires_in > 0


class KnownLease(Value, frozen=True):
    workspace_id: str
    server_id: str | None
    fence: int
    kind: LeaseKind


class FleetLook(NamedTuple):
    """What a server sees when it renews."""

    is_renewed: bool
    """False if it was declared dead."""
    servers: tuple[KnownServer, ...]
    leases: tuple[KnownLease, ...]


class WorkspacePlace(Value, frozen=True):
    """Where a workspace is, and who owns it."""

    workspace_id: str
    host_id: str
    """Empty: every host that has the path."""
    path: str
    lease: KnownLease | None
    has_active_runs: bool = False


_SERVERS = (
    "SELECT id, host_id, address, to_char(started_at AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.MS\"Z\"'),"
    " extract(epoch FROM expires_at - clock_timestamp())::float8, dead, info::text, expires_at::text"
    " FROM servers ORDER BY started_at, id"
)
_LEASES = "SELECT workspace_id, server_id, fence, kind FROM leases WHERE server_id IS NOT NULL ORDER BY workspace_id"
_LOCK_SERVER = "SELECT 1 FROM servers WHERE id = ? FOR UPDATE"


def register(sql: PostgresConnection, server_id: str, *, host_id: str, lasts: float, info: dict[str, Any]) -> None:
    """Insert a new incarnation. One with the same home is dead: this one holds the lock of the home.

    Servers that died long ago are forgotten: every renewal reads all rows.
    """
    forget_dead(sql)
    sql.execute("SELECT 1 FROM servers WHERE NOT dead AND info ->> 'home' = ? ORDER BY id FOR UPDATE", (info["home"],))
    sql.execute("UPDATE servers SET dead = true WHERE NOT dead AND info ->> 'home' = ?", (info["home"],))
    sql.execute(
        "INSERT INTO servers (id, host_id, expires_at, info)"
        " VALUES (?, ?, clock_timestamp() + make_interval(secs => ?), CAST(? AS jsonb))",
        (server_id, host_id, lasts, msgspec.json.encode(info).decode()),
    )


def announce(sql: PostgresConnection, server_id: str, *, address: str | None, info: dict[str, Any]) -> None:
    """Tell where a server listens. Renews nothing."""
    sql.execute(
        "UPDATE servers SET address = ?, info = CAST(? AS jsonb) WHERE id = ? AND NOT dead",
        (address, msgspec.json.encode(info).decode(), server_id),
    )


def renew(
    sql: PostgresConnection, server_id: str, *, lasts: float, address: str | None, info: dict[str, Any]
) -> Callable[[], FleetLook]:
    """Renew all leases of a server, and read the servers and leases. The result is there when the caller commits."""
    renewed = sql.execute(
        "UPDATE servers SET expires_at = clock_timestamp() + make_interval(secs => ?), address = COALESCE(?, address),"
        " info = CAST(? AS jsonb) WHERE id = ? AND NOT dead RETURNING id",
        (lasts, address, msgspec.json.encode(info).decode(), server_id),
    )
    servers, leases = sql.execute(_SERVERS), sql.execute(_LEASES)
    return lambda: FleetLook(renewed.fetchone() is not None, _known_servers(servers), _known_leases(leases))


def declare_dead(sql: PostgresConnection, server_id: str) -> Callable[[], bool]:
    """Declare a server dead whose time is over. False if it is not over, or the server is dead already.

    The result is there when the caller commits.
    """
    sql.execute(_LOCK_SERVER, (server_id,))
    declared = sql.execute(
        "UPDATE servers SET dead = true WHERE id = ? AND NOT dead AND expires_at <= clock_timestamp() RETURNING id",
        (server_id,),
    )
    return lambda: declared.fetchone() is not None


def leave(sql: PostgresConnection, server_id: str) -> None:
    """Release all leases of a server that stops, and remove its row."""
    sql.execute(_LOCK_SERVER, (server_id,))
    sql.execute("UPDATE leases SET server_id = NULL, fence = fence + 1 WHERE server_id = ?", (server_id,))
    sql.execute("DELETE FROM servers WHERE id = ?", (server_id,))


def forget_dead(sql: PostgresConnection) -> None:
    """Remove the rows of servers that died long ago. Their leases are free."""
    sql.execute(
        "UPDATE leases SET server_id = NULL, fence = fence + 1 WHERE server_id IN"
        " (SELECT id FROM servers WHERE dead AND expires_at < clock_timestamp() - interval '1 day')"
    )
    sql.execute("DELETE FROM servers WHERE dead AND expires_at < clock_timestamp() - interval '1 day'")


def take(sql: PostgresConnection, workspace_id: str, *, server_id: str, kind: LeaseKind) -> int | None:
    """Take a lease that is free, whose holder is dead, or that the server has without knowing it.

    Returns the new fence, or None if it cannot be taken.
    """
    taken = sql.execute(
        "INSERT INTO leases (workspace_id, server_id, fence, kind) SELECT ?, ?, 1, ?"
        " WHERE EXISTS (SELECT 1 FROM servers WHERE id = ? AND NOT dead FOR KEY SHARE)"
        " ON CONFLICT (workspace_id) DO UPDATE"
        " SET server_id = excluded.server_id, fence = leases.fence + 1, kind = excluded.kind"
        " WHERE leases.server_id IS NULL OR leases.server_id = excluded.server_id"
        " OR NOT EXISTS (SELECT 1 FROM servers AS holder WHERE holder.id = leases.server_id AND NOT holder.dead)"
        " RETURNING fence",
        (workspace_id, server_id, kind, server_id),
    ).fetchone()
    return None if taken is None else int(taken[0])


def release(sql: PostgresConnection, workspace_id: str, *, server_id: str, fence: int) -> bool:
    released = sql.execute(
        "UPDATE leases SET server_id = NULL, fence = fence + 1"
        " WHERE workspace_id = ? AND server_id = ? AND fence = ? RETURNING fence",
        (workspace_id, server_id, fence),
    )
    return released.fetchone() is not None


def read_servers(sql: PostgresConnection) -> tuple[KnownServer, ...]:
    """All servers, the oldest first; also those that died in the last days."""
    return _known_servers(sql.execute(_SERVERS))


def _known_servers(rows: PostgresRows) -> tuple[KnownServer, ...]:
    return tuple(
        KnownServer(
            id=row[0],
            host_id=row[1],
            address=row[2],
            started_at=row[3],
            expires_in=row[4],
            dead=row[5],
            info=msgspec.json.decode(row[6]),
            renewals=row[7],
        )
        for row in rows
    )


def read_leases(sql: PostgresConnection) -> tuple[KnownLease, ...]:
    """The leases that are held."""
    return _known_leases(sql.execute(_LEASES))


def _known_leases(rows: PostgresRows) -> tuple[KnownLease, ...]:
    return tuple(KnownLease(*row) for row in rows)


def read_place(sql: PostgresConnection, workspace_id: str) -> WorkspacePlace | None:
    row = sql.execute(
        "SELECT w.id, w.host_id, w.path, l.server_id, l.fence, l.kind FROM workspaces AS w"
        " LEFT JOIN leases AS l ON l.workspace_id = w.id WHERE w.id = ?",
        (workspace_id,),
    ).fetchone()
    return None if row is None else _place(row)


def read_orphans(sql: PostgresConnection) -> tuple[WorkspacePlace, ...]:
    """Workspaces with unfinished runs or running jobs that no living server owns."""
    rows = sql.execute(
        "SELECT w.id, w.host_id, w.path, l.server_id, l.fence, l.kind, bool_or(work.is_active) FROM ("
        " SELECT s.workspace_id, r.state NOT IN ('queued', 'waiting') AS is_active"
        " FROM runs AS r JOIN sessions AS s ON s.id = r.session_id WHERE r.live = 1"
        " UNION ALL SELECT workspace_id, true FROM jobs WHERE state = 'running') AS work"
        " JOIN workspaces AS w ON w.id = work.workspace_id LEFT JOIN leases AS l ON l.workspace_id = w.id"
        " WHERE NOT EXISTS (SELECT 1 FROM servers AS h WHERE h.id = l.server_id AND NOT h.dead)"
        " GROUP BY w.id, w.host_id, w.path, l.server_id, l.fence, l.kind ORDER BY w.id"
    ).fetchall()
    return tuple(msgspec.structs.replace(_place(row), has_active_runs=bool(row[6])) for row in rows)


def read_fleet(
    sql: PostgresConnection,
) -> tuple[tuple[KnownServer, ...], tuple[WorkspacePlace, ...], dict[str, tuple[int, int]], int]:
    """All servers, all places, the lengths of the queues, and the last number of the log."""
    rows = sql.execute(
        "SELECT w.id, w.host_id, w.path, l.server_id, l.fence, l.kind FROM workspaces AS w"
        " LEFT JOIN leases AS l ON l.workspace_id = w.id ORDER BY w.path, w.id"
    ).fetchall()
    queues = read_queues(sql)
    (last,) = sql.execute("SELECT last FROM log").fetchone()
    return read_servers(sql), tuple(_place(row) for row in rows), queues, int(last)


def read_queues(sql: PostgresConnection) -> dict[str, tuple[int, int]]:
    """For each workspace with unfinished runs: how many are active, and how many wait."""
    rows = sql.execute(
        "SELECT s.workspace_id, count(*) FILTER (WHERE r.state NOT IN ('queued', 'waiting')),"
        " count(*) FILTER (WHERE r.state IN ('queued', 'waiting'))"
        " FROM runs AS r JOIN sessions AS s ON s.id = r.session_id WHERE r.live = 1 GROUP BY s.workspace_id"
    ).fetchall()
    return {row[0]: (int(row[1]), int(row[2])) for row in rows}


def _place(row: Any) -> WorkspacePlace:
    lease = None if row[4] is None else KnownLease(row[0], row[3], int(row[4]), row[5])
    return WorkspacePlace(row[0], row[1], row[2], lease)
