"""Chooses the runs whose changes an undo or redo covers, in a session and in the sessions of its sub-agents."""

from __future__ import annotations

from typing import Literal, TypeAlias

from holdfast.errors import NotFound
from holdfast.schema.messages import Notice
from holdfast.schema.runs import Run
from holdfast.store import Store
from holdfast.store.records import SnapshotState
from holdfast.workspace.undo.undo_plan import PastRun, effective_snapshots, redo_stack

_PAGE = 200

WritersBySession: TypeAlias = dict[str, dict[str, str]]
"""For this session and the sessions of its sub-agents: each run that wrote files, with the run here it belongs to."""


class UndoRuns:
    """The runs of one session that wrote files."""

    def __init__(self, store: Store, session_id: str) -> None:
        self._store = store
        self._session_id = session_id

    async def writers(self) -> WritersBySession:
        writers: WritersBySession = {}
        for member in (self._session_id, *await self._store.descendants(self._session_id)):
            wrote = {record.run_id for record in await self._store.snapshots(member)}
            writers[member] = {run_id: await self.run_here(run_id) for run_id in wrote}
        return writers

    async def run_here(self, run_id: str) -> str:
        """Return the run of this session that a sub-agent's run belongs to."""
        run = await self._store.run(run_id)
        while run.parent_run_id is not None and run.session_id != self._session_id:
            run = await self._store.run(run.parent_run_id)
        return run.id

    async def choose(
        self,
        kind: Literal["undo", "redo"],
        writers: WritersBySession,
        *,
        to_message_id: object = None,
        before: int | None = None,
    ) -> tuple[str, ...]:
        """Return the runs since a message. Without one: the last run whose changes are applied, or for a redo, the
        runs of the last undo. ``before`` is the `seq` of the run that asks.
        """
        if isinstance(to_message_id, str):
            return await self._runs_since(to_message_id)
        states: dict[str, set[SnapshotState]] = {}
        for session_id, runs_here in writers.items():
            for record in effective_snapshots(await self._store.snapshots(session_id)):
                states.setdefault(runs_here[record.run_id], set()).add(record.state)
        if kind == "undo":
            applied = [run_id for run_id, found in states.items() if "applied" in found]
            seqs = {run_id: (await self._store.run(run_id)).seq for run_id in applied}
            return (max(seqs, key=seqs.__getitem__),) if seqs else ()
        for runs in reversed(redo_stack(await self._past_runs(frozenset(states), before))):
            if any("undone" in states[run_id] for run_id in runs):
                return runs
        return ()

    async def _past_runs(self, wrote: frozenset[str], before: int | None) -> list[PastRun]:
        past: list[PastRun] = []
        while True:
            page = await self._store.runs(self._session_id, limit=_PAGE, before=before)
            for run in page.items:
                if run.id in wrote:
                    past.append(PastRun(run.seq, run.id, "wrote"))
                elif run.kind in ("undo", "redo") and run.state == "completed":
                    past.append(await self._past_undo(run))
            before = page.next
            if before is None:
                return past

    async def _past_undo(self, run: Run) -> PastRun:
        kind: Literal["undo", "redo"] = "undo" if run.kind == "undo" else "redo"
        return PastRun(run.seq, run.id, kind, await self._first_seq(run), await self._covered(run))

    async def _covered(self, run: Run) -> tuple[str, ...] | None:
        """Return the runs that an undo covered. None: it was made by a version that did not record them."""
        if run.message_id is None:
            return None
        parts = (await self._store.message(run.message_id)).parts
        return next((part.runs for part in parts if isinstance(part, Notice) and part.runs is not None), None)

    async def _first_seq(self, undo: Run) -> int | None:
        """Return the `seq` of the run whose message an undo was given."""
        message_id = undo.arguments.get("to_message_id")
        if not isinstance(message_id, str):
            return None
        return (await self._store.run((await self._store.message(message_id)).run_id)).seq

    async def _runs_since(self, message_id: str) -> tuple[str, ...]:
        """Return the run of a message and all runs after it."""
        start = await self._store.message(message_id)
        if start.session_id != self._session_id:
            raise NotFound(f"message {message_id!r} is not in this session", code="message_not_found")
        found: dict[str, None] = {start.run_id: None}
        after: int | None = start.seq
        while after is not None:
            page = await self._store.messages(self._session_id, limit=_PAGE, after=after)
            found |= dict.fromkeys(message.run_id for message in page.items)
            after = page.next
        return tuple(found)
