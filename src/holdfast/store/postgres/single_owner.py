"""One server owns the whole database: it holds the lease of all workspaces, and every commit checks it.

A server that was killed may be started again at once, since it is known by its directory. Another one is refused until
the owner has not renewed for `EXPIRES_SECONDS`. An owner that was paused for so long and lost the database to another
server cannot write any more.
"""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Callable
from pathlib import Path

import msgspec

from holdfast.errors import CommitRefused, StoreLocked
from holdfast.files import write_atomic
from holdfast.store.postgres.connection import PostgresConnection

ALL_WORKSPACES = "*"
EXPIRES_SECONDS = 15
RENEW_SECONDS = 3.0

_ALIVE = "SELECT info FROM servers WHERE NOT dead AND expires_at > clock_timestamp() AND host_id <> ? LIMIT 1"


class SingleOwner:
    """`Fences` of a server that is alone: its own row must not be marked dead."""

    def __init__(self, *, home_id: str) -> None:
        self.server_id = secrets.token_hex(8)
        self._home_id = home_id

    def fence(self, workspace_id: str) -> int | None:
        return 0

    def lost(self) -> CommitRefused:
        return StoreLocked(
            "another Holdfast server has taken over the PostgreSQL database, because this one had not answered for "
            f"{EXPIRES_SECONDS} s; nothing was changed: restart this server",
            code="store_taken_over",
        )

    def acquire(self, sql: PostgresConnection) -> None:
        """Take the database, in the transaction of the caller. Raises `StoreLocked` if another server has it."""
        sql.execute("INSERT INTO leases (workspace_id) VALUES (?) ON CONFLICT DO NOTHING", (ALL_WORKSPACES,))
        sql.execute("SELECT 1 FROM leases WHERE workspace_id = ? FOR UPDATE", (ALL_WORKSPACES,))
        alive = sql.execute(_ALIVE, (self._home_id,)).fetchone()
        if alive is not None:
            (info,) = alive
            raise StoreLocked(
                f"the PostgreSQL database is in use by another Holdfast server (process {info.get('pid', 'unknown')} "
                f"on {info.get('host', 'an unknown host')}); use that server, or stop it; if it was killed, try again "
                f"in {EXPIRES_SECONDS} s",
                detail=dict(info),
            )
        about = msgspec.json.encode({"host": socket.gethostname(), "pid": os.getpid()}).decode()
        sql.execute("SELECT 1 FROM servers WHERE NOT dead ORDER BY id FOR UPDATE")  # waits for commits under way
        sql.execute("UPDATE servers SET dead = true WHERE NOT dead")
        sql.execute("DELETE FROM servers WHERE expires_at < clock_timestamp() - interval '1 day'")
        sql.execute(
            "INSERT INTO servers (id, host_id, expires_at, info) "
            "VALUES (?, ?, clock_timestamp() + ? * interval '1 second', CAST(? AS jsonb))",
            (self.server_id, self._home_id, EXPIRES_SECONDS, about),
        )
        sql.execute(
            "UPDATE leases SET server_id = ?, fence = fence + 1 WHERE workspace_id = ?",
            (self.server_id, ALL_WORKSPACES),
        )

    def renew(self, sql: PostgresConnection) -> Callable[[], None]:
        sql.execute(
            "UPDATE servers SET expires_at = clock_timestamp() + ? * interval '1 second' WHERE id = ?",
            (EXPIRES_SECONDS, self.server_id),
        )
        return lambda: None

    def release(self, sql: PostgresConnection) -> None:
        """Let another server take the database at once."""
        sql.execute("UPDATE servers SET expires_at = clock_timestamp(), dead = true WHERE id = ?", (self.server_id,))


def read_home_id(path: Path) -> str:
    """Return the id of a data directory, made when it is first used. Blocks."""
    try:
        return path.read_text("ascii").strip()
    except FileNotFoundError:
        home_id = secrets.token_hex(8)
        write_atomic(path, home_id.encode() + b"\n", mode=0o600)
        return home_id
