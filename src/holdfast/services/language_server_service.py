"""The language servers of a workspace: restart, and their logs. Their states are extensions."""

from __future__ import annotations

from holdfast.schema.api.response_bodies import LogView
from holdfast.services.workspace_service import WorkspaceService


class LanguageServerService:
    def __init__(self, workspaces: WorkspaceService) -> None:
        self._workspaces = workspaces

    async def restart(self, workspace_id: str, name: str) -> LogView:
        """Start a server again, also one that has failed for good."""
        await (await self._workspaces.open_known(workspace_id)).languages.restart(name)
        return await self.log(workspace_id, name)

    async def log(self, workspace_id: str, name: str) -> LogView:
        """The last lines that a server printed or sent as log messages."""
        return LogView(name, (await self._workspaces.open_known(workspace_id)).languages.log(name))
