"""The extensions of a workspace and their states."""

from __future__ import annotations

import asyncio

from holdfast.events import Hub
from holdfast.schema.api.response_bodies import PageView
from holdfast.schema.extensions import ExtensionStatus
from holdfast.services.workspace_service import WorkspaceService


class ExtensionService:
    def __init__(self, workspaces: WorkspaceService, hub: Hub) -> None:
        self._workspaces = workspaces
        self._hub = hub

    async def list_statuses(self, workspace_id: str, *, wait: float) -> PageView[ExtensionStatus]:
        """Return the state of each extension. Waits so many seconds for those that are starting.

        Extensions that are configured and not started yet are started.
        """
        opened = await self._workspaces.open_known(workspace_id)
        setup = await opened.setup()
        await opened.refresh_extensions(setup)
        await opened.languages.look_for_servers(setup.settings, trusted=setup.trusted)
        if wait:
            opened.mcp.hurry()
        try:
            async with asyncio.timeout(wait):
                while any(status.state == "starting" for status in opened.extension_statuses()):
                    await opened.next_extension_change()
        except TimeoutError:
            pass
        return PageView(tuple(opened.extension_statuses()), self._hub.cursor)
