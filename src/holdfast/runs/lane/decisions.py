"""The lane: the one place that decides what happens to a session's runs. Pure: no I/O, no clock, no tasks.

`decide` takes the lane as it is and one command, and returns the lane as it will be, the changes that make it so, and
the caller's answer. Its owner commits the changes and only then acts on them; if the commit is refused, it keeps the
old lane, and nothing has happened. A command that cannot be obeyed raises a leaf of `holdfast.errors`.

How it goes::

    accept ──▶ queued ───────────▶ active ──▶ (stopping) ──▶ end
           └─▶ waiting ─▶ joined ─────────────────────────▶ end, with its host
                  └──────▶ queued, at the head, when its host stops or ends without taking it

- One run has the turn. When it ends, the next one starts in the same decision, so no command ever finds a gap.
- A run that is accepted while nothing stands in its way starts in that same decision.
- A last step is a boundary like any other: whether waiting steers join or the run ends is one decision.
- A cancel ends what has not started, marks the active run as stopping, and knows nothing of what comes later.
  A stopping run's end is settled: whatever its turn still reports, it ends by its reason.
- A pause only keeps the next run from starting. One made by the user lasts until resume or a cancel of the session; one
  left by a server stop also ends when nothing is queued any more; one that comes from ``after: "success"`` lasts as
  long as that run is the next one and the run before it did not complete. Other cancels end no pause of the user's.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, assert_never, overload

from msgspec.structs import replace

from holdfast.errors import BadRequest, Conflict, Gone, ServerStopping
from holdfast.runs.lane.protocol import (
    Accept,
    AcceptAnswer,
    Answer,
    Boundary,
    BoundaryAnswer,
    CancelActive,
    CancelRun,
    CancelSession,
    Change,
    Command,
    Covered,
    Decision,
    Delete,
    Done,
    Edit,
    End,
    Ended,
    GoOn,
    Move,
    Open,
    Pause,
    QueueChanged,
    QueuedAt,
    Recover,
    Remove,
    Repeated,
    Resume,
    RunAccepted,
    RunEdited,
    RunFellBack,
    RunFinished,
    RunJoined,
    RunMoved,
    RunStarted,
    RunStopping,
    ServerStop,
    SessionDeleted,
    Started,
    Steered,
    StopNow,
)
from holdfast.runs.lane.state import Active, Joined, Lane, LaneRun, Phase, Queued, Stopping, StopWhy, Waiting
from holdfast.schema.runs import EndReason, EndState

_ENDS_AS: dict[StopWhy, EndState] = {
    "user_cancel": "cancelled",
    "parent_ended": "cancelled",
    "session_deleted": "cancelled",
    "server_stop": "interrupted",
}


@overload
def decide(lane: Lane, command: Accept) -> Decision[AcceptAnswer]: ...
@overload
def decide(lane: Lane, command: Boundary) -> Decision[BoundaryAnswer]: ...
@overload
def decide(lane: Lane, command: End) -> Decision[Ended]: ...
@overload
def decide(lane: Lane, command: CancelSession | CancelActive | CancelRun | Delete) -> Decision[Covered]: ...
@overload
def decide(
    lane: Lane, command: Edit | Move | Remove | Pause | Resume | ServerStop | Recover | Open
) -> Decision[Done]: ...
@overload
def decide(lane: Lane, command: Command) -> Decision[Any]: ...
def decide(lane: Lane, command: Command) -> Decision[Any]:
    """What this command makes of this lane. Raises `CallerError` or `ServerStopping` and changes nothing if refused."""
    draft = _Draft(lane)
    answer = _obey(draft, command)
    if _shown(lane) != _shown(draft.lane):
        draft.changes.append(QueueChanged())
    return Decision(lane=draft.lane, changes=tuple(draft.changes), answer=answer)


def _obey(draft: _Draft, command: Command) -> Answer:
    match command:
        case Accept():
            return _accept(draft, command)
        case Edit(run_id):
            draft.changes.append(RunEdited(_queued(draft.lane, run_id).id))
        case Move(run_id, position):
            _move(draft, _queued(draft.lane, run_id), position=position)
        case Remove(run_id):
            draft.finish([_queued(draft.lane, run_id)], "cancelled", "user_remove")
            _settle(draft)
        case Boundary():
            return _boundary(draft, command)
        case End(run_id, outcome):
            return _end(draft, _turn_of(draft.lane, run_id), outcome.state, outcome.reason)
        case CancelSession(why):
            return _cancel_session(draft, why)
        case CancelActive(why):
            return _cancel_active(draft, why)
        case CancelRun(run_id, why):
            return _cancel_run(draft, draft.lane.find(run_id), why)
        case Pause():
            _refuse_unless_open(draft.lane)
            draft.set(hold="user")
        case Resume():
            _resume(draft)
        case Delete():
            return _delete(draft)
        case ServerStop():
            _server_stop(draft)
        case Recover():
            _recover(draft)
        case Open():
            if draft.lane.lifecycle == "closed":
                draft.set(lifecycle="open")
            _settle(draft)
        case never:
            assert_never(never)
    return Done()


class _Draft:
    """The lane while a decision is being made, and what has changed so far."""

    def __init__(self, lane: Lane) -> None:
        self.lane = lane
        self.changes: list[Change] = []

    def set(self, **fields: Any) -> None:
        self.lane = replace(self.lane, **fields)

    def put(self, run: LaneRun, change: Change, *, phase: Phase | None = None, rank: int | None = None) -> None:
        """The same run in another phase or with another rank."""
        new = replace(run, phase=run.phase if phase is None else phase, rank=run.rank if rank is None else rank)
        self.set(runs=tuple(new if old.id == run.id else old for old in self.lane.runs))
        self.changes.append(change)

    def finish(self, runs: Iterable[LaneRun], state: EndState, reason: EndReason) -> None:
        for run in runs:
            self.set(runs=tuple(other for other in self.lane.runs if other.id != run.id))
            host = run.host if run.state == "joined" else None
            self.changes.append(RunFinished(run.id, run.state, state, reason, host))


def _accept(draft: _Draft, command: Accept) -> AcceptAnswer:
    lane = draft.lane
    if lane.find(command.run_id) is not None:
        return Repeated(command.run_id)
    _refuse_unless_open(lane)
    host = _host_for(lane, command)
    run = LaneRun(
        id=command.run_id,
        seq=lane.next_seq,
        rank=lane.next_seq,
        kind=command.kind,
        delivery=command.delivery,
        after=command.after,
        settings=command.settings,
        phase=Queued() if host is None else Waiting(host.id),
    )
    draft.set(runs=(*lane.runs, run), next_seq=run.seq + 1)
    draft.changes.append(RunAccepted(run))
    if host is not None:
        return Steered(host.id)
    _settle(draft)
    position = draft.lane.position(run.id)
    return Started() if position is None else QueuedAt(position)


def _host_for(lane: Lane, command: Accept) -> LaneRun | None:
    """The run that a steer can wait for: active, a prompt like itself, with the same settings."""
    host = lane.active
    if command.delivery != "steer" or command.kind != "prompt" or host is None:
        return None
    alike = host.state == "active" and host.kind == "prompt" and host.settings == command.settings
    return host if alike else None


def _move(draft: _Draft, run: LaneRun, *, position: int) -> None:
    if position < 1:
        raise BadRequest(f"position {position!r} is no place in a queue; 1 is the next to start")
    queue = draft.lane.queue
    order = [other for other in queue if other.id != run.id]
    order.insert(position - 1, run)
    # The ranks that are there are dealt out anew, so that a run accepted later still ranks behind all of them.
    for old, new in zip(queue, order, strict=True):
        if old.id != new.id:
            draft.put(new, RunMoved(new.id, old.rank), rank=old.rank)
    _settle(draft)


def _boundary(draft: _Draft, command: Boundary) -> BoundaryAnswer:
    host = _turn_of(draft.lane, command.run_id)
    if isinstance(host.phase, Stopping):
        return StopNow(host.phase.why)
    waiting = draft.lane.waiting
    if command.proposed is not None and not waiting:
        return _end(draft, host, command.proposed.state, command.proposed.reason)
    for run in waiting:
        draft.put(run, RunJoined(run.id, host.id), phase=Joined(host.id))
    return GoOn(tuple(run.id for run in waiting))


def _end(draft: _Draft, host: LaneRun, state: EndState, reason: EndReason) -> Ended:
    """The turn's end: the host's, that of all who joined, and the next run's start."""
    if isinstance(host.phase, Stopping):
        state, reason = _ENDS_AS[host.phase.why], host.phase.why
    draft.finish([host, *draft.lane.joined], state, reason)
    draft.set(last_end=state)
    _fall_back(draft)
    _settle(draft)
    return Ended()


