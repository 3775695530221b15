"""The files that the agent changed in a session, with diffs; and what an undo would do."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from holdfast.errors import StoreDamaged
from holdfast.schema.api.response_bodies import ChangesView
from holdfast.schema.sessions import FileChange, RunChanges, UndoFile, UndoPreview
from holdfast.store import FileSnapshot
from holdfast.tools.files.file_access import display_path
from holdfast.workspace.shared_parts import SharedParts
from holdfast.workspace.undo.command_snapshots import diff_states
from holdfast.workspace.undo.coverage import coverage_notes
from holdfast.workspace.undo.file_state import FileState
from holdfast.workspace.undo.restore import FileRestorer
from holdfast.workspace.undo.state_reader import read_state
from holdfast.workspace.undo.undo_plan import NOT_COVERED, Restore, Settled, Skipped, Step, effective_snapshots
from holdfast.workspace.undo.undo_runs import UndoRuns

_MAX_PROMPT = 200
_MAX_DIFFS = 300
"""Files of a session or run that are listed with a diff. The others are listed without."""


async def session_changes(shared: SharedParts, session_id: str, *, cursor: str) -> ChangesView:
    """The changes of the session and of its sub-agents. Files inside the workspace are named relative to it."""
    session = await shared.store.session(session_id)
    workspace = Path((await shared.store.workspace(session.workspace_id)).path)
    runs = UndoRuns(shared.store, session_id)
    writers = await runs.writers()
    records: list[FileSnapshot] = []
    by_run: dict[str, list[FileSnapshot]] = {}
    for member, runs_here in writers.items():
        for record in effective_snapshots(await shared.store.snapshots(member)):
            records.append(record)
            by_run.setdefault(runs_here[record.run_id], []).append(record)
    records.sort(key=lambda record: record.created_at)  # stable: each session's own records are in order
    notes = await coverage_notes(shared, session_id)
    items = await asyncio.to_thread(_changes, shared, records, workspace)
    found = []
    for run_id in dict.fromkeys([*by_run, *notes]):
        run = await shared.store.run(run_id)
        files = items
        if len(by_run) > 1 or run_id not in by_run:
            files = await asyncio.to_thread(_changes, shared, by_run.get(run_id, []), workspace)
        prompt = next(iter(run.prompt.strip().splitlines()), "")[:_MAX_PROMPT]
        found.append((run.seq, RunChanges(run_id, run.created_at, shared.redact(prompt), files, notes.get(run_id, ()))))
    return ChangesView(items, cursor, runs=tuple(changes for _, changes in sorted(found, key=lambda pair: pair[0])))


async def preview_undo(shared: SharedParts, session_id: str, *, to_message_id: str | None) -> UndoPreview:
    """What an undo without confirmations would do now."""
    session = await shared.store.session(session_id)
    workspace = Path((await shared.store.workspace(session.workspace_id)).path)
    runs = UndoRuns(shared.store, session_id)
    writers = await runs.writers()
    chosen = await runs.choose("undo", writers, to_message_id=to_message_id)
    restorer = FileRestorer(shared.store, shared.blobs, now=shared.now, redact=shared.redact)
    files: dict[str, UndoFile] = {}
    for member, runs_here in writers.items():
        covered = [run_id for run_id, run_here in runs_here.items() if run_here in chosen]
        for step in await restorer.plan_undo(member, runs=covered):
            files[step.path] = _undo_file(step, workspace)
    notes = await coverage_notes(shared, session_id)
    gaps = tuple(note for run_id in chosen for note in notes.get(run_id, ()))
    return UndoPreview(chosen, tuple(files.values()), (NOT_COVERED, *gaps))


def _undo_file(step: Step, workspace: Path) -> UndoFile:
    name = display_path(Path(step.path), workspace)
    match step:
        case Restore():
            return UndoFile(name, "confirm" if step.needs_confirmation else "restore", step.stopped)
        case Settled():
            return UndoFile(name, "settled", "it already has the old content")
        case Skipped():
            return UndoFile(name, "confirm" if step.why == "unconfirmed" else "skip", step.message)


def _changes(shared: SharedParts, snapshots: Iterable[FileSnapshot], workspace: Path) -> tuple[FileChange, ...]:
    by_path: dict[str, list[FileSnapshot]] = {}
    for snapshot in snapshots:
        by_path.setdefault(snapshot.path, []).append(snapshot)
    changes = (
        _change(shared, path, of_path, workspace, has_diff=number < _MAX_DIFFS)
        for number, (path, of_path) in enumerate(by_path.items())
    )
    return tuple(change for change in changes if change is not None)


def _change(
    shared: SharedParts, path: str, snapshots: list[FileSnapshot], workspace: Path, *, has_diff: bool
) -> FileChange | None:
    """``None`` if the file is as it was before the first of the changes."""
    first, last = snapshots[0], snapshots[-1]
    before, after = FileState(first.before, first.mode), FileState(last.after, last.mode_after)
    if last.by == "tool":
        after = FileState(last.after, None)
    if before.content == after.content and (None in (before.mode, after.mode) or before.mode == after.mode):
        return None
    applied = any(snapshot.state == "applied" for snapshot in snapshots)
    state: Literal["applied", "undone", "changed_since"] = "applied" if applied else "undone"
    if state == "applied" and not _is_present(path, after):
        state = "changed_since"
    change: Literal["created", "modified", "deleted"] = "modified"
    if before.content is None:
        change = "created"
    elif after.content is None:
        change = "deleted"
    name = display_path(Path(path), workspace)
    by_command = any(snapshot.by == "command" for snapshot in snapshots)
    diff = shared.redact(_diff(shared, name, path, before, after)) if has_diff else ""
    return FileChange(name, change, diff, state, by_command)


def _is_present(path: str, expected: FileState) -> bool:
    present = read_state(Path(path))[0]
    return present.content == expected.content and expected.mode in (None, present.mode)


def _diff(shared: SharedParts, name: str, path: str, before: FileState, after: FileState) -> str:
    """The content after a tool's change is stored only once something changes it; until then it is the file."""
    try:
        return diff_states(shared.blobs, name, before, after, path=Path(path))
    except StoreDamaged:
        return ""
