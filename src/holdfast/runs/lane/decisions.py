"""Every decision about the runs of a session: `decide` maps a lane and a command to the new lane. Pure.

A decision is the new lane, the changes that lead to it and the answer to the caller. The mailbox commits the changes
and acts on them only then; if the commit is refused, it keeps the old lane. A command that cannot be obeyed raises an
error of `holdfast.errors` and changes nothing.

The states of a run::

    accept ──▶ queued ───────────▶ active ──▶ (stopping) ──▶ end
           └─▶ waiting ─▶ joined ─────────────────────────▶ end, with its host
                  └──────▶ queued at the head, if its host stops or ends before it joins

- One run has the turn. When it ends, the next one starts in the same decision, so the session never looks idle in
  between.
- An accepted run starts in the same decision if nothing is in its way.
- The last step is a boundary too: whether waiting steers join or the run ends is one decision.
- A cancel ends the covered runs that have not started and sets the active one stopping. Runs accepted later are not
  covered. A stopping run ends with its stop reason, whatever its turn reports.
- A pause only keeps the next run from starting. A pause by the user lasts until resume or a cancel of the session;
  other cancels do not end it. A pause by a server stop also ends when the queue is empty. A pause for
  `after: "success"` lasts while that run is the next one and the run before it did not complete.
- While the server may begin nothing (`may_start`), runs are accepted and end, but none starts.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, assert_never, overload

from msgspec.structs import replace

from holdfast.errors import BadRequest, Conflict, Gone, ServerStopping
from holdfast.runs.lane.protocol import (
    Accept,
    AcceptAnswer,
    Boundary,
    CancelActive,
    CancelRun,
    CancelSession,
    Change,
    Command,
    Covered,
    Decision,
    Delete,
    DeletionCompleted,
    Done,
    Edit,
    End,
    LaneAnswer,
    Move,
    Open,
    Pause,
    QueuedAt,
    QueueViewChanged,
    Recover,
    Repeated,
    Resume,
    RunAdded,
    RunEdited,
    RunEnded,
    RunMoved,
    ServerStop,
    Started,
    Steered,
    SteerJoined,
    SteerRequeued,
    TurnStarted,
    TurnStopping,
)
from holdfast.runs.lane.state import (
    ActivePhase,
    JoinedPhase,
    Lane,
    LanePhase,
    LaneRun,
    QueuedPhase,
    RunStopReason,
    StoppingPhase,
    WaitingPhase,
)
from holdfast.schema.runs import BoundaryAnswer, Ended, EndReason, EndState, GoOn, NotSteered, StopNow

_ENDS_AS: dict[RunStopReason, EndState] = {
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
def decide(lane: Lane, command: Edit | Move | Pause | Resume | ServerStop | Recover | Open) -> Decision[Done]: ...
@overload
def decide(lane: Lane, command: Command) -> Decision[Any]: ...
def decide(lane: Lane, command: Command) -> Decision[Any]:
    """Decide one command. Raises a `CallerError` or `ServerStopping` if it cannot be obeyed."""
    draft = _Draft(lane)
    answer = _apply(draft, command)
    if _queue_view(lane) != _queue_view(draft.lane):
        draft.changes.append(QueueViewChanged())
    return Decision(lane=draft.lane, changes=tuple(draft.changes), answer=answer)


def decide_all(lane: Lane, *commands: Command) -> Decision[Done]:
    """Decide several commands as one. The queue is published once, in its last state."""
    changes: list[Change] = []
    queue_changed = False
    for command in commands:
        decision = decide(lane, command)
        lane = decision.lane
        changes.extend(change for change in decision.changes if not isinstance(change, QueueViewChanged))
        queue_changed |= QueueViewChanged() in decision.changes
    if queue_changed:
        changes.append(QueueViewChanged())
    return Decision(lane=lane, changes=tuple(changes), answer=Done())


def _apply(draft: _Draft, command: Command) -> LaneAnswer:
    match command:
        case Accept():
            return _accept(draft, command)
        case Edit(run_id):
            draft.changes.append(RunEdited(_require_queued(draft.lane, run_id).id))
        case Move(run_id, position):
            _move(draft, _require_queued(draft.lane, run_id), position=position)
        case Boundary():
            return _cross_boundary(draft, command)
        case End(run_id, outcome):
            return _end(draft, _require_turn(draft.lane, run_id), outcome.state, outcome.reason)
        case CancelSession(reason):
            return _cancel_session(draft, reason)
        case CancelActive(reason):
            return _cancel_active(draft, reason)
        case CancelRun(run_id, reason):
            return _cancel_run(draft, draft.lane.find(run_id), reason)
        case Pause():
            _require_open(draft.lane)
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
    """The lane while a command is applied, and the changes so far."""

    def __init__(self, lane: Lane) -> None:
        self.lane = lane
        self.changes: list[Change] = []

    def set(self, **fields: Any) -> None:
        self.lane = replace(self.lane, **fields)

    def update(self, run: LaneRun, change: Change, *, phase: LanePhase | None = None, rank: int | None = None) -> None:
        """Give a run another phase or rank."""
        new = replace(run, phase=run.phase if phase is None else phase, rank=run.rank if rank is None else rank)
        self.set(runs=tuple(new if old.id == run.id else old for old in self.lane.runs))
        self.changes.append(change)

    def finish(self, runs: Iterable[LaneRun], state: EndState, reason: EndReason) -> None:
        for run in runs:
            self.set(runs=tuple(other for other in self.lane.runs if other.id != run.id))
            host = run.host if run.state == "joined" else None
            self.changes.append(RunEnded(run.id, run.state, state, reason, host))


def _accept(draft: _Draft, command: Accept) -> AcceptAnswer:
    lane = draft.lane
    if lane.find(command.run_id) is not None:
        return Repeated(command.run_id)
    if command.parked and lane.lifecycle in ("open", "closed"):
        draft.set(lifecycle="closed")
        lane = draft.lane
    else:
        _require_open(lane)
    host = _find_host(lane, command)
    run = LaneRun(
        id=command.run_id,
        seq=lane.next_seq,
        rank=lane.next_seq,
        kind=command.kind,
        delivery=command.delivery,
        after=command.after,
        settings=command.settings,
        phase=QueuedPhase() if host is None else WaitingPhase(host.id),
    )
    draft.set(runs=(*lane.runs, run), next_seq=run.seq + 1)
    draft.changes.append(RunAdded(run))
    if host is not None:
        return Steered(host.id)
    _settle(draft)
    position = draft.lane.position(run.id)
    return Started() if position is None else QueuedAt(position)


def why_not_steered(lane: Lane, command: Accept) -> NotSteered | None:
    """Why a steer would not wait for the active run, or None."""
    if command.delivery != "steer" or _find_host(lane, command) is not None:
        return None
    if lane.active is None:
        return "idle"
    if lane.active.state != "active":
        return "stopping"
    return "not_a_prompt" if command.kind != "prompt" or lane.active.kind != "prompt" else "settings"


def _find_host(lane: Lane, command: Accept) -> LaneRun | None:
    """The run that a steer can wait for: an active prompt with the same settings."""
    host = lane.active
    if command.delivery != "steer" or command.kind != "prompt" or host is None:
        return None
    same = host.settings == command.settings or host.id == command.same_settings_as
    alike = host.state == "active" and host.kind == "prompt" and same
    return host if alike else None


def _move(draft: _Draft, run: LaneRun, *, position: int) -> None:
    """Change the order of the queue."""
    if position < 1:
        raise BadRequest(f"position {position!r} is not a place in the queue; give 1 for the next to start, or more")
    queue = draft.lane.queue
    order = [other for other in queue if other.id != run.id]
    order.insert(position - 1, run)
    # The existing ranks are reassigned, so a run that is accepted later still has a higher rank than all of them.
    for old, new in zip(queue, order, strict=True):
        if old.id != new.id:
            draft.update(new, RunMoved(new.id, old.rank), rank=old.rank)
    _settle(draft)


def _cross_boundary(draft: _Draft, command: Boundary) -> BoundaryAnswer:
    """Let all waiting steers join, or end the run if it proposed its end and none waits."""
    host = _require_turn(draft.lane, command.run_id)
    if isinstance(host.phase, StoppingPhase):
        return StopNow(host.phase.reason)
    waiting = draft.lane.waiting
    if command.proposed is not None and not waiting:
        return _end(draft, host, command.proposed.state, command.proposed.reason)
    for run in waiting:
        draft.update(run, SteerJoined(run.id, host.id), phase=JoinedPhase(host.id))
    return GoOn(tuple(run.id for run in waiting))


def _end(draft: _Draft, host: LaneRun, state: EndState, reason: EndReason) -> Ended:
    """End the host and all runs that joined it, and start the next run."""
    if isinstance(host.phase, StoppingPhase):
        state, reason = _ENDS_AS[host.phase.reason], host.phase.reason
    draft.finish([host, *draft.lane.joined], state, reason)
    draft.set(last_end=state)
    _requeue_steers(draft)
    _settle(draft)
    return Ended()


def _cancel_session(draft: _Draft, reason: RunStopReason) -> Covered:
    """Cover everything accepted until now: active, queued, waiting and joined runs."""
    covered = draft.lane.runs
    _end_all(draft, reason)
    return Covered(draft.lane.next_seq - 1, covered)


def _cancel_active(draft: _Draft, reason: RunStopReason) -> Covered:
    """Cover the active run and the runs that joined it."""
    lane = draft.lane
    if lane.active is None:
        return Covered(lane.mark)
    _stop(draft, lane.active, reason)
    _requeue_steers(draft)
    return Covered(lane.mark, (lane.active, *lane.joined))


def _cancel_run(draft: _Draft, run: LaneRun | None, reason: RunStopReason) -> Covered:
    """Cancel one run. A run that is not in the lane has ended, and nothing is covered."""
    if run is None:
        return Covered(draft.lane.mark)
    match run.phase:
        case ActivePhase() | StoppingPhase():
            return _cancel_active(draft, reason)
        case JoinedPhase(host):
            raise Conflict(
                f"run {run.id!r} has joined run {host!r}; cancel run {host!r} instead",
                code="run_joined",
                detail={"run_id": run.id, "host_run_id": host},
            )
        case QueuedPhase() | WaitingPhase():
            draft.finish([run], "cancelled", reason)
            _settle(draft)
            return Covered(draft.lane.mark, (run,))
        case never:
            assert_never(never)


def _resume(draft: _Draft) -> None:
    _require_open(draft.lane)
    draft.set(hold=None)
    if draft.lane.active is None and draft.lane.queue and draft.lane.may_start:
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
        _requeue_steers(draft)
    draft.set(lifecycle="closed", hold=draft.lane.hold or "server_stop")
    _settle(draft)


def _recover(draft: _Draft) -> None:
    if draft.lane.lifecycle == "open":
        draft.set(lifecycle="closed")
    if draft.lane.active is not None:
        _end(draft, draft.lane.active, "interrupted", "server_crash")


def _end_all(draft: _Draft, reason: RunStopReason) -> None:
    """End the runs that have not started, stop the active one, and end any pause. Everything accepted is covered."""
    lane = draft.lane
    draft.finish([run for run in lane.runs if run.state in ("queued", "waiting")], _ENDS_AS[reason], reason)
    if lane.active is not None:
        _stop(draft, lane.active, reason)
    draft.set(hold=None, mark=lane.next_seq - 1 if lane.runs else lane.mark)


def _stop(draft: _Draft, run: LaneRun, reason: RunStopReason) -> None:
    if isinstance(run.phase, ActivePhase):
        draft.update(run, TurnStopping(run.id, reason), phase=StoppingPhase(reason))


def _requeue_steers(draft: _Draft) -> None:
    """Move steers that can no longer join to the head of the queue, in the order of `seq`, each as its own run."""
    waiting = draft.lane.waiting
    head = min((run.rank for run in draft.lane.queue), default=draft.lane.next_seq)
    for rank, run in enumerate(waiting, head - len(waiting)):
        draft.update(run, SteerRequeued(run.id, rank), phase=QueuedPhase(), rank=rank)


def _settle(draft: _Draft) -> None:
    """Apply what follows from a change: complete a deletion, end a needless hold, start the next run."""
    lane = draft.lane
    if lane.lifecycle == "deleting" and not lane.runs:
        draft.set(lifecycle="deleted")
        draft.changes.append(DeletionCompleted())
    if lane.hold == "server_stop" and not lane.queue:
        draft.set(hold=None)
    is_free = lane.lifecycle == "open" and lane.active is None and lane.paused is None
    if is_free and lane.may_start and lane.queue:
        _start(draft, lane.queue[0])


def _start(draft: _Draft, run: LaneRun) -> None:
    draft.update(run, TurnStarted(run.id), phase=ActivePhase())


def _require_queued(lane: Lane, run_id: str) -> LaneRun:
    run = lane.find(run_id)
    if run is None or run.state != "queued":
        state = "finished or unknown" if run is None else run.state
        raise Conflict(f"run {run_id!r} is {state}; only a queued run can be changed", code="not_queued")
    return run


def _require_turn(lane: Lane, run_id: str) -> LaneRun:
    if lane.active is None or lane.active.id != run_id:
        raise Conflict(f"run {run_id!r} does not have the turn", code="not_active")
    return lane.active


def _require_open(lane: Lane) -> None:
    match lane.lifecycle:
        case "open":
            return
        case "closed":
            raise ServerStopping("the server is stopping; try again when it is back")
        case "deleting" | "deleted":
            raise Gone("the session is deleted")
        case never:
            assert_never(never)


def _queue_view(lane: Lane) -> object:
    return [run.id for run in lane.queue], lane.waiting, lane.paused
