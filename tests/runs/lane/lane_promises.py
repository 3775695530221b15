"""The promises of the lane, written a second time and independently of its code.

The checks use the state before, the command and the changes. They do not use the lane's own properties, so a mistake in
one of them cannot hide a mistake in the other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from holdfast.errors import BadRequest, Conflict, Gone, HoldfastError, ServerStopping
from holdfast.runs.lane.protocol import (
    Accept,
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
from holdfast.runs.lane.state import Lane, LaneRun, StoppingPhase, lane_run
from holdfast.schema.runs import Ended, GoOn, Outcome, Queue, Run, RunSettings, StopNow

Decide = Callable[[Lane, Command], Decision[Any]]

COMPLETED = Outcome("completed", "end_turn")
FAILED = Outcome("failed", "provider")
CONFIGURED_MODEL = "p/one"

_ENDS_BY = {
    "user_cancel": ("cancelled", "user_cancel"),
    "parent_ended": ("cancelled", "parent_ended"),
    "session_deleted": ("cancelled", "session_deleted"),
    "server_stop": ("interrupted", "server_stop"),
}
_WHEN_NOT_OPEN: dict[str, tuple[type[HoldfastError], str] | None] = {
    "open": None,
    "closed": (ServerStopping, "stopping"),
    "deleting": (Gone, "session_deleted"),
    "deleted": (Gone, "session_deleted"),
}


class BrokenPromiseError(AssertionError):
    """A state or a decision breaks a promise."""


def must(holds: bool, promise: str) -> None:
    if not holds:
        raise BrokenPromiseError(promise)


def in_effect(settings: RunSettings) -> RunSettings:
    """The settings with which a run works, in a directory that is configured for one model."""
    return settings if settings.model is not None else replace(settings, model=CONFIGURED_MODEL)


def runs_in(lane: Lane, *states: str) -> tuple[LaneRun, ...]:
    return tuple(run for run in lane.runs if run.state in states)


def turn_of(lane: Lane) -> LaneRun | None:
    return next(iter(runs_in(lane, "active", "stopping")), None)


def queue_of(lane: Lane) -> tuple[LaneRun, ...]:
    return tuple(sorted(runs_in(lane, "queued"), key=lambda run: run.rank))


def check_state(lane: Lane, *, covered: frozenset[str]) -> None:
    """Check what holds in every state. `covered` are the runs that a cancel has covered."""
    _check_numbers(lane)
    _check_pause(lane)
    turns = runs_in(lane, "active", "stopping")
    must(len(turns) <= 1, "R4: two runs have the turn")
    turn = turn_of(lane)
    for run in runs_in(lane, "waiting", "joined"):
        must(turn is not None and turn.id == run.host, "R6: a steer's host does not have the turn")
    for run in runs_in(lane, "waiting"):
        must(turn is not None and turn.state == "active", "R6: a steer waits for a stopping run")
        same = turn is not None and in_effect(turn.settings) == in_effect(run.settings)
        must(same, "R6: a steer waits for a run with other settings")
        must(turn is not None and turn.kind == run.kind == "prompt", "R6: a steer or its host is not a prompt")
    for run in lane.runs:
        stops_with_host = run.state == "joined" and turn is not None and turn.state == "stopping"
        settled = run.state == "stopping" or stops_with_host
        must(settled or run.id not in covered, "C1: a covered run is neither ended nor stopping")
    if lane.lifecycle == "closed":
        must(turn is None or turn.state == "stopping", "W5: a run is active while the server stops")
    if lane.lifecycle == "deleting":
        must(turn is not None and turn.state == "stopping", "a deletion waits although no run is stopping")
        must(not runs_in(lane, "queued", "waiting"), "a run is left in a session that is being deleted")
    if lane.lifecycle == "deleted":
        must(not lane.runs, "a run is left in a deleted session")


def _check_numbers(lane: Lane) -> None:
    seqs = [run.seq for run in lane.runs]
    must(seqs == sorted(set(seqs)) and all(seq < lane.next_seq for seq in seqs), "a seq is used twice or out of order")
    ranks = [run.rank for run in queue_of(lane)]
    must(len(ranks) == len(set(ranks)) and all(rank < lane.next_seq for rank in ranks), "R5: the ranks are wrong")


def _check_pause(lane: Lane) -> None:
    turn, queue = turn_of(lane), queue_of(lane)
    if turn is None and queue and lane.lifecycle == "open":
        must(lane.paused is not None, "R5: no run is active, but the queue does not start and is not paused")
    if lane.paused == "predecessor":
        must(turn is None and bool(queue) and queue[0].after == "success", "R5: no run waits for a success")
        must(lane.last_end in ("failed", "cancelled", "interrupted"), "R5: the predecessor completed")
    if lane.hold is not None:
        must(lane.paused == lane.hold, "R5: the pause has the wrong reason")
    if lane.hold == "server_stop":
        must(bool(queue), "W5: a server stop holds an empty queue")


def check_drain(decide: Decide, lane: Lane) -> None:
    """Check that every run of this state can reach its end, and gets exactly one."""
    left = [run.id for run in lane.runs]
    ends: list[str] = []
    for _ in range(2 * len(left) + 3):
        turn = turn_of(lane)
        if turn is not None:
            command: Command = End(turn.id, FAILED)
        elif lane.runs:
            command = Open() if lane.lifecycle == "closed" else Resume()
        else:
            break
        try:
            decision = decide(lane, command)
        except HoldfastError as error:
            raise BrokenPromiseError(f"R5: {command} is refused with {error!r}") from None
        ends += [change.run_id for change in decision.changes if isinstance(change, RunEnded)]
        lane = decision.lane
    must(sorted(ends) == sorted(left), f"R7: of {left} these ended: {ends}")


def check_decision(before: Lane, command: Command, decision: Decision[Any], *, covered_before: frozenset[str]) -> None:
    """Check what holds for every decision. `covered_before` are the runs that an earlier cancel has covered."""
    _check_changes(before, decision)
    _check_ends(before, command, decision)
    _check_order(before, command, decision)
    _check_cover(before, command, decision, covered_before=covered_before)
    _check_effect(before, command, decision)


def _check_changes(before: Lane, decision: Decision[Any]) -> None:
    """Check that the changes alone, written to rows, lead to the new lane."""
    after = decision.lane
    rows = {run.id: _row(run) for run in before.runs}
    for change in decision.changes:
        _write(rows, change)
    restored = tuple(sorted((lane_run(row) for row in rows.values()), key=lambda run: run.seq))
    must(restored == after.runs, "the changes and the new lane differ")
    deleted = before.lifecycle != "deleted" and after.lifecycle == "deleted"
    must(deleted == (DeletionCompleted() in decision.changes), "a deletion is published at the wrong time")
    must(after.next_seq >= before.next_seq and after.mark >= before.mark, "next_seq or the mark decreases")
    must(
        (_queue_view(before) != _queue_view(after)) == (QueueViewChanged() in decision.changes),
        "a change of the queue is not published, or one that did not happen is",
    )
    if before.lifecycle == "deleted":
        must(after == before, "a deleted session changes")


def _queue_view(lane: Lane) -> Queue:
    return Queue(
        session_id="s",
        run_ids=tuple(run.id for run in queue_of(lane)),
        waiting=tuple(run.id for run in runs_in(lane, "waiting")),
        paused=lane.paused,
    )


def _check_ends(before: Lane, command: Command, decision: Decision[Any]) -> None:
    """Check that each end is the right one and is published once."""
    finished = [change for change in decision.changes if isinstance(change, RunEnded)]
    ends = {change.run_id: change for change in finished}
    must(len(ends) == len(finished), "R7: two ends of one run")
    for change in finished:
        run = next(run for run in before.runs if run.id == change.run_id)
        must(change.was == run.state, "C3: an end has the wrong previous state")
        must((change.state, change.reason) == _right_end(before, command, run), f"R7: a {run.state} run ends: {change}")
        must(change.host == (run.host if run.state == "joined" else None), "R7: a joined run does not name its host")
        must(run.state != "joined" or run.host in ends, "R7: a joined run ends without its host")
    turn = turn_of(before)
    if turn is not None and turn.id in ends:
        must(all(run.id in ends for run in runs_in(before, "joined")), "R7: a host ends without its joined runs")
        must(decision.lane.last_end == ends[turn.id].state, "R5: last_end is not set")
    else:
        must(decision.lane.last_end == before.last_end, "R5: last_end changes although no turn ended")


def _right_end(before: Lane, command: Command, run: LaneRun) -> tuple[str, str] | None:
    """How this command may end this run; `None` if it may not."""
    turn = turn_of(before)
    in_turn = run.state in ("active", "stopping", "joined")
    match command:
        case CancelSession(reason) if not in_turn:
            return "cancelled", reason
        case CancelRun(run_id, reason) if not in_turn and run_id == run.id:
            return "cancelled", reason
        case Delete() if not in_turn:
            return "cancelled", "session_deleted"
        case End() | Boundary() | Recover() if turn is not None and isinstance(turn.phase, StoppingPhase) and in_turn:
            return _ENDS_BY[turn.phase.reason]
        case Recover() if in_turn:
            return "interrupted", "server_crash"
        case End(_, Outcome(state, reason)) | Boundary(_, Outcome(state, reason)) if in_turn:
            return state, reason
        case _:
            return None


def _check_order(before: Lane, command: Command, decision: Decision[Any]) -> None:
    """Check the order: requeued steers are at the head, new runs at the end, and only a moved run changes its place."""
    changes, after = decision.changes, decision.lane
    waiting = [run.id for run in runs_in(before, "waiting")]
    requeued = [change.run_id for change in changes if isinstance(change, SteerRequeued)]
    must(requeued in ([], waiting), "R6: not all steers are requeued, or not in order")
    order = [run.id for run in queue_of(before)]
    if isinstance(command, Move):
        order.remove(command.run_id)
        order.insert(command.position - 1, command.run_id)
    accepted = [change.run for change in changes if isinstance(change, RunAdded)]
    order = requeued + order + [run.id for run in accepted if run.state == "queued"]
    ended = {change.run_id for change in changes if isinstance(change, RunEnded)}
    order = [run_id for run_id in order if run_id not in ended]
    started = [change.run_id for change in changes if isinstance(change, TurnStarted)]
    if started:
        must(started == order[:1], f"R5: {started} started, not {order[:1]}")
        must(after.lifecycle == "open", "a run starts in a lane that is not open")
        must(after.hold is None, "R5: a run starts in a paused lane")
    must(order[len(started) :] == [run.id for run in queue_of(after)], "R5: the queue has the wrong order")


def right_cover(before: Lane, command: Command) -> tuple[LaneRun, ...]:
    """The runs that a command covers, from what was accepted before it."""
    match command:
        case CancelSession() | Delete():
            return before.runs
        case CancelActive():
            return runs_in(before, "active", "stopping", "joined")
        case CancelRun(run_id):
            turn = turn_of(before)
            if turn is not None and run_id == turn.id:
                return runs_in(before, "active", "stopping", "joined")
            return tuple(run for run in before.runs if run.id == run_id)
        case _:
            return ()


def _check_cover(before: Lane, command: Command, decision: Decision[Any], *, covered_before: frozenset[str]) -> None:
    """Check that covered runs end or stop, and that other runs are not affected."""
    after, ids = decision.lane, {run.id for run in right_cover(before, command)}
    still = {run.id: run for run in after.runs}
    for change in decision.changes:
        if isinstance(change, TurnStarted | SteerJoined | SteerRequeued):
            must(change.run_id not in covered_before | ids, f"C1: a covered run continues: {change}")
        if isinstance(change, TurnStopping):
            must(change.run_id in ids or isinstance(command, ServerStop), "C1: a run stops that no command stopped")
    for run in before.runs:
        if run.id in ids and run.state in ("queued", "waiting"):
            must(run.id not in still, "C1: a covered run that has not started does not end at once")
        if isinstance(command, CancelSession | CancelActive | CancelRun) and run.id not in ids:
            must(run.id in still, "C1: a cancel ends a run that it does not cover")
        if isinstance(run.phase, StoppingPhase) and run.id in still:
            must(still[run.id].phase == run.phase, "C1: a stopping run gets another reason, or continues")
    everything = isinstance(command, CancelSession | Delete) and bool(before.runs)
    must(after.mark == (before.next_seq - 1 if everything else before.mark), "C1: the mark is wrong")


def _check_effect(before: Lane, command: Command, decision: Decision[Any]) -> None:
    """Check the answer and the effect of each command."""
    after, answer, turn = decision.lane, decision.answer, turn_of(before)
    match command:
        case Accept():
            _check_accept(before, command, decision)
        case Boundary():
            _check_boundary(before, command, decision)
        case End(run_id):
            must(answer == Ended() and run_id not in [run.id for run in after.runs], "R7: the ended run is in the lane")
        case CancelSession() | CancelActive() | CancelRun() | Delete():
            must(isinstance(answer, Covered), "C3: no receipt")
            must(set(answer.runs) == set(right_cover(before, command)), "C3: the receipt lists the wrong runs")
            if isinstance(command, CancelSession):
                must(after.hold is None, "R5: a cancelled session stays paused")
            elif before.hold == "user" and not isinstance(command, Delete):
                must(after.hold == "user", "R5: a cancel of one run ends the user's pause")
        case Pause():
            must(after.paused == "user" and after == replace(before, hold="user"), "a pause changes more than the hold")
        case Resume():
            must(after.paused is None, "R5: resume leaves the lane paused")
            must(turn is not None or turn_of(after) is not None or not before.runs, "R5: resume starts nothing")
        case ServerStop():
            must(not queue_of(after) or after.paused is not None, "W5: a queue is not paused after a stop")
            must(before.hold != "user" or after.hold == "user", "W5: a server stop ends the user's pause")
            must(after.lifecycle != "open", "W5: a lane is open while the server stops")
        case Recover():
            must(not runs_in(after, "active", "stopping", "waiting", "joined"), "W6: a run of the crash is left")
            must(after.hold == before.hold or not after.runs, "W6: a crash pauses or resumes a queue")
        case Open():
            must(after.lifecycle != "closed", "W6: an open command leaves the lane closed")
        case Edit():
            must(after == before and decision.changes == (RunEdited(command.run_id),), "an edit changes the lane")
        case Move():
            must(answer == Done(), "a move has the wrong answer")


def _check_accept(before: Lane, command: Accept, decision: Decision[Any]) -> None:
    after, answer = decision.lane, decision.answer
    if command.run_id in [run.id for run in before.runs]:
        must(answer == Repeated(command.run_id), "R3: a repeated run has the wrong answer")
        must(after == before and not decision.changes, "R3: a repeated run changes the lane")
        return
    must(answer == _right_answer(before, command), f"R2: the answer is {answer}")
    run = after.runs[-1]
    must((run.id, run.seq) == (command.run_id, before.next_seq), "C1: an accepted run has the wrong id or seq")
    state_of_answer: dict[Any, str] = {Started: "active", QueuedAt: "queued", Steered: "waiting"}
    must(run.state == state_of_answer[type(answer)], "R2: the answer differs from the state")


def _right_answer(before: Lane, command: Accept) -> object:
    turn, queue = turn_of(before), queue_of(before)
    if turn is None:
        last_was_good = before.last_end in (None, "completed")
        free = before.hold is None and not queue and (command.after == "any" or last_was_good)
        return Started() if free else QueuedAt(len(queue) + 1)
    same = in_effect(turn.settings) == in_effect(command.settings)
    fits = turn.state == "active" and turn.kind == command.kind == "prompt" and same
    return Steered(turn.id) if command.delivery == "steer" and fits else QueuedAt(len(queue) + 1)


def _check_boundary(before: Lane, command: Boundary, decision: Decision[Any]) -> None:
    turn = turn_of(before)
    waiting = tuple(run.id for run in runs_in(before, "waiting"))
    if turn is not None and isinstance(turn.phase, StoppingPhase):
        right: object = StopNow(turn.phase.reason)
        must(decision.lane == before, "a boundary of a stopping run changes the lane")
    elif waiting or command.proposed is None:
        right = GoOn(waiting)
    else:
        right = Ended()
    must(decision.answer == right, f"R6: the boundary's answer is {decision.answer}, not {right}")
    joined = tuple(change.run_id for change in decision.changes if isinstance(change, SteerJoined))
    must(joined == (waiting if isinstance(right, GoOn) else ()), "R6: not all waiting steers join, or not in order")


def right_refusal(lane: Lane, command: Command) -> tuple[type[HoldfastError], str] | None:
    """The error that this command must get in this lane."""
    states = {run.id: run.state for run in lane.runs}
    match command:
        case Accept():
            return None if command.run_id in states else _WHEN_NOT_OPEN[lane.lifecycle]
        case Pause() | Resume():
            return _WHEN_NOT_OPEN[lane.lifecycle]
        case Edit(run_id) | Move(run_id) if states.get(run_id) != "queued":
            return Conflict, "not_queued"
        case Move(_, position) if position < 1:
            return BadRequest, "invalid_request"
        case Boundary(run_id) | End(run_id) if states.get(run_id) not in ("active", "stopping"):
            return Conflict, "not_active"
        case CancelRun(run_id) if states.get(run_id) == "joined":
            return Conflict, "run_joined"
        case Delete() if lane.lifecycle == "deleted":
            return Gone, "session_deleted"
        case _:
            return None


def _row(run: LaneRun) -> Run:
    """The row of a run."""
    return Run(
        id=run.id,
        session_id="s",
        seq=run.seq,
        rank=run.rank,
        kind=run.kind,
        delivery=run.delivery,
        after=run.after,
        model=run.settings.model,
        state=run.state,
        host_run_id=run.host,
        reason=run.stop_reason,
    )


def _write(rows: dict[str, Run], change: Change) -> None:
    """Write one change to the rows, using nothing but the change."""
    match change:
        case RunAdded(run):
            must(run.id not in rows, "R7: a run is accepted twice")
            rows[run.id] = _row(run)
        case TurnStarted(run_id):
            must(rows[run_id].state == "queued", "a run that is not queued starts")
            rows[run_id] = replace(rows[run_id], state="active")
        case SteerJoined(run_id, host):
            must(rows[run_id].state == "waiting", "R6: a run that did not wait joins")
            rows[run_id] = replace(rows[run_id], state="joined", host_run_id=host)
        case SteerRequeued(run_id, rank):
            must(rows[run_id].state == "waiting", "R6: a run that did not wait is requeued")
            rows[run_id] = replace(rows[run_id], state="queued", rank=rank, host_run_id=None)
        case RunMoved(run_id, rank):
            must(rows[run_id].state == "queued", "a run that is not queued is moved")
            rows[run_id] = replace(rows[run_id], rank=rank)
        case TurnStopping(run_id, reason):
            must(rows[run_id].state == "active", "a run that is not active stops")
            rows[run_id] = replace(rows[run_id], state="stopping", reason=reason)
        case RunEnded(run_id):
            must(run_id in rows, "R7: an unknown run ends, or a run ends twice")
            del rows[run_id]
        case RunEdited() | QueueViewChanged() | DeletionCompleted():
            pass
