"""What a lane's decision writes and tells: changes → one batch, and the rows as they will be. Pure.

An `Entry` collects the writes and events of one commit, in the order in which they are told, and keeps the runs' rows
in step with them, so that every event says exactly what the tables will say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Generic, TypeVar, assert_never

from msgspec import UNSET
from msgspec.structs import replace

from holdfast.agent.protocol import Spent
from holdfast.runs.lane import protocol as lw
from holdfast.runs.lane.state import Lane, LaneRun, lane_run
from holdfast.schema import events as ev
from holdfast.schema.base import Value
from holdfast.schema.messages import File, Message, Part, Text
from holdfast.schema.runs import Outcome, Run, RunDecision, RunRequest
from holdfast.schema.sessions import Session
from holdfast.schema.usage import Usage
from holdfast.store import Batch, LaneRecord, LaneRow, apply_run_write
from holdfast.store import writes as w

A = TypeVar("A")


class LaneState(Value, frozen=True):
    """A session's lane with the rows behind it, as committed."""

    session: Session
    lane: Lane
    row: LaneRow
    runs: Mapping[str, Run]
    """The unfinished ones."""


class Plan(Value, Generic[A], frozen=True):
    """One commit, what the lane is after it, and what is answered then."""

    state: LaneState
    answer: A
    batch: Batch = Batch()
    changes: tuple[lw.Change, ...] = ()
    ended: tuple[Run, ...] = ()
    """Runs whose end this commit is."""


class Acceptance(Value, frozen=True, kw_only=True):
    """What a new run's row holds besides what the lane decides."""

    request: RunRequest
    client: str
    body_hash: str
    parent_run_id: str | None = None


class EndDetails(Value, frozen=True, kw_only=True):
    """What is written with the end of a turn, besides the state and reason that the lane decides."""

    outcome: Outcome
    messages: tuple[Message, ...] = ()
    writes: tuple[w.AnyWrite, ...] = ()
    events: tuple[ev.KnownDurable, ...] = ()
    spent: Spent | None = None


def lane_of(rows: LaneRecord) -> Lane:
    """The lane as the ledger has it."""
    row = rows.lane
    return Lane(
        runs=tuple(lane_run(run) for run in rows.runs),
        next_seq=row.next_seq,
        mark=row.mark,
        hold=row.hold,
        last_end=row.last_end,
        lifecycle=row.lifecycle,
    )


def new_state(session: Session) -> LaneState:
    """The lane of a session that is about to be made."""
    return LaneState(session, Lane(), LaneRow(session.id), {})


