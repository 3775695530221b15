"""The turn of an undo or redo run: chooses the runs, restores their files and reports what was done."""

from __future__ import annotations

from typing import Literal, cast

from msgspec.structs import replace

from holdfast.agent.protocol import Ending, TurnHandle, new_message
from holdfast.schema.messages import Notice
from holdfast.schema.runs import Outcome, Run
from holdfast.workspace.open_workspace import OpenWorkspace
from holdfast.workspace.undo.coverage import coverage_notes
from holdfast.workspace.undo.restore import FileRestorer, Restored, UndoReport
from holdfast.workspace.undo.undo_plan import NOT_COVERED, Skipped
from holdfast.workspace.undo.undo_runs import UndoRuns, WritersBySession


class UndoTurn:
    """Undoes or redoes the changes of all runs since a message. Without a message: those of one run."""

    def __init__(self, workspace: OpenWorkspace, run: Run) -> None:
        self._workspace = workspace
        self._shared = workspace.shared
        self._run = run

    async def run(self, handle: TurnHandle) -> Ending:
        run = self._run
        kind = cast(Literal["undo", "redo"], run.kind)
        handle.progress("tool", kind)
        await self._workspace.recover_commands()
        runs = UndoRuns(self._shared.store, run.session_id)
        writers = await runs.writers()
        to_message_id = run.arguments.get("to_message_id")
        chosen = await runs.choose(kind, writers, to_message_id=to_message_id, before=run.seq)
        report = await self._carry_out(writers, frozenset(chosen))
        notes = await coverage_notes(self._shared, run.session_id)
        gaps = [note for run_id in chosen for note in notes.get(run_id, ())]
        text = describe_report(replace(report, note=" ".join([NOT_COVERED, *gaps])), undo=kind == "undo")
        message = new_message(handle, "user", (Notice(kind, text, for_model=True, runs=tuple(chosen)),))
        return Ending(Outcome("completed", "end_turn", text=text, message_id=message.id), messages=(message,))

    async def _carry_out(self, writers: WritersBySession, chosen: frozenset[str]) -> UndoReport:
        """Go through the sessions until nothing more can be restored: one session may have changed another's files."""
        restorer = FileRestorer(
            self._shared.store,
            self._shared.blobs,
            now=self._shared.now,
            redact=self._shared.redact,
            on_write=self._workspace.command_snapshots.note_write,
        )
        restored: dict[str, Restored] = {}
        while True:
            settled: dict[str, None] = {}
            skipped: dict[str, Skipped] = {}
            progress = False
            for session_id, runs_here in writers.items():
                runs = [run_id for run_id, run_here in runs_here.items() if run_here in chosen]
                if runs:
                    report = await self._restore(restorer, session_id, runs, runs_here)
                    progress |= bool(report.restored)
                    restored |= {file.path: file for file in report.restored}
                    settled |= dict.fromkeys(report.settled)
                    skipped |= {file.path: file for file in report.skipped}
            if not (progress and skipped):
                break
        left = tuple(settled.keys() - restored.keys())
        return UndoReport(tuple(chosen), tuple(restored.values()), left, tuple(skipped.values()))

    async def _restore(
        self, restorer: FileRestorer, session_id: str, runs: list[str], runs_here: dict[str, str]
    ) -> UndoReport:
        if self._run.kind == "redo":
            return await restorer.redo(session_id, run_id=self._run.id, runs=runs)
        given = self._run.arguments.get("confirmed_runs") or ()
        confirmed = {run_id for run_id, run_here in runs_here.items() if run_here in given}
        return await restorer.undo(session_id, run_id=self._run.id, runs=runs, confirmed=confirmed)


_MAX_LINES = 100


def describe_report(report: UndoReport, *, undo: bool) -> str:
    """Describe what was done, for the user and for the model."""
    if not report.runs:
        return "There is nothing to undo." if undo else "There is nothing to redo."
    done = "Undone" if undo else "Redone"
    lines = _shortened(
        [f"{done}: {file.path}" + (f" ({file.note})" if file.note else "") for file in report.restored],
        more=f"{done}: {{count:,}} more files",
    )
    lines += _shortened(
        [f"Already {done.lower()}: {path}" for path in report.settled], more=f"Already {done.lower()}: {{count:,}} more"
    )
    lines += _shortened(
        [f"Not touched: {file.message}" for file in report.skipped], more="Not touched: {count:,} more files"
    )
    return "\n".join([*lines, report.note]) if lines else f"No file had to be changed. {report.note}"


def _shortened(lines: list[str], *, more: str) -> list[str]:
    """The model reads the report too, so it does not list thousands of files."""
    if len(lines) <= _MAX_LINES:
        return lines
    return [*lines[:_MAX_LINES], more.format(count=len(lines) - _MAX_LINES)]