def _cancel_session(draft: _Draft, why: StopWhy) -> Covered:
    covered = draft.lane.runs
    _end_all(draft, why)
    return Covered(draft.lane.next_seq - 1, covered)


def _cancel_active(draft: _Draft, why: StopWhy) -> Covered:
    lane = draft.lane
    if lane.active is None:
        return Covered(lane.mark)
    _stop(draft, lane.active, why)
    _fall_back(draft)
    return Covered(lane.mark, (lane.active, *lane.joined))


def _cancel_run(draft: _Draft, run: LaneRun | None, why: StopWhy) -> Covered:
    """One run. One that is not here has ended: its owner knows how."""
    if run is None:
        return Covered(draft.lane.mark)
    match run.phase:
        case Active() | Stopping():
            return _cancel_active(draft, why)
        case Joined(host):
            raise Conflict(
                f"run {run.id!r} has joined run {host!r}; cancel that one",
                code="run_joined",
                detail={"run_id": run.id, "host_run_id": host},
            )
        case Queued() | Waiting():
            draft.finish([run], "cancelled", why)
            _settle(draft)
            return Covered(draft.lane.mark, (run,))
        case never:
            assert_never(never)


def _resume(draft: _Draft) -> None:
    _refuse_unless_open(draft.lane)
    draft.set(hold=None)
    if draft.lane.active is None and draft.lane.queue:
        _start(draft, draft.lane.queue[0])


