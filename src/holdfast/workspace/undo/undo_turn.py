"""The turn of an undo or a redo: files are restored where nobody changed them since, and all read what was done."""

from __future__ import annotations

from holdfast.agent.protocol import Ending, TurnHandle
from holdfast.errors import NotFound
from holdfast.schema.messages import Message, Notice
from holdfast.schema.runs import Outcome, Run
from holdfast.store.records import SnapshotState
from holdfast.workspace.shared_parts import Shared
from holdfast.workspace.undo.restore import Report, Restored, Undo
from holdfast.workspace.undo.undo_plan import Kept, Took, effective, redo_stack

_PAGE = 200


class UndoTurn:
    """Takes back (or brings back) what the runs since a message changed; without one, those of the last run."""

    def __init__(self, shared: Shared, run: Run) -> None:
        self._shared = shared
        self._run = run

    async def run(self, handle: TurnHandle) -> Ending:
        run = self._run
        handle.progress("tool", run.kind)
        family = await self._family()
        chosen = await self._runs_since(run.arguments.get("to_message_id"))
        if chosen is None:
            chosen = await self._next_runs(family)
        text = described(await self._carry_out(family, frozenset(chosen)), undo=run.kind == "undo")
        message = Message(
            id=handle.new_id("msg"),
            session_id=run.session_id,
            run_id=run.id,
            role="user",
            seq=0,
            created_at=handle.now(),
            parts=(Notice(run.kind, text, for_model=True),),
        )
        return Ending(Outcome("completed", "end_turn", text=text, message_id=message.id), messages=(message,))

    async def _family(self) -> dict[str, dict[str, str]]:
        """By session, this one and its sub-agents': for each run that wrote files, the run here that it worked for."""
        store, session_id = self._shared.store, self._run.session_id
        family: dict[str, dict[str, str]] = {}
        for member in (session_id, *await store.descendants(session_id)):
            wrote = {record.run_id for record in await store.snapshots(member)}
            family[member] = {run_id: await self._employer(run_id) for run_id in wrote}
        return family

    async def _employer(self, run_id: str) -> str:
        run = await self._shared.store.run(run_id)
        while run.parent_run_id is not None and run.session_id != self._run.session_id:
            run = await self._shared.store.run(run.parent_run_id)
        return run.id

    async def _next_runs(self, family: dict[str, dict[str, str]]) -> tuple[str, ...]:
        """The last run whose changes stand; for a redo, what the last undo took back."""
        store = self._shared.store
        states: dict[str, set[SnapshotState]] = {}
        for session_id, employers in family.items():
            for record in effective(await store.snapshots(session_id)):
                states.setdefault(employers[record.run_id], set()).add(record.state)
        if self._run.kind == "undo":
            seqs = {run_id: (await store.run(run_id)).seq for run_id, found in states.items() if "applied" in found}
            return (max(seqs, key=seqs.__getitem__),) if seqs else ()
        for runs in reversed(redo_stack(await self._past(frozenset(states)))):
            if any("undone" in states[run_id] for run_id in runs):
                return runs
        return ()

    async def _past(self, wrote: frozenset[str]) -> list[Took]:
        """The runs before this one that wrote files, or undid or redid it."""
        past: list[Took] = []
        before: int | None = self._run.seq
        while before is not None:
            page = await self._shared.store.runs(self._run.session_id, limit=_PAGE, before=before)
            for run in page.items:
                if run.id in wrote:
                    past.append(Took(run.seq, run.id, "wrote"))
                elif run.kind in ("undo", "redo") and run.state == "completed":
                    past.append(Took(run.seq, run.id, run.kind, await self._since(run)))
            before = page.next
        return past

    async def _since(self, run: Run) -> int | None:
        message_id = run.arguments.get("to_message_id")
        if not isinstance(message_id, str):
            return None
        return (await self._shared.store.run((await self._shared.store.message(message_id)).run_id)).seq

    async def _carry_out(self, family: dict[str, dict[str, str]], chosen: frozenset[str]) -> Report:
        """Session by session, again while that brings something back: their changes may lie on top of each other."""
        shared = self._shared
        undo = Undo(shared.store, shared.blobs, now=shared.now, redact=shared.redact)
        work = undo.undo if self._run.kind == "undo" else undo.redo
        restored: dict[str, Restored] = {}
        while True:
            settled: dict[str, None] = {}
            kept: dict[str, Kept] = {}
            progress = False
            for session_id, employers in family.items():
                runs = [run_id for run_id, employer in employers.items() if employer in chosen]
                if runs:
                    report = await work(session_id, run_id=self._run.id, runs=runs)
                    progress |= bool(report.restored)
                    restored |= {one.path: one for one in report.restored}
                    settled |= dict.fromkeys(report.settled)
                    kept |= {one.path: one for one in report.kept}
            if not (progress and kept):
                break
        left = tuple(settled.keys() - restored.keys())
        return Report(tuple(chosen), tuple(restored.values()), left, tuple(kept.values()))

    async def _runs_since(self, message_id: object) -> tuple[str, ...] | None:
        """The runs of a message and of everything after it."""
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


def described(report: Report, *, undo: bool) -> str:
    """What was done, for people and for the model."""
    if not report.runs:
        return "There is nothing to undo." if undo else "There is nothing to redo."
    done = "Undone" if undo else "Done again"
    lines = [
        f"{done}: {restored.path}" + (f" ({restored.note})" if restored.note else "") for restored in report.restored
    ]
    lines += [f"Already so: {path}" for path in report.settled]
    lines += [f"Not touched: {kept.message}" for kept in report.kept]
    return "\n".join([*lines, report.note]) if lines else f"No file had to be changed. {report.note}"
