"""Memory: list, add and remove what the user asked to remember."""

from __future__ import annotations

import asyncio
from pathlib import Path

from holdfast.errors import BadRequest
from holdfast.extend.memory import (
    MemoryFiles,
    MemoryScope,
    add_entry,
    memory_entries,
    memory_files,
    read_memory_text,
    remove_entry,
)
from holdfast.schema.api.response_bodies import MemoryEntry, MemoryView
from holdfast.workspace.shared_parts import SharedParts

_HEADINGS: dict[MemoryScope, str] = {
    "user": "What I asked you to remember, for all projects",
    "project": "What I asked you to remember, for this project",
}


class MemoryService:
    """The memory of all workspaces. Changes are made one at a time."""

    def __init__(self, shared: SharedParts) -> None:
        self._shared = shared
        self._changing = asyncio.Lock()

    async def view(self, workspace_id: str) -> MemoryView:
        return await asyncio.to_thread(_view, await self._files(workspace_id))

    async def add(self, workspace_id: str, text: str, *, scope: MemoryScope) -> MemoryView:
        if self._shared.redact(text) != text:
            raise BadRequest("this contains a key, which would be sent to models; remember it without the key")
        files = await self._files(workspace_id)
        async with self._changing:
            await asyncio.to_thread(add_entry, files.of(scope), text, heading=_HEADINGS[scope])
        return await asyncio.to_thread(_view, files)

    async def remove(self, workspace_id: str, number: int, *, scope: MemoryScope) -> MemoryView:
        files = await self._files(workspace_id)
        async with self._changing:
            await asyncio.to_thread(remove_entry, files.of(scope), number)
        return await asyncio.to_thread(_view, files)

    async def _files(self, workspace_id: str) -> MemoryFiles:
        workspace = await self._shared.store.workspace(workspace_id)
        return await asyncio.to_thread(memory_files, self._shared.locations.memory_dir, Path(workspace.path))


def _view(files: MemoryFiles) -> MemoryView:
    scopes: tuple[MemoryScope, ...] = ("project", "user")
    entries = tuple(
        MemoryEntry(scope, number, text)
        for scope in scopes
        for number, text in enumerate(memory_entries(read_memory_text(files.of(scope))), start=1)
    )
    return MemoryView(entries, project_file=str(files.project), user_file=str(files.user))