def _delete(draft: _Draft) -> Covered:
    if draft.lane.lifecycle == "deleted":
        raise Gone("the session is deleted")
    covered = draft.lane.runs
    _end_all(draft, "session_deleted")
    draft.set(lifecycle="deleting")
    _settle(draft)
    return Covered(draft.lane.next_seq - 1, covered)


def _server_stop(draft: _Draft) -> None:
    if draft.lane.lifecycle in ("deleting", "deleted"):
        return
    if draft.lane.active is not None:
        _stop(draft, draft.lane.active, "server_stop")
        _fall_back(draft)
    draft.set(lifecycle="closed", hold=draft.lane.hold or "server_stop")
    _settle(draft)


def _recover(draft: _Draft) -> None:
    if draft.lane.lifecycle == "open":
        draft.set(lifecycle="closed")
    if draft.lane.active is not None:
        _end(draft, draft.lane.active, "interrupted", "server_crash")


def _end_all(draft: _Draft, why: StopWhy) -> None:
    """Ends what has not started, stops what has, and ends any pause: everything accepted until now is covered."""
    lane = draft.lane
    draft.finish([run for run in lane.runs if run.state in ("queued", "waiting")], _ENDS_AS[why], why)
    if lane.active is not None:
        _stop(draft, lane.active, why)
    draft.set(hold=None, mark=lane.next_seq - 1 if lane.runs else lane.mark)


def _stop(draft: _Draft, run: LaneRun, why: StopWhy) -> None:
    if isinstance(run.phase, Active):
        draft.put(run, RunStopping(run.id, why), phase=Stopping(why))


def _fall_back(draft: _Draft) -> None:
    """Steers that can no longer join go to the queue's head, in ``seq`` order, each as a run of its own."""
    waiting = draft.lane.waiting
    head = min((run.rank for run in draft.lane.queue), default=draft.lane.next_seq)
    for rank, run in enumerate(waiting, head - len(waiting)):
        draft.put(run, RunFellBack(run.id, rank), phase=Queued(), rank=rank)


def _settle(draft: _Draft) -> None:
    """What follows from every change: a delete is completed, a needless hold ends, the next run starts."""
    lane = draft.lane
    if lane.lifecycle == "deleting" and not lane.runs:
        draft.set(lifecycle="deleted")
        draft.changes.append(SessionDeleted())
    if lane.hold == "server_stop" and not lane.queue:
        draft.set(hold=None)
    if lane.lifecycle == "open" and lane.active is None and lane.paused is None and lane.queue:
        _start(draft, lane.queue[0])


def _start(draft: _Draft, run: LaneRun) -> None:
    draft.put(run, RunStarted(run.id), phase=Active())


def _queued(lane: Lane, run_id: str) -> LaneRun:
    run = lane.find(run_id)
    if run is None or run.state != "queued":
        state = "finished or unknown" if run is None else run.state
        raise Conflict(f"run {run_id!r} is {state}, not queued any more", code="not_queued")
    return run


def _turn_of(lane: Lane, run_id: str) -> LaneRun:
    if lane.active is None or lane.active.id != run_id:
        raise Conflict(f"run {run_id!r} does not have the turn", code="not_active")
    return lane.active


def _refuse_unless_open(lane: Lane) -> None:
    match lane.lifecycle:
        case "open":
            return
        case "closed":
            raise ServerStopping("the server is stopping; try again when it is back")
        case "deleting" | "deleted":
            raise Gone("the session is deleted")
        case never:
            assert_never(never)


def _shown(lane: Lane) -> object:
    return [run.id for run in lane.queue], lane.waiting, lane.paused
