"""The editors that have a session open, as tools use them: through calls that the editors' clients execute.

Every editor is asked for a file, because any of them may have changes that are not saved. Only one editor can write
and run: with several, nothing says in which of them the user works.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from holdfast.digests import sha256_hex
from holdfast.errors import ToolError
from holdfast.extend.client_calls import ClientCalls
from holdfast.schema.base import to_builtins
from holdfast.schema.client_tools import (
    EDITOR_READ,
    EDITOR_RUN,
    EDITOR_STOP,
    EDITOR_WRITE,
    ClientResult,
    EditorCommand,
    EditorCommandEnd,
)
from holdfast.tools.files.editor_files import plain_text

_MOST_FILES = 1_000
_MOST_TEXTS = 8


class _EditorContext(NamedTuple):
    """A `ClientCallContext`."""

    workspace_id: str
    session_id: str
    run_id: str
    call_id: str


def attached_editors(
    calls: ClientCalls, *, root_session_id: str, workspace_id: str, session_id: str, run_id: str, call_id: str
) -> AttachedEditors | None:
    """Return the editors of a session for one tool call; ``None`` if there are none."""
    if not any(calls.clients_with(root_session_id, name) for name in (EDITOR_READ, EDITOR_RUN)):
        return None
    context = _EditorContext(workspace_id, session_id, run_id, call_id)
    return AttachedEditors(calls, root_session_id=root_session_id, context=context)


class AttachedEditors:
    """A `UserEditor`."""

    def __init__(self, calls: ClientCalls, *, root_session_id: str, context: _EditorContext) -> None:
        self._calls = calls
        self._root_session_id = root_session_id
        self._context = context

    @property
    def can_write(self) -> bool:
        return self._only(EDITOR_WRITE) is not None

    @property
    def can_run(self) -> bool:
        return self._only(EDITOR_RUN) is not None

    def _only(self, name: str) -> str | None:
        """The one editor, if it has this tool."""
        editors = {*self._clients(EDITOR_READ), *self._clients(EDITOR_RUN)}
        found = self._clients(name)
        return found[0] if len(found) == 1 and editors == {*found} else None

    def _clients(self, name: str) -> tuple[str, ...]:
        return self._calls.clients_with(self._root_session_id, name)

    async def unsaved(self, path: Path, saved: str) -> tuple[str, ...]:
        found = await asyncio.gather(*(self._unsaved(path, saved, client) for client in self._clients(EDITOR_READ)))
        return tuple(text for text in found if text is not None)

    async def _unsaved(self, path: Path, saved: str, client_id: str) -> str | None:
        known = self._note_saved(path, saved, client_id)
        try:
            found = await self._call(EDITOR_READ, {"path": str(path)}, client_id)
        except ToolError:
            return None
        return found.text if found.status == "ok" and _digest(found.text) not in known else None

    def _note_saved(self, path: Path, saved: str, client_id: str) -> tuple[str, ...]:
        """Return the last texts that the file had on the disk. An editor with one of them has not loaded the next."""
        memory = self._calls.memory(self._root_session_id, client_id)
        before = tuple(one for one in memory.pop(str(path), ()) if one != _digest(saved))
        while len(memory) >= _MOST_FILES:
            del memory[next(iter(memory))]
        known = memory[str(path)] = (*before[1 - _MOST_TEXTS :], _digest(saved))
        return known

    async def write(self, path: Path, text: str) -> bool:
        client_id = self._only(EDITOR_WRITE)
        if client_id is None:
            return False
        try:
            return (await self._call(EDITOR_WRITE, {"path": str(path), "text": text}, client_id)).status == "ok"
        except ToolError:
            return False

    async def run(self, command: EditorCommand) -> EditorCommandEnd:
        client_id = self._only(EDITOR_RUN)
        if client_id is None:
            raise ToolError("the terminal of the user's editor is not available any more; try again")
        found = await self._call(EDITOR_RUN, to_builtins(command), client_id)
        if found.status != "ok":
            raise ToolError(f"the user's editor could not run the command: {found.text}")
        return _read_end(found.text)

    async def stop(self) -> EditorCommandEnd | None:
        client_id = self._only(EDITOR_STOP)
        if client_id is None:
            return None
        try:
            found = await self._call(EDITOR_STOP, {"call_id": self._context.call_id}, client_id)
            return _read_end(found.text) if found.status == "ok" else None
        except ToolError:
            return None

    async def _call(self, name: str, arguments: dict[str, Any], client_id: str) -> ClientResult:
        return await self._calls.call(
            name, arguments, root_session_id=self._root_session_id, context=self._context, client_id=client_id
        )


def _digest(text: str) -> str:
    return sha256_hex(plain_text(text).encode("utf-8", "replace"))[:32]


def _read_end(text: str) -> EditorCommandEnd:
    try:
        return msgspec.json.decode(text, type=EditorCommandEnd)
    except msgspec.MsgspecError:
        raise ToolError("the user's editor did not say how the command ended") from None
