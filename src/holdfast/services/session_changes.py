"""The files that the agent changed in a session, with diffs."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Literal

from holdfast.schema.sessions import FileChange
from holdfast.store import FileSnapshot
from holdfast.tools.files.file_access import ABSENT, display_path, hash_file
from holdfast.tools.files.file_changes import diff_contents
from holdfast.workspace.open_workspace import SharedParts
from holdfast.workspace.undo.undo_plan import effective_snapshots


async def session_changes(shared: SharedParts, session_id: str) -> tuple[FileChange, ...]:
    """Files inside the workspace are named relative to it."""
    session = await shared.store.session(session_id)
    workspace = await shared.store.workspace(session.workspace_id)
    snapshots = await shared.store.snapshots(session_id)
    return await asyncio.to_thread(_changes, shared, snapshots, Path(workspace.path))


def _changes(shared: SharedParts, snapshots: tuple[FileSnapshot, ...], workspace: Path) -> tuple[FileChange, ...]:
    by_path: dict[str, list[FileSnapshot]] = {}
    for snapshot in effective_snapshots(snapshots):
        by_path.setdefault(snapshot.path, []).append(snapshot)
    changes = (_change(shared, path, of_path, workspace) for path, of_path in by_path.items())
    return tuple(change for change in changes if change is not None)


def _change(shared: SharedParts, path: str, snapshots: list[FileSnapshot], workspace: Path) -> FileChange | None:
    """``None`` if the file has the content it had before the session."""
    first, last = snapshots[0], snapshots[-1]
    if first.before == last.after:
        return None
    applied = any(snapshot.state == "applied" for snapshot in snapshots)
    state: Literal["applied", "undone", "changed_since"] = "applied" if applied else "undone"
    if state == "applied" and hash_file(Path(path)) != (last.after or ABSENT):
        state = "changed_since"
    before, after = (shared.blobs.get(name) if name else None for name in (first.before, last.after))
    if after is None and last.after is not None:
        after = _unchanged_content(path, last.after)
    name = display_path(Path(path), workspace)
    diff = diff_contents(name, before, after).text if after is not None or last.after is None else ""
    change: Literal["created", "modified", "deleted"] = "modified"
    if first.before is None:
        change = "created"
    elif last.after is None:
        change = "deleted"
    return FileChange(name, change, shared.redact(diff), state)


def _unchanged_content(path: str, expected: str) -> bytes | None:
    """The content after the last change. It is stored only once something changes it; until then it is the file."""
    file = Path(path)
    return file.read_bytes() if hash_file(file) == expected else None
