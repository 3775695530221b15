"""Leases that a test gives to its stores."""

from collections.abc import Awaitable, Callable

from holdfast.errors import CommitRefused, StoreLocked
from holdfast.store.postgres import PostgresStore


class HeldLeases:
    """`Fences` with the leases that a test gives."""

    def __init__(self, server_id: str, held: dict[str, int]) -> None:
        self.server_id = server_id
        self.held = held

    def fence(self, workspace_id: str) -> int | None:
        return self.held.get(workspace_id)

    def lost(self) -> CommitRefused:
        return StoreLocked("a lease is not held", code="lease_lost")


OpenServer = Callable[[str, dict[str, int]], Awaitable[PostgresStore]]
