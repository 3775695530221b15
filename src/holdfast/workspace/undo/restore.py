"""Carrying out undo and redo: each file by itself, restored only from exactly the content that was expected.

The content that goes is kept first, so that redo (or another undo) can bring it back. What a person changed is told,
and not touched; nor is the index, a ref, or any file that the agent did not write.
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
from holdfast.workspace.undo.blob_store import Blobs
from holdfast.workspace.undo.file_snapshots import Records
from holdfast.workspace.undo.undo_plan import (
    NOT_COVERED,
    Kept,
    Restore,
    Settled,
    Step,
    first_redoable,
    last_undoable,
    paths_of,
    plan_redo,
    plan_undo,
)

_UNREADABLE = "unreadable"
"""Stands for the content of what is no readable file; no record ever left it."""


class Restored(Value, frozen=True):
    path: str
    diff: str
    note: str = ""
    """Why it did not go all the way back; empty if it did."""


class Report(Value, frozen=True):
    """What an undo or redo did, for people."""

    runs: tuple[str, ...] = ()
    """Whose changes it was about; empty if there was nothing to undo or redo."""
    restored: tuple[Restored, ...] = ()
    settled: tuple[str, ...] = ()
    """Files that already were as they should be."""
    kept: tuple[Kept, ...] = ()
    note: str = NOT_COVERED


class Undo:
    """Undo and redo of a session's file changes, by runs. The lane sees to it that nothing of the session runs."""

    def __init__(
        self,
        records: Records,
        blobs: Blobs,
        *,
        now: Callable[[], str],
        redact: Callable[[str], str] = str,
    ) -> None:
        self._records = records
        self._blobs = blobs
        self._now = now
        self._redact = redact

    async def undo(self, session_id: str, *, run_id: str, runs: Collection[str] | None = None) -> Report:
        """Take back what these runs (else the last one that wrote) changed; ``run_id`` is the undo's own."""
        records = await self._records.snapshots(session_id)
        chosen = _chosen(runs, last_undoable(records))
        contents = await asyncio.to_thread(_contents, paths_of(records, chosen, undo=True))
        steps = plan_undo(records, chosen, contents)
        return await self._carry_out(steps, session_id=session_id, run_id=run_id, runs=chosen, state="undone")

    async def redo(self, session_id: str, *, run_id: str, runs: Collection[str] | None = None) -> Report:
        """Bring back what was undone of these runs, else of the oldest undone one."""
        records = await self._records.snapshots(session_id)
        chosen = _chosen(runs, first_redoable(records))
        contents = await asyncio.to_thread(_contents, paths_of(records, chosen, undo=False))
        steps = plan_redo(records, chosen, contents)
        return await self._carry_out(steps, session_id=session_id, run_id=run_id, runs=chosen, state="applied")

    async def _carry_out(
        self, steps: Collection[Step], *, session_id: str, run_id: str, runs: tuple[str, ...], state: SnapshotState
    ) -> Report:
        restored: list[Restored] = []
        settled: list[str] = []
        kept: list[Kept] = []
        for step in steps:
            done = await finish_before_cancel(self._step(step, session_id=session_id, run_id=run_id, state=state))
            match done:
                case Restored():
                    restored.append(done)
                case Settled():
                    settled.append(done.path)
                case Kept():
                    kept.append(done)
                case _:
                    assert_never(done)
        return Report(runs, tuple(restored), tuple(settled), tuple(kept))

    async def _step(
        self, step: Step, *, session_id: str, run_id: str, state: SnapshotState
    ) -> Restored | Settled | Kept:
        """One file: write, then say so in the ledger. A crash in between is seen as `Settled` the next time."""
        match step:
            case Kept():
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
        await self._records.commit(Batch(tuple(moves), events))

    def _restore(self, step: Restore) -> Restored | Kept:
        path = Path(step.path)
        if os.path.realpath(path) != step.path:
            return Kept(step.path, "moved", f"{step.path!r} leads elsewhere now; nothing was written")
        try:
            old = read_file(path)
            new = None if step.to is None else self._blobs.get(step.to)
            if (None if old is None else content_hash(old)) != step.now:
                return _raced(step)
            if new is None and step.to is not None:
                return Kept(
                    step.path, "not_kept", f"{step.path!r} was not touched: its old content is not kept any more"
                )
            if old is not None:
                self._blobs.put(old)
            write_files([FileWrite(path, content_hash(old), new, step.mode)])
        except StoreDamaged as error:
            return Kept(step.path, "not_kept", f"{step.path!r} was not touched: {error.message}")
        except FileConflict:
            return _raced(step)
        except ToolError as error:
            return Kept(step.path, "unreadable", f"{step.path!r} was not touched: {error.message}")
        return Restored(step.path, self._redact(diff_contents(step.path, old, new).text), step.stopped)


def _chosen(runs: Collection[str] | None, default: str | None) -> tuple[str, ...]:
    if runs is not None:
        return tuple(runs)
    return () if default is None else (default,)


def _raced(step: Restore) -> Kept:
    return Kept(step.path, "raced", f"{step.path!r} was changed by somebody just now; nothing was written")


def _contents(paths: Collection[str]) -> Mapping[str, str | None]:
    return {path: _present(Path(path)) for path in paths}


def _present(path: Path) -> str | None:
    try:
        found = hash_file(path)
    except ToolError:
        return _UNREADABLE
    return None if found == ABSENT else found
