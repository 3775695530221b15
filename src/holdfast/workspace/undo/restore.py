"""Restores files for undo and redo, each file separately, and only if it still has the expected content.

The content that is replaced is stored first, so that it can be restored again.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import assert_never

from holdfast.errors import StoreDamaged, ToolError
from holdfast.schema.base import Value
from holdfast.schema.events import FileChanged
from holdfast.store.records import SnapshotState
from holdfast.store.writes import Batch, MoveSnapshot
from holdfast.tasks import finish_before_cancel
from holdfast.tools.files.file_access import ABSENT, content_hash, hash_file, read_file
from holdfast.tools.files.file_changes import diff_contents
from holdfast.tools.files.file_transaction import FileConflict, FileWrite, write_files
from holdfast.workspace.undo.blob_store import BlobStore
from holdfast.workspace.undo.file_snapshots import SnapshotStore
from holdfast.workspace.undo.undo_plan import (
    NOT_COVERED,
    Restore,
    Settled,
    Skipped,
    SkipReason,
    Step,
    affected_paths,
    plan_redo,
    plan_undo,
)

_UNREADABLE = "unreadable"
"""Used as the hash of something that is not a readable file. No record has this hash."""


class Restored(Value, frozen=True):
    path: str
    diff: str
    note: str = ""
    """Why only some of the changes were undone; empty if all were."""


class UndoReport(Value, frozen=True):
    """What an undo or redo did."""

    runs: tuple[str, ...] = ()
    """The runs whose changes were undone or redone; empty if there was nothing to do."""
    restored: tuple[Restored, ...] = ()
    settled: tuple[str, ...] = ()
    """Files that already had the wanted content."""
    skipped: tuple[Skipped, ...] = ()
    note: str = NOT_COVERED


class FileRestorer:
    """Undoes and redoes the file changes of runs. The lane ensures that no other run of the session is active."""

    def __init__(
        self, store: SnapshotStore, blobs: BlobStore, *, now: Callable[[], str], redact: Callable[[str], str]
    ) -> None:
        self._store = store
        self._blobs = blobs
        self._now = now
        self._redact = redact

    async def undo(self, session_id: str, *, run_id: str, runs: Collection[str]) -> UndoReport:
        """Undo the changes of these runs. ``run_id`` is the run that does it."""
        records = await self._store.snapshots(session_id)
        contents = await asyncio.to_thread(_present_hashes, affected_paths(records, runs, undo=True))
        steps = plan_undo(records, runs, contents)
        return await self._carry_out(steps, session_id=session_id, run_id=run_id, runs=runs, state="undone")

    async def redo(self, session_id: str, *, run_id: str, runs: Collection[str]) -> UndoReport:
        """Apply the undone changes of these runs again."""
        records = await self._store.snapshots(session_id)
        contents = await asyncio.to_thread(_present_hashes, affected_paths(records, runs, undo=False))
        steps = plan_redo(records, runs, contents)
        return await self._carry_out(steps, session_id=session_id, run_id=run_id, runs=runs, state="applied")

    async def _carry_out(
        self, steps: Collection[Step], *, session_id: str, run_id: str, runs: Collection[str], state: SnapshotState
    ) -> UndoReport:
        restored: list[Restored] = []
        settled: list[str] = []
        skipped: list[Skipped] = []
        for step in steps:
            done = await finish_before_cancel(self._step(step, session_id=session_id, run_id=run_id, state=state))
            match done:
                case Restored():
                    restored.append(done)
                case Settled():
                    settled.append(done.path)
                case Skipped():
                    skipped.append(done)
                case _:
                    assert_never(done)
        return UndoReport(tuple(runs), tuple(restored), tuple(settled), tuple(skipped))

    async def _step(
        self, step: Step, *, session_id: str, run_id: str, state: SnapshotState
    ) -> Restored | Settled | Skipped:
        """Write one file, then update its records. After a crash in between, the next plan has it as `Settled`."""
        match step:
            case Skipped():
                return step
            case Settled():
                await self._move(step.records, state)
                return step
            case Restore():
                done = await asyncio.to_thread(self._restore, step)
                if isinstance(done, Restored):
                    event = FileChanged(self._now(), session_id, run_id, step.path, "restored", done.diff)
                    await self._move(step.records, state, event)
                return done
            case _:
                assert_never(step)

    async def _move(self, records: Collection[str], state: SnapshotState, *events: FileChanged) -> None:
        expect: SnapshotState = "applied" if state == "undone" else "undone"
        moves = (MoveSnapshot(snapshot_id=record, expect=expect, state=state) for record in records)
        await self._store.commit(Batch(tuple(moves), events))

    def _restore(self, step: Restore) -> Restored | Skipped:
        path = Path(step.path)
        if os.path.realpath(path) != step.path:
            return Skipped(step.path, "moved", f"{step.path!r} now resolves to another path; nothing was written")
        try:
            old = read_file(path)
            new = None if step.to is None else self._blobs.get(step.to)
            if (None if old is None else content_hash(old)) != step.now:
                return _raced(step)
            if new is None and step.to is not None:
                return _untouched(step, "not_kept", "its old content is no longer stored")
            if old is not None:
                self._blobs.put(old)
            write_files([FileWrite(path, content_hash(old), new, step.mode)])
        except StoreDamaged as error:
            return _untouched(step, "not_kept", error.message)
        except FileConflict:
            return _raced(step)
        except ToolError as error:
            return _untouched(step, "unreadable", error.message)
        return Restored(step.path, self._redact(diff_contents(step.path, old, new).text), step.stopped)


def _raced(step: Restore) -> Skipped:
    return Skipped(step.path, "raced", f"{step.path!r} was changed just now; nothing was written")


def _untouched(step: Restore, why: SkipReason, message: str) -> Skipped:
    return Skipped(step.path, why, f"{step.path!r} was not touched: {message}")


def _present_hashes(paths: Collection[str]) -> Mapping[str, str | None]:
    return {path: _present_hash(Path(path)) for path in paths}


def _present_hash(path: Path) -> str | None:
    try:
        found = hash_file(path.resolve())  # whether the path leads elsewhere is checked before a write
    except ToolError:
        return _UNREADABLE
    return None if found == ABSENT else found
