"""The turn of an undo or a redo: files are restored where nobody changed them since, and all read what was done."""

from __future__ import annotations

from holdfast.agent.protocol import Ending, Seat
from holdfast.errors import NotFound
from holdfast.schema.messages import Message, Notice
from holdfast.schema.runs import Outcome, Run
from holdfast.workspace.restore import Report, Undo
from holdfast.workspace.shared import Shared

_PAGE = 200


class UndoTurn:
    """Takes back (or brings back) what the runs since a message changed; without one, those of the last run."""

    def __init__(self, shared: Shared, run: Run) -> None:
        self._shared = shared
        self._run = run

    async def run(self, seat: Seat) -> Ending:
        shared, run = self._shared, self._run
        undo = Undo(shared.store, shared.blobs, now=shared.now, redact=shared.redact)
        seat.progress("tool", run.kind)
        runs = await self._runs_since(run.arguments.get("to_message_id"))
        work = undo.undo if run.kind == "undo" else undo.redo
        report = await work(run.session_id, run_id=run.id, runs=runs)
        text = described(report, undo=run.kind == "undo")
        message = Message(
            id=seat.new_id("msg"),
            session_id=run.session_id,
            run_id=run.id,
            role="user",
            seq=0,
            created_at=seat.now(),
            parts=(Notice(run.kind, text, for_model=True),),
        )
        return Ending(Outcome("completed", "end_turn", text=text, message_id=message.id), messages=(message,))

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