class Entry:
    """One commit while it is put together."""

    def __init__(self, state: LaneState, *, at: str, new_message_id: Callable[[], str]) -> None:
        self._state = state
        self._at = at
        self._new_message_id = new_message_id
        self._session_id = state.session.id
        self.runs = dict(state.runs)
        """As they will be, those that end in this commit left out."""
        self._writes: list[w.AnyWrite] = []
        self._events: list[ev.KnownDurable] = []
        self._ended: list[Run] = []

    def add(self, writes: Iterable[w.AnyWrite], events: Iterable[ev.KnownDurable] = ()) -> None:
        """Writes that are not the lane's."""
        for write in writes:
            self._writes.append(write)
            if isinstance(write, w.UpdateRun) and write.run_id in self.runs:
                self.runs[write.run_id] = apply_run_write(self.runs[write.run_id], write)
        self._events.extend(events)

    def messages(self, messages: Iterable[Message]) -> None:
        """Messages in their last state."""
        for message in messages:
            self._writes.append(w.PutMessage(message))
            self._events.append(ev.MessageFinished(self._at, self._session_id, message))

    def spend(self, run_id: str, spent: Spent | None) -> None:
        if spent is None:
            return
        run = self.runs[run_id]
        first = run.steps == 0 and spent.steps > 0
        self.update(w.UpdateRun(run_id=run_id, usage=run.usage + spent.usage, steps=run.steps + spent.steps))
        self._writes.append(
            w.AddUsage(
                session_id=self._session_id,
                day=self._at[:10],
                model=spent.model,
                usage=spent.usage,
                runs=int(first),
                steps=spent.steps,
                by_subagent=spent.by_subagent,
            )
        )

    def update(self, write: w.UpdateRun) -> Run:
        self._writes.append(write)
        run = self.runs[write.run_id] = apply_run_write(self.runs[write.run_id], write)
        return run

    def plan(
        self,
        lane: Lane,
        answer: A,
        *,
        changes: tuple[lw.Change, ...] = (),
    ) -> Plan[A]:
        """The commit that makes ``lane`` true. The lane's own row is written when it differs."""
        row = _row(self._session_id, lane)
        if row != self._state.row and (self._writes or self._events or _matters(row, self._state.row)):
            self._writes.insert(self._lane_place(), w.SetLane(row))
        else:
            row = self._state.row
        return Plan(
            state=LaneState(self._state.session, lane, row, self.runs),
            answer=answer,
            batch=Batch(tuple(self._writes), tuple(self._events)),
            changes=changes,
            ended=tuple(self._ended),
        )

    def _lane_place(self) -> int:
        """After the session's own row, if this commit makes it."""
        return 1 if self._writes and isinstance(self._writes[0], w.PutSession) else 0

    def changes(
        self,
        lane: Lane,
        changes: Iterable[lw.Change],
        *,
        acceptance: Acceptance | None = None,
        answer: lw.Answer | None = None,
        edited: Mapping[str, str | tuple[File, ...]] | None = None,
        ends: Mapping[str, EndDetails] | None = None,
    ) -> None:
        """What the lane decided. ``ends`` are the details of runs that had a turn, by id."""
        for change in changes:
            match change:
                case lw.RunAccepted(run):
                    assert acceptance is not None, "only an accept accepts"
                    self._accept(run, acceptance, answer)
                case lw.RunStarted(run_id):
                    started = self.update(
                        w.UpdateRun(run_id=run_id, expect=("queued",), state="active", started_at=self._at)
                    )
                    self._tell(ev.RunStarted, started)
                    self._prompt(started)
                case lw.RunJoined(run_id, host):
                    joined = self.update(
                        w.UpdateRun(
                            run_id=run_id,
                            expect=("waiting",),
                            state="joined",
                            host_run_id=host,
                            started_at=self._at,
                        )
                    )
                    self._tell(ev.RunJoined, joined)
                    self._prompt(joined)
                case lw.RunFellBack(run_id, rank):
                    write = w.UpdateRun(run_id=run_id, expect=("waiting",), state="queued", rank=rank, host_run_id=None)
                    self._tell(ev.RunUpdated, self.update(write))
                case lw.RunMoved(run_id, rank):
                    write = w.UpdateRun(run_id=run_id, expect=("queued",), rank=rank)
                    self._tell(ev.RunUpdated, self.update(write))
                case lw.RunEdited(run_id):
                    self._tell(ev.RunUpdated, self._edit(run_id, edited or {}))
                case lw.RunStopping(run_id, why):
                    write = w.UpdateRun(run_id=run_id, expect=("active",), state="stopping", reason=why)
                    self._tell(ev.RunStopping, self.update(write))
                case lw.RunFinished():
                    self._finish(change, ends or {})
                case lw.QueueChanged():
                    self._events.append(ev.QueueChanged(self._at, self._session_id, lane.view(self._session_id)))
                case lw.SessionDeleted():
                    self._writes.append(w.DeleteSession(self._session_id, self._at))
                    self._events.append(ev.SessionDeleted(self._at, self._session_id))
                case _:
                    assert_never(change)

    def _accept(self, accepted: LaneRun, acceptance: Acceptance, answer: lw.Answer | None) -> None:
        run = _row_of(accepted, acceptance, session_id=self._session_id, at=self._at)
        self.runs[run.id] = run
        verdict, position, host = _verdict(answer)
        self._writes.append(
            w.InsertRun(run=run, body_hash=acceptance.body_hash, decision=verdict, position=position, host_run_id=host)
        )
        self._tell(ev.RunAccepted, run)

    def _edit(self, run_id: str, edited: Mapping[str, str | tuple[File, ...]]) -> Run:
        prompt, attachments = edited.get("prompt", UNSET), edited.get("attachments", UNSET)
        return self.update(
            w.UpdateRun(
                run_id=run_id,
                expect=("queued",),
                prompt=prompt if isinstance(prompt, str) else UNSET,
                attachments=attachments if isinstance(attachments, tuple) else UNSET,
            )
        )

    def _finish(self, change: lw.RunFinished, ends: Mapping[str, EndDetails]) -> None:
        run = self.runs[change.run_id]
        details = ends.get(change.host or change.run_id) or EndDetails(
            outcome=Outcome(state=change.state, reason=change.reason)
        )
        if change.was in ("queued", "waiting"):
            self._prompt(run, unsent=True)
        elif change.host is None:
            self.spend(run.id, details.spent)
            self.add(details.writes, details.events)
            self.messages(details.messages)
        outcome = _settled(details.outcome, change)
        write = w.EndRun(run_id=run.id, expect=(change.was,), outcome=outcome, finished_at=self._at)
        self._writes.append(write)
        ended = apply_run_write(self.runs.pop(run.id), write)
        self._ended.append(ended)
        self._tell(ev.RunFinished, ended)

    def _prompt(self, run: Run, *, unsent: bool = False) -> None:
        """The run's own message: when its prompt enters the conversation, or as a record that it never did."""
        if run.kind != "prompt":
            return
        text: tuple[Part, ...] = (Text(run.prompt),) if run.prompt else ()
        message = Message(
            id=self._new_message_id(),
            session_id=self._session_id,
            run_id=run.id,
            role="user",
            seq=0,
            created_at=self._at,
            parts=(*text, *run.attachments),
            unsent=unsent,
        )
        self._writes.append(w.PutMessage(message))
        self._events.append(ev.MessageCreated(self._at, self._session_id, message))

    def _tell(
        self,
        kind: type[ev.RunAccepted | ev.RunStarted | ev.RunJoined | ev.RunUpdated | ev.RunStopping | ev.RunFinished],
        run: Run,
    ) -> None:
        self._events.append(kind(self._at, self._session_id, told(run)))


