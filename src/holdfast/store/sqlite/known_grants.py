"""The grants that were read, kept until a commit may change them. Every tool call needs them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from holdfast.schema.approvals import Grant
from holdfast.store.writes import AddGrant, Batch, DeleteSession, RemoveGrants

Read: TypeAlias = Callable[[], Awaitable[tuple[Grant, ...]]]

_MAX_SCOPES = 500


class KnownGrants:
    """Used on the event loop only, and only where no other process writes the database.

    A read that a commit overtakes returns what it found, but that is not kept.
    """

    def __init__(self) -> None:
        self._scopes: dict[tuple[str, str | None], tuple[Grant, ...] | object] = {}
        """By workspace and session: the grants, or the mark of a read that has not ended."""

    async def get(self, workspace_id: str, session_id: str | None, *, read: Read) -> tuple[Grant, ...]:
        scope = (workspace_id, session_id)
        known = self._scopes.get(scope)
        if isinstance(known, tuple):
            return known
        if len(self._scopes) >= _MAX_SCOPES:
            self._scopes.clear()
        mark = self._scopes[scope] = object()
        found = await read()
        if self._scopes.get(scope) is mark:
            self._scopes[scope] = found
        return found

    def forget_changed(self, batch: Batch) -> None:
        """Forget what a commit may have changed. Call it before the caller of the commit continues."""
        if self._scopes and any(isinstance(write, (AddGrant, RemoveGrants, DeleteSession)) for write in batch.writes):
            self._scopes.clear()
