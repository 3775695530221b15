"""From a lane's decision to its commit: the writes, the events and the rows as they are after it. Pure.

`PlanBuilder` collects the writes and events of one commit in the order in which they are published. It keeps the rows
of the runs up to date with the writes, so that each event says exactly what the tables say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, TypeVar, assert_never

from msgspec import UNSET, UnsetType
from msgspec.structs import asdict, replace

from holdfast.agent.protocol import Ending, Spent
from holdfast.runs.lane.protocol import (
    AcceptAnswer,
    Change,
    Decision,
    DeletionCompleted,
    QueuedAt,
    QueueViewChanged,
    Repeated,
    RunAdded,
    RunEdited,
    RunEnded,
    RunMoved,
    Started,
    Steered,
    SteerJoined,
    SteerRequeued,
    TurnStarted,
    TurnStopping,
)
from holdfast.runs.lane.state import Lane, LaneRun, lane_run
from holdfast.schema import events as ev
from holdfast.schema.base import Value
from holdfast.schema.messages import File, Message, Part, Text
from holdfast.schema.runs import Accepted, Outcome, Run, RunRequest
from holdfast.schema.sessions import Session
from holdfast.store import Batch, LaneRecord, LaneRow, apply_run_write
from holdfast.store import writes as w

A = TypeVar("A")
B = TypeVar("B")


class LaneState(Value, frozen=True):
    """A session's lane with its rows, as committed."""

    session: Session
    lane: Lane
    row: LaneRow
    runs: Mapping[str, Run]
    """The unfinished runs by id."""


class CommitPlan(Value, Generic[A], frozen=True):
    """One commit, the state after it, and the answer to the caller."""

    state: LaneState
    answer: A
    batch: Batch = Batch()
    changes: tuple[Change, ...] = ()
    ended: tuple[Run, ...] = ()
    """The runs that end in this commit."""

    def with_answer(self, answer: B) -> CommitPlan[B]:
        return CommitPlan(self.state, answer, self.batch, self.changes, self.ended)

    def followed_by(self, then: CommitPlan[B]) -> CommitPlan[B]:
        """This plan and one that was made on its state, as one commit."""
        return CommitPlan(
            then.state,
            then.answer,
            Batch((*self.batch.writes, *then.batch.writes), (*self.batch.events, *then.batch.events)),
            (*self.changes, *then.changes),
            (*self.ended, *then.ended),
        )


class Acceptance(Value, frozen=True, kw_only=True):
    """What the row of a new run holds besides the lane's decision."""

    request: RunRequest
    client: str
    body_hash: str
    parent_run_id: str | None = None
    in_new_session: bool = False
    """The session is stored in the same commit."""


class QueuedEdit(Value, frozen=True, kw_only=True):
    """New values for a queued run."""

    prompt: str | UnsetType = UNSET
    attachments: tuple[File, ...] | UnsetType = UNSET


def lane_of(rows: LaneRecord) -> Lane:
    """Build the lane from its rows."""
    row = rows.lane
    return Lane(
        runs=tuple(lane_run(run) for run in rows.runs),
        next_seq=row.next_seq,
        mark=row.mark,
        hold=row.hold,
        last_end=row.last_end,
        lifecycle=row.lifecycle,
    )


def new_lane_state(session: Session) -> LaneState:
    """The state of a session that its first commit creates."""
    return LaneState(session, Lane(), LaneRow(session.id), {})


