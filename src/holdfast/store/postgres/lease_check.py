"""The leases that a commit needs: checked by the database in the transaction of the commit itself.

The check is a column of the row in ``commits``: the constraint ``lease_held`` refuses the whole transaction if one of
the leases is not held with its fence any more. The rows of the leases stay locked for share until the commit, so a
takeover comes before it, and refuses it, or after it. Of the server's own row only the key is locked: its death waits
for the commit, but its renewals do not, nor does the commit for them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

import msgspec

from holdfast.errors import CommitRefused
from holdfast.store.postgres.connection import PostgresConnection


class Fences(Protocol):
    """The leases that this server holds."""

    server_id: str

    def fence(self, workspace_id: str) -> int | None:
        """Return the fence of the lease; None if this server does not hold it, 0 if it needs none of its own."""
        ...

    def lost(self) -> CommitRefused:
        """Return the error for a commit that needs a lease that is not held."""
        ...


class LeaseCheck:
    """Collects what the batches of one transaction need."""

    def __init__(self, fences: Fences) -> None:
        self._fences = fences
        self._needed: dict[str, int] = {}

    def add(self, workspace_ids: Iterable[str], relied: Mapping[str, int]) -> None:
        """Raises the error of `Fences.lost` at once if a lease is not held, or not with the fence relied on."""
        for workspace_id in workspace_ids:
            fence = self._fences.fence(workspace_id)
            if fence is None or {relied.get(workspace_id, fence), self._needed.get(workspace_id, fence)} != {fence}:
                raise self._fences.lost()
            if fence:
                self._needed[workspace_id] = fence

    def insert_commit(self, sql: PostgresConnection, commit_id: str) -> None:
        """Insert the row of the transaction. The constraint refuses it if a lease is not held."""
        needed = sorted(self._needed.items())
        sql.execute(
            _INSERT,
            {
                "id": commit_id,
                "server": self._fences.server_id,
                "leases": msgspec.json.encode(needed).decode(),
                "count": len(needed),
            },
        )


_INSERT = """INSERT INTO commits (id, last, held) SELECT :id, last,
    EXISTS (SELECT 1 FROM servers WHERE id = :server AND NOT dead FOR KEY SHARE)
    AND (SELECT count(*) FROM (SELECT 1 FROM leases WHERE server_id = :server AND (workspace_id, fence) IN
        (SELECT needed->>0, CAST(needed->>1 AS bigint) FROM json_array_elements(CAST(:leases AS json)) AS needed)
        ORDER BY workspace_id FOR SHARE) AS held) = :count
    FROM log"""
