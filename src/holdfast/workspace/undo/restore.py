"""Restores files for undo and redo, each file separately, and only if it still has the expected content.

The content that is replaced is stored first, so that it can be restored again.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar, assert_never

from holdfast.errors import StoreDamaged, ToolError
from holdfast.schema.base import Value
from holdfast.schema.events import FileChanged
from holdfast.store.records import SnapshotState
from holdfast.store.writes import Batch, MoveSnapshot
from holdfast.tasks import finish_before_cancel
from holdfast.tools.files.file_access import ABSENT
from holdfast.tools.files.file_transaction import FileConflict, FileWrite, write_files
from holdfast.workspace.undo.blob_store import BlobStore
from holdfast.workspace.undo.command_snapshots import diff_states
from holdfast.workspace.undo.file_snapshots import SnapshotStore
from holdfast.workspace.undo.file_state import FileState, is_unstored, link_target
from holdfast.workspace.undo.state_reader import read_state
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

T = TypeVar("T")

_AT_ONCE = 16
"""Files that are restored at the same time: most of the time is spent waiting for the disk."""


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
        self,
        store: SnapshotStore,
        blobs: BlobStore,
        *,
        now: Callable[[], str],
        redact: Callable[[str], str],
        on_write: Callable[[Path, str | None], None] = lambda path, content: None,
    ) -> None:
        """``on_write`` is called with the path and the content before a file is written."""
        self._on_write = on_write
        self._store = store
        self._blobs = blobs
        self._now = now
        self._redact = redact

    async def plan_undo(
        self, session_id: str, *, runs: Collection[str], confirmed: Collection[str] = ()
    ) -> tuple[Step, ...]:
        """Return what `undo` would do now."""
        records = await self._store.snapshots(session_id)
        now = await asyncio.to_thread(_present_states, affected_paths(records, runs, undo=True))
        return plan_undo(records, runs, _contents(now), modes=_modes(now), confirmed=confirmed)

    async def plan_redo(self, session_id: str, *, runs: Collection[str]) -> tuple[Step, ...]:
        """Return what `redo` would do now."""
        records = await self._store.snapshots(session_id)
        now = await asyncio.to_thread(_present_states, affected_paths(records, runs, undo=False))
        return plan_redo(records, runs, _contents(now), modes=_modes(now))

    async def undo(
        self, session_id: str, *, run_id: str, runs: Collection[str], confirmed: Collection[str] = ()
    ) -> UndoReport:
        """Undo the changes of these runs. ``run_id`` is the run that does it. ``confirmed`` are the runs whose
        commands' changes may be undone too.
        """

        def plan() -> Awaitable[tuple[Step, ...]]:
            return self.plan_undo(session_id, runs=runs, confirmed=confirmed)

        return await self._carry_out(plan, session_id=session_id, run_id=run_id, runs=runs, state="undone")

    async def redo(self, session_id: str, *, run_id: str, runs: Collection[str]) -> UndoReport:
        """Apply the undone changes of these runs again."""

        def plan() -> Awaitable[tuple[Step, ...]]:
            return self.plan_redo(session_id, runs=runs)

        return await self._carry_out(plan, session_id=session_id, run_id=run_id, runs=runs, state="applied")

    async def _carry_out(
        self,
        plan: Callable[[], Awaitable[tuple[Step, ...]]],
        *,
        session_id: str,
        run_id: str,
        runs: Collection[str],
        state: SnapshotState,
    ) -> UndoReport:
        """Restore until nothing more can be: where a file was, there may be a directory with files to remove first."""
        restored: list[Restored] = []
        settled: list[str] = []
        skipped: list[Skipped] = []
        progress = True
        while progress:
            progress, skipped = False, []
            steps = await plan()
            for first in range(0, len(steps), _AT_ONCE):
                work = (
                    finish_before_cancel(self._step(step, session_id=session_id, run_id=run_id, state=state))
                    for step in steps[first : first + _AT_ONCE]
                )
                for done in await _all_of(work):
                    match done:
                        case Restored():
                            restored.append(done)
                            progress = True
                        case Settled():
                            settled.append(done.path)
                        case Skipped():
                            skipped.append(done)
                        case _:
                            assert_never(done)
            progress = progress and bool(skipped)
        partly = {file.path for file in restored if file.note}
        skipped = [file for file in skipped if file.path not in partly]
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
        if os.path.realpath(path.parent) != str(path.parent):
            return Skipped(step.path, "moved", f"{step.path!r} now resolves to another path; nothing was written")
        try:
            old, data = read_state(path)
            if old.content != step.now:
                return _raced(step)
            if is_unstored(old.content):
                return _untouched(step, "not_kept", "it is too large to be stored, so it could not be brought back")
            link = link_target(step.to)
            new = None if step.to is None or link is not None else self._blobs.get(step.to)
            if new is None and link is None and step.to is not None:
                return _untouched(step, "not_kept", "its old content is no longer stored")
            if data is not None:
                self._blobs.put(data)
            self._on_write(path, step.to)
            expected = ABSENT if old.content is None else old.content
            write_files([FileWrite(path, expected, new, step.mode, set_mode=step.set_mode, link=link)])
            _remove_empty_directories(path, step.parents)
        except StoreDamaged as error:
            return _untouched(step, "not_kept", error.message)
        except FileConflict:
            return _raced(step)
        except ToolError as error:
            return _untouched(step, "unreadable", error.message)
        mode = step.mode if step.set_mode or old.content is None else old.mode
        diff = diff_states(self._blobs, step.path, old, FileState(step.to, None if step.to is None else mode))
        return Restored(step.path, self._redact(diff), step.stopped)


async def _all_of(work: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Return all results. If some fail, the others are finished first."""
    done = await asyncio.gather(*work, return_exceptions=True)
    for one in done:
        if isinstance(one, BaseException):
            raise one
    return [one for one in done if not isinstance(one, BaseException)]


def _remove_empty_directories(path: Path, count: int) -> None:
    with suppress(OSError):  # the first that is not empty ends it
        for directory in list(path.parents)[:count]:
            directory.rmdir()


def _raced(step: Restore) -> Skipped:
    return Skipped(step.path, "raced", f"{step.path!r} was changed just now; nothing was written")


def _untouched(step: Restore, why: SkipReason, message: str) -> Skipped:
    return Skipped(step.path, why, f"{step.path!r} was not touched: {message}")


def _present_states(paths: Collection[str]) -> dict[str, FileState]:
    return {path: read_state(Path(path))[0] for path in paths}


def _contents(states: dict[str, FileState]) -> dict[str, str | None]:
    return {path: state.content for path, state in states.items()}


def _modes(states: dict[str, FileState]) -> dict[str, int | None]:
    return {path: state.mode for path, state in states.items()}