class PlanBuilder:
    """Builds one commit. Add the writes that are not the lane's first, then call `plan` or `plan_unchanged`."""

    def __init__(self, state: LaneState, *, at: str, new_message_id: Callable[[], str]) -> None:
        self._state = state
        self._at = at
        self._new_message_id = new_message_id
        self._session_id = state.session.id
        self._runs = dict(state.runs)
        """The unfinished runs after the commit."""
        self._writes: list[w.AnyWrite] = []
        self._events: list[ev.KnownDurable] = []
        self._ended: list[Run] = []

    def add(self, writes: Iterable[w.AnyWrite], events: Iterable[ev.KnownDurable] = ()) -> None:
        for write in writes:
            self._writes.append(write)
            if isinstance(write, w.UpdateRun) and write.run_id in self._runs:
                self._runs[write.run_id] = apply_run_write(self._runs[write.run_id], write)
        self._events.extend(events)

    def add_messages(self, messages: Iterable[Message]) -> None:
        """Add messages in their last state."""
        for message in messages:
            self._writes.append(w.PutMessage(message))
            self._events.append(ev.MessageFinished(self._at, self._session_id, message))

    def add_usage(self, run_id: str, spent: Spent | None) -> None:
        if spent is None:
            return
        run = self._runs[run_id]
        self._update(w.UpdateRun(run_id=run_id, usage=run.usage + spent.usage, steps=run.steps + spent.steps))
        self._add_to_session(run, spent)

    def _add_to_session(self, run: Run, spent: Spent) -> None:
        first = run.steps == 0 and spent.steps > 0
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

    def plan(
        self,
        decision: Decision[A],
        *,
        acceptance: Acceptance | None = None,
        edit: QueuedEdit | None = None,
        endings: Mapping[str, Ending] | None = None,
    ) -> CommitPlan[A]:
        """Add what the lane decided. `endings` holds the endings of runs that had a turn, by run id."""
        if acceptance is not None and acceptance.in_new_session:
            session = self._state.session
            self._writes.append(w.PutSession(session))
            self._events.append(ev.SessionCreated(session.created_at, session.id, session))
        for change in decision.changes:
            match change:
                case RunAdded(run):
                    assert acceptance is not None, "only an accept command adds a run"
                    self._add_run(run, acceptance, decision.answer)
                case RunEdited(run_id):
                    assert edit is not None, "only an edit command edits a run"
                    self._edit(run_id, edit)
                case RunEnded():
                    self._end(change, endings or {})
                case QueueViewChanged():
                    queue = decision.lane.view(self._session_id)
                    self._events.append(ev.QueueChanged(self._at, self._session_id, queue))
                case DeletionCompleted():
                    self._writes.append(w.DeleteSession(self._session_id, self._at))
                    self._events.append(ev.SessionDeleted(self._at, self._session_id))
                case _:
                    self._change_state(change)
        return self._finish(decision)

    def plan_unchanged(self) -> CommitPlan[None]:
        """The commit of what was added, without a decision of the lane."""
        return self._finish(Decision(self._state.lane, (), None))

    def _finish(self, decision: Decision[A]) -> CommitPlan[A]:
        """The lane's own row is written if it differs."""
        row = _lane_row(self._session_id, decision.lane)
        if row != self._state.row and (self._writes or self._events or _needs_commit(row, self._state.row)):
            if self._writes and isinstance(self._writes[0], w.PutSession):
                self._writes[0] = replace(self._writes[0], lane=row)
            else:
                self._writes.insert(0, w.SetLane(row))
        else:
            row = self._state.row
        return CommitPlan(
            state=LaneState(self._state.session, decision.lane, row, self._runs),
            answer=decision.answer,
            batch=Batch(tuple(self._writes), tuple(self._events)),
            changes=decision.changes,
            ended=tuple(self._ended),
        )

    def _change_state(self, change: TurnStarted | SteerJoined | SteerRequeued | RunMoved | TurnStopping) -> None:
        match change:
            case TurnStarted(run_id):
                started = self._update(
                    w.UpdateRun(run_id=run_id, expect=("queued",), state="active", started_at=self._at)
                )
                self._publish(ev.RunStarted, started)
                self._add_prompt(started)
            case SteerJoined(run_id, host):
                joined = self._update(
                    w.UpdateRun(
                        run_id=run_id, expect=("waiting",), state="joined", host_run_id=host, started_at=self._at
                    )
                )
                self._publish(ev.RunJoined, joined)
                self._add_prompt(joined)
            case SteerRequeued(run_id, rank):
                write = w.UpdateRun(run_id=run_id, expect=("waiting",), state="queued", rank=rank, host_run_id=None)
                self._publish(ev.RunUpdated, self._update(write))
            case RunMoved(run_id, rank):
                write = w.UpdateRun(run_id=run_id, expect=("queued",), rank=rank)
                self._publish(ev.RunUpdated, self._update(write))
            case TurnStopping(run_id, reason):
                write = w.UpdateRun(run_id=run_id, expect=("active",), state="stopping", reason=reason)
                self._publish(ev.RunStopping, self._update(write))
            case _:
                assert_never(change)

    def _add_run(self, added: LaneRun, acceptance: Acceptance, answer: Any) -> None:
        run = _run_row(added, acceptance, session_id=self._session_id, at=self._at)
        self._runs[run.id] = run
        accepted = accepted_as(run, answer)
        self._writes.append(
            w.InsertRun(
                run=run,
                body_hash=acceptance.body_hash,
                decision=accepted.decision,
                position=accepted.position,
                host_run_id=accepted.host_run_id,
                environment=acceptance.request.environment,
            )
        )
        self._publish(ev.RunAccepted, run)

    def _edit(self, run_id: str, edit: QueuedEdit) -> None:
        write = w.UpdateRun(run_id=run_id, expect=("queued",), prompt=edit.prompt, attachments=edit.attachments)
        self._publish(ev.RunUpdated, self._update(write))

    def _end(self, change: RunEnded, endings: Mapping[str, Ending]) -> None:
        run = self._runs[change.run_id]
        spent: Spent | None = None
        ending = endings.get(change.host or change.run_id) or Ending(Outcome(change.state, change.reason))
        if change.was in ("queued", "waiting"):
            self._add_prompt(run, unsent=True)
        elif change.host is None:
            spent = ending.spent
            if spent is not None:
                self._add_to_session(run, spent)
            self.add(ending.writes, ending.events)
            self.add_messages(ending.messages)
        outcome = _decided_outcome(ending.outcome, change)
        write = w.EndRun(
            run_id=run.id,
            expect=(change.was,),
            outcome=outcome,
            finished_at=self._at,
            usage=UNSET if spent is None else run.usage + spent.usage,
            steps=UNSET if spent is None else run.steps + spent.steps,
        )
        self._writes.append(write)
        ended = apply_run_write(self._runs.pop(run.id), write)
        self._ended.append(ended)
        self._publish(ev.RunFinished, ended)

    def _update(self, write: w.UpdateRun) -> Run:
        """A run that was inserted just before is inserted as it is after the update."""
        run = self._runs[write.run_id] = apply_run_write(self._runs[write.run_id], write)
        last = self._writes[-1] if self._writes else None
        if isinstance(last, w.InsertRun) and last.run.id == run.id:
            self._writes[-1] = replace(last, run=run)
        else:
            self._writes.append(write)
        return run

    def _add_prompt(self, run: Run, *, unsent: bool = False) -> None:
        """Add the run's user message: when its prompt enters the conversation, or as a record that it never did."""
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

    def _publish(
        self,
        event: type[ev.RunAccepted | ev.RunStarted | ev.RunJoined | ev.RunUpdated | ev.RunStopping | ev.RunFinished],
        run: Run,
    ) -> None:
        self._events.append(event(self._at, self._session_id, run_in_event(run)))