def told(run: Run) -> Run:
    """A run as events carry it: attachments by name only; whoever wants their content reads the message."""
    if not run.attachments:
        return run
    return replace(run, attachments=tuple(File(file.name, file.media_type) for file in run.attachments))


def _settled(outcome: Outcome, change: lw.RunFinished) -> Outcome:
    """The turn's report with the end that was decided; what is no failure carries no error (`C9`)."""
    error = outcome.error if change.state == "failed" else None
    return replace(outcome, state=change.state, reason=change.reason, error=error)


def _verdict(answer: lw.Answer | None) -> tuple[RunDecision, int | None, str | None]:
    match answer:
        case lw.Started():
            return "started", None, None
        case lw.QueuedAt(position):
            return "queued", position, None
        case lw.Steered(host):
            return "steered", None, host
        case _:
            raise AssertionError(f"{answer!r} is no answer to an accept")


def _row_of(accepted: LaneRun, acceptance: Acceptance, *, session_id: str, at: str) -> Run:
    request = acceptance.request
    return Run(
        **{name: getattr(accepted.settings, name) for name in accepted.settings.__struct_fields__},
        id=accepted.id,
        session_id=session_id,
        seq=accepted.seq,
        rank=accepted.rank,
        kind=accepted.kind,
        state=accepted.state,
        delivery=accepted.delivery,
        after=accepted.after,
        host_run_id=accepted.host,
        prompt=request.prompt,
        attachments=request.attachments,
        arguments=request.arguments,
        client=acceptance.client,
        parent_run_id=acceptance.parent_run_id,
        created_at=at,
        usage=Usage(),
    )


def _row(session_id: str, lane: Lane) -> LaneRow:
    return LaneRow(
        session_id=session_id,
        next_seq=lane.next_seq,
        mark=lane.mark,
        hold=lane.hold,
        last_end=lane.last_end,
        lifecycle=lane.lifecycle,
    )


def _matters(new: LaneRow, old: LaneRow) -> bool:
    """Whether the row alone is worth a commit: open and closed follow from the server's life, not from the row's."""
    if {new.lifecycle, old.lifecycle} <= {"open", "closed"}:
        new = replace(new, lifecycle=old.lifecycle)
    return new != old
