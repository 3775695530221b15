"""The grants that were read, kept until a commit may change them. Every tool call needs them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from holdfast.schema.approvals import Grant
from holdfast.store.writes import AddGrant, Batch, DeleteSession, RemoveGrants

Read: TypeAlias = Callable[[], Awaitable[tuple[Grant, ...]]]

_MAX_WORKSPACES = 100


class KnownGrants:
    """Used on the event loop only, and only where no other process writes the database.

    A read that a commit overtakes returns what it found, but that is not kept.
    """

    def __init__(self) -> None:
        self._workspaces: dict[str, tuple[Grant, ...] | object] = {}
        """The grants of each, also of its sessions, or the mark of a read that has not ended."""

    async def get(self, workspace_id: str, session_id: str | None, *, read: Read) -> tuple[Grant, ...]:
        """Return the grants of a workspace and of one session. ``read`` returns those of all its sessions."""
        known = self._workspaces.get(workspace_id)
        found = known if isinstance(known, tuple) else await self._read(workspace_id, read)
        return tuple(grant for grant in found if grant.session_id in (None, session_id))

    async def _read(self, workspace_id: str, read: Read) -> tuple[Grant, ...]:
        if len(self._workspaces) >= _MAX_WORKSPACES:
            self._workspaces.clear()
        mark = self._workspaces[workspace_id] = object()
        found = await read()
        if self._workspaces.get(workspace_id) is mark:
            self._workspaces[workspace_id] = found
        return found

    def forget_changed(self, batch: Batch) -> None:
        """Forget what a commit may have changed. Call it before the caller of the commit continues."""
        if self._workspaces and any(
            isinstance(write, (AddGrant, RemoveGrants, DeleteSession)) for write in batch.writes
        ):
            self._workspaces.clear()