def run_in_event(run: Run) -> Run:
    """A run as events carry it: attachments without content. The message has their content."""
    if not run.attachments:
        return run
    return replace(run, attachments=tuple(File(file.name, file.media_type) for file in run.attachments))


def accepted_as(run: Run, answer: AcceptAnswer) -> Accepted:
    """The lane's answer to an accept command, as clients get it."""
    match answer:
        case Started():
            return Accepted(run, "started")
        case QueuedAt(position):
            return Accepted(run, "queued", position=position)
        case Steered(host):
            return Accepted(run, "steered", host_run_id=host)
        case Repeated():
            raise AssertionError(f"run {run.id!r} is in the lane already; its answer is in the database")
        case _:
            assert_never(answer)


def _decided_outcome(outcome: Outcome, change: RunEnded) -> Outcome:
    """The turn's outcome with the state and reason that the lane decided. Only a failure has an error (`C9`)."""
    error = outcome.error if change.state == "failed" else None
    return replace(outcome, state=change.state, reason=change.reason, error=error)


def _run_row(added: LaneRun, acceptance: Acceptance, *, session_id: str, at: str) -> Run:
    request = acceptance.request
    return Run(
        **asdict(added.settings),
        id=added.id,
        session_id=session_id,
        seq=added.seq,
        rank=added.rank,
        kind=added.kind,
        state=added.state,
        delivery=added.delivery,
        after=added.after,
        host_run_id=added.host,
        prompt=request.prompt,
        attachments=request.attachments,
        arguments=request.arguments,
        client=acceptance.client,
        parent_run_id=acceptance.parent_run_id,
        created_at=at,
    )


def _lane_row(session_id: str, lane: Lane) -> LaneRow:
    return LaneRow(
        session_id=session_id,
        next_seq=lane.next_seq,
        mark=lane.mark,
        hold=lane.hold,
        last_end=lane.last_end,
        lifecycle=lane.lifecycle,
    )


def _needs_commit(new: LaneRow, old: LaneRow) -> bool:
    """Whether the row alone is worth a commit. `open` and `closed` follow from the server's state, not from the row."""
    if {new.lifecycle, old.lifecycle} <= {"open", "closed"}:
        new = replace(new, lifecycle=old.lifecycle)
    return new != old
