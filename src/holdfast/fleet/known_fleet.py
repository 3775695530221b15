"""What this server knows of the others: their rows and the holders of leases, as of the latest look.

Several looks may be under way at once, and end in another order than they began. An earlier one does not replace what
a later one has found.
"""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.store.postgres.lease_table import KnownLease, KnownServer


class KnownFleet:
    def __init__(self) -> None:
        self.servers: dict[str, KnownServer] = {}
        """By id."""
        self.leases: dict[str, str] = {}
        """The holder of each lease, by workspace."""
        self._looks = 0
        self._servers_of = 0
        """The look that found the servers."""
        self._leases_of = 0

    def begin_look(self) -> int:
        """Call this before the rows are read."""
        self._looks += 1
        return self._looks

    def note_servers(self, servers: Iterable[KnownServer], *, look: int) -> None:
        if look >= self._servers_of:
            self._servers_of = look
            self.servers = {server.id: server for server in servers}

    def note_leases(self, leases: Iterable[KnownLease], *, look: int) -> None:
        if look >= self._leases_of:
            self._leases_of = look
            self.leases = {lease.workspace_id: lease.server_id for lease in leases if lease.server_id is not None}
