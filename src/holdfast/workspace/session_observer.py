"""Looks at what a session works with: the files that it has read. Implements the agent's `SessionObserver`."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path

from holdfast.errors import ToolError
from holdfast.schema.messages import File
from holdfast.tools.files.file_access import content_hash, display_path, read_file, resolve_path
from holdfast.workspace.open_workspace import OpenWorkspace

_MAX_FILES = 8


class WorkspaceObserver:
    """The `SessionObserver` of one session."""

    def __init__(self, workspace: OpenWorkspace, session_id: str) -> None:
        self._workspace = workspace
        self._session_id = session_id

    async def read_files(self, paths: Sequence[str], *, characters: int) -> tuple[File, ...]:
        known = dict(await self._workspace.shared.store.read_hashes(self._session_id))
        return await asyncio.to_thread(self._read_files, paths, known, characters)

    def _read_files(self, paths: Sequence[str], known: Mapping[str, str], characters: int) -> tuple[File, ...]:
        found: dict[Path, File] = {}
        for named in paths:
            if len(found) == _MAX_FILES or characters <= 0:
                break
            try:
                path = resolve_path(named, self._workspace.path)
                data = None if path in found or str(path) not in known else read_file(path, limit=4 * characters)
            except ToolError:
                continue
            if data is None or content_hash(data) != known[str(path)]:
                continue
            text = _decode(data)
            if text is not None and len(text) <= characters:
                name = display_path(path, self._workspace.path)
                found[path] = File(name, "text/plain", text=self._workspace.redactor.redact(text))
                characters -= len(text)
        return tuple(found.values())


def _decode(data: bytes) -> str | None:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text
