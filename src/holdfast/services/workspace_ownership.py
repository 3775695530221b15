"""Who may open a workspace, when several servers share a database."""

from __future__ import annotations

from typing import Protocol


class WorkspaceOwnership(Protocol):
    """The workspaces that this server owns. A server with a database of its own owns all, and has none of this."""

    async def own(self, workspace_id: str) -> None:
        """Own the workspace, or raise `WorkspaceElsewhere`. Call this before it is opened or created."""
        ...

    async def disown(self, workspace_id: str) -> None:
        """Let others own it. Call this after it is closed."""
        ...
