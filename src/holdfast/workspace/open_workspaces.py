"""The open directories of one server, by workspace."""

from __future__ import annotations

import asyncio

from holdfast.errors import NotFound
from holdfast.schema.sessions import Workspace
from holdfast.tools.registry import ToolRegistry
from holdfast.workspace.open_workspace import OpenWorkspace
from holdfast.workspace.shared_parts import Shared


class OpenWorkspaces:
    """One room per workspace; opening it again joins it (`W1`)."""

    def __init__(self, shared: Shared) -> None:
        self.shared = shared
        self._rooms: dict[str, OpenWorkspace] = {}

    async def enter(self, workspace: Workspace) -> OpenWorkspace:
        """The live parts of a workspace, made if they are not there yet."""
        room = self._rooms.get(workspace.id)
        if room is None:
            tools = await asyncio.to_thread(ToolRegistry)  # imports every tool when it is the first
            room = self._rooms.setdefault(workspace.id, OpenWorkspace(workspace, self.shared, tools))
        return room

    def find(self, workspace_id: str) -> OpenWorkspace:
        """Of a workspace that is open."""
        room = self._rooms.get(workspace_id)
        if room is None:
            raise NotFound(f"workspace {workspace_id!r} is not open; open its directory first", code="workspace_closed")
        return room

    def get(self, workspace_id: str) -> OpenWorkspace | None:
        return self._rooms.get(workspace_id)

    def all(self) -> tuple[OpenWorkspace, ...]:
        return tuple(self._rooms.values())

    async def close(self, workspace_id: str) -> tuple[str, ...]:
        """What would not die of it, by name."""
        room = self._rooms.pop(workspace_id, None)
        return () if room is None else await room.close()

    async def close_all(self) -> None:
        rooms, self._rooms = self._rooms, {}
        await asyncio.gather(*(room.close() for room in rooms.values()))
