"""The turn of an undo or redo run: chooses the runs, restores their files and reports what was done."""

from __future__ import annotations

from typing import TypeAlias

from holdfast.agent.protocol import Ending, TurnHandle, new_message
from holdfast.errors import NotFound
from holdfast.schema.messages import Notice
from holdfast.schema.runs import Outcome, Run
from holdfast.store.records import SnapshotState
from holdfast.workspace.open_workspace import SharedParts
from holdfast.workspace.undo.restore import FileRestorer, Restored, UndoReport
from holdfast.workspace.undo.undo_plan import PastRun, Skipped, effective_snapshots, redo_stack

_PAGE = 200

WritersBySession: TypeAlias = dict[str, dict[str, str]]
"""For this session and the sessions of its sub-agents: each run that wrote files, with the run here it belongs to."""


class UndoTurn:
    """Undoes or redoes the changes of all runs since a message. Without a message: those of one run."""

    def __init__(self, shared: SharedParts, run: Run) -> None:
        self._shared = shared
        self._run = run

    async def run(self, handle: TurnHandle) -> Ending:
        run = self._run
        handle.progress("tool", run.kind)
        writers = await self._writers()
        chosen = await self._runs_since(run.arguments.get("to_message_id"))
        if chosen is None:
            chosen = await self._next_runs(writers)
        text = describe_report(await self._carry_out(writers, frozenset(chosen)), undo=run.kind == "undo")
        message = new_message(handle, "user", (Notice(run.kind, text, for_model=True),))
        return Ending(Outcome("completed", "end_turn", text=text, message_id=message.id), messages=(message,))

    async def _writers(self) -> WritersBySession:
        store, session_id = self._shared.store, self._run.session_id
        writers: WritersBySession = {}
        for member in (session_id, *await store.descendants(session_id)):
            wrote = {record.run_id for record in await store.snapshots(member)}
            writers[member] = {run_id: await self._run_here(run_id) for run_id in wrote}
        return writers

    async def _run_here(self, run_id: str) -> str:
        """Return the run of this session that a sub-agent's run belongs to."""
        run = await self._shared.store.run(run_id)
        while run.parent_run_id is not None and run.session_id != self._run.session_id:
            run = await self._shared.store.run(run.parent_run_id)
        return run.id

    async def _next_runs(self, writers: WritersBySession) -> tuple[str, ...]:
        """Return the last run whose changes are applied; for a redo, the runs of the last undo."""
        store = self._shared.store
        states: dict[str, set[SnapshotState]] = {}
        for session_id, runs_here in writers.items():
            for record in effective_snapshots(await store.snapshots(session_id)):
                states.setdefault(runs_here[record.run_id], set()).add(record.state)
        if self._run.kind == "undo":
            seqs = {run_id: (await store.run(run_id)).seq for run_id, found in states.items() if "applied" in found}
            return (max(seqs, key=seqs.__getitem__),) if seqs else ()
        for runs in reversed(redo_stack(await self._past_runs(frozenset(states)))):
            if any("undone" in states[run_id] for run_id in runs):
                return runs
        return ()

    async def _past_runs(self, wrote: frozenset[str]) -> list[PastRun]:
        past: list[PastRun] = []
        before: int | None = self._run.seq
        while before is not None:
            page = await self._shared.store.runs(self._run.session_id, limit=_PAGE, before=before)
            for run in page.items:
                if run.id in wrote:
                    past.append(PastRun(run.seq, run.id, "wrote"))
                elif run.kind in ("undo", "redo") and run.state == "completed":
                    past.append(PastRun(run.seq, run.id, run.kind, await self._first_seq(run)))
            before = page.next
        return past

    async def _first_seq(self, undo: Run) -> int | None:
        """Return the `seq` of the run whose message an undo was given."""
        message_id = undo.arguments.get("to_message_id")
        if not isinstance(message_id, str):
            return None
        return (await self._shared.store.run((await self._shared.store.message(message_id)).run_id)).seq

    async def _carry_out(self, writers: WritersBySession, chosen: frozenset[str]) -> UndoReport:
        """Go through the sessions until nothing more can be restored: one session may have changed another's files."""
        shared = self._shared
        restorer = FileRestorer(shared.store, shared.blobs, now=shared.now, redact=shared.redact)
        work = restorer.undo if self._run.kind == "undo" else restorer.redo
        restored: dict[str, Restored] = {}
        while True:
            settled: dict[str, None] = {}
            skipped: dict[str, Skipped] = {}
            progress = False
            for session_id, runs_here in writers.items():
                runs = [run_id for run_id, run_here in runs_here.items() if run_here in chosen]
                if runs:
                    report = await work(session_id, run_id=self._run.id, runs=runs)
                    progress |= bool(report.restored)
                    restored |= {file.path: file for file in report.restored}
                    settled |= dict.fromkeys(report.settled)
                    skipped |= {file.path: file for file in report.skipped}
            if not (progress and skipped):
                break
        left = tuple(settled.keys() - restored.keys())
        return UndoReport(tuple(chosen), tuple(restored.values()), left, tuple(skipped.values()))

    async def _runs_since(self, message_id: object) -> tuple[str, ...] | None:
        """Return the run of a message and all runs after it, or None without a message."""
        if not isinstance(message_id, str):
            return None
        start = await self._shared.store.message(message_id)
        if start.session_id != self._run.session_id:
            raise NotFound(f"message {message_id!r} is not in this session", code="message_not_found")
        found: dict[str, None] = {start.run_id: None}
        after: int | None = start.seq
        while after is not None:
            page = await self._shared.store.messages(self._run.session_id, limit=_PAGE, after=after)
            found |= dict.fromkeys(message.run_id for message in page.items)
            after = page.next
        return tuple(found)


def describe_report(report: UndoReport, *, undo: bool) -> str:
    """Describe what was done, for the user and for the model."""
    if not report.runs:
        return "There is nothing to undo." if undo else "There is nothing to redo."
    done = "Undone" if undo else "Redone"
    lines = [f"{done}: {file.path}" + (f" ({file.note})" if file.note else "") for file in report.restored]
    lines += [f"Already {done.lower()}: {path}" for path in report.settled]
    lines += [f"Not touched: {file.message}" for file in report.skipped]
    return "\n".join([*lines, report.note]) if lines else f"No file had to be changed. {report.note}"
