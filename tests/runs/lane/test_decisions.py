"""Decisions of the lane, case by case. `test_decisions_exhaustively.py` explores all states."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.errors import BadRequest, Conflict, Gone, ServerStopping
from holdfast.runs.lane.decisions import decide
from holdfast.runs.lane.protocol import (
    Accept,
    Boundary,
    CancelActive,
    CancelRun,
    CancelSession,
    Change,
    Command,
    Covered,
    Delete,
    DeletionCompleted,
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
from holdfast.runs.lane.state import Lane
from holdfast.schema.runs import Ended, GoOn, Limits, Outcome, Queue, RunKind, RunSettings, StopNow

COMPLETED = Outcome("completed", "end_turn")
FAILED = Outcome("failed", "provider")
LIMIT = Outcome("failed", "limit_steps")


class CommittedLane:
    """A lane whose decisions are all committed, with their changes."""

    def __init__(self) -> None:
        self.lane = Lane()
        self.changes: list[Change] = []

    def send(self, command: Command) -> Any:
        decision = decide(self.lane, command)
        self.lane = decision.lane
        self.changes += decision.changes
        return decision.answer

    def queue(self, *run_ids: str, **more: Any) -> Any:
        return [self.send(Accept(run_id=run_id, **more)) for run_id in run_ids][-1]

    def steer(self, *run_ids: str, **more: Any) -> Any:
        return self.queue(*run_ids, delivery="steer", **more)

    def end(self, run_id: str, outcome: Outcome = COMPLETED) -> Any:
        return self.send(End(run_id, outcome))

    @property
    def started(self) -> list[str]:
        return [change.run_id for change in self.changes if isinstance(change, TurnStarted)]

    @property
    def joined(self) -> list[str]:
        return [change.run_id for change in self.changes if isinstance(change, SteerJoined)]

    @property
    def ends(self) -> dict[str, str]:
        finished = [change for change in self.changes if isinstance(change, RunEnded)]
        assert len(finished) == len({change.run_id for change in finished}), "a run has ended twice"
        return {change.run_id: f"{change.state} {change.reason}" for change in finished}

    @property
    def states(self) -> dict[str, str]:
        return {run.id: run.state for run in self.lane.runs}

    @property
    def order(self) -> list[str]:
        return [run.id for run in self.lane.queue]


def covered(answer: Covered) -> dict[str, str]:
    return {run.id: run.state for run in answer.runs}


@pytest.fixture
def session() -> CommittedLane:
    return CommittedLane()


@pytest.mark.promise("R2")
def test_the_first_run_starts_in_the_decision_that_accepts_it(session: CommittedLane) -> None:
    assert session.queue("a") == Started()
    assert session.states == {"a": "active"}
    assert session.queue("b") == QueuedAt(1)
    assert session.queue("c") == QueuedAt(2)
    assert session.steer("d") == Steered("a")


@pytest.mark.promise("C2")
def test_a_cancel_of_an_idle_session_does_not_affect_the_next_prompt(session: CommittedLane) -> None:
    assert session.send(CancelSession()) == Covered(0)
    assert session.lane == Lane()
    assert session.queue("a") == Started()


@pytest.mark.promise("C2")
@pytest.mark.parametrize("cancel", [CancelSession(), CancelActive(), CancelRun("a")])
def test_a_cancel_after_everything_has_ended_has_no_effect(session: CommittedLane, cancel: Command) -> None:
    session.queue("a")
    session.end("a")
    before, changes = session.lane, list(session.changes)
    assert covered(session.send(cancel)) == {}
    assert (session.lane, session.changes) == (before, changes)
    assert session.queue("b") == Started()


@pytest.mark.promise("C1")
def test_a_cancel_right_after_acceptance_cancels_the_run(session: CommittedLane) -> None:
    session.queue("a")
    assert covered(session.send(CancelSession())) == {"a": "active"}
    assert session.send(Boundary("a")) == StopNow("user_cancel")
    session.end("a", COMPLETED)
    assert session.ends == {"a": "cancelled user_cancel"}


@pytest.mark.promise("C1")
def test_a_cancel_ends_a_run_of_a_paused_lane(session: CommittedLane) -> None:
    session.send(Pause())
    assert session.queue("a") == QueuedAt(1)
    assert covered(session.send(CancelSession())) == {"a": "queued"}
    assert session.ends == {"a": "cancelled user_cancel"}
    assert session.started == []


@pytest.mark.promise("C1", "R7")
def test_one_cancel_covers_an_active_and_a_queued_run(session: CommittedLane) -> None:
    session.queue("a", "b")
    assert session.send(CancelSession()).mark == 2
    assert session.ends == {"b": "cancelled user_cancel"}
    assert session.states == {"a": "stopping"}
    session.end("a")
    assert session.ends == {"b": "cancelled user_cancel", "a": "cancelled user_cancel"}
    assert session.started == ["a"]


@pytest.mark.promise("C1", "R5")
def test_a_run_accepted_after_a_cancel_runs_although_the_cancelled_ones_are_still_stopping(
    session: CommittedLane,
) -> None:
    session.queue("a", "b")
    session.send(CancelSession())
    assert session.queue("c") == QueuedAt(1)
    assert session.started == ["a"]
    session.end("a")
    assert session.started == ["a", "c"]
    session.end("c")
    assert session.ends["c"] == "completed end_turn"


@pytest.mark.promise("C1")
@pytest.mark.parametrize("delivery", ["queue", "steer"])
def test_a_cancel_covers_a_follow_up_only_if_the_follow_up_was_accepted_first(delivery: str) -> None:
    accept, cancel = Accept(run_id="b", delivery=delivery), CancelSession()  # type: ignore[arg-type]

    follow_up_first = CommittedLane()
    follow_up_first.queue("a")
    follow_up_first.send(accept)
    follow_up_first.send(cancel)
    follow_up_first.end("a")
    assert follow_up_first.ends == {"b": "cancelled user_cancel", "a": "cancelled user_cancel"}
    assert follow_up_first.started == ["a"]

    cancel_first = CommittedLane()
    cancel_first.queue("a")
    cancel_first.send(cancel)
    assert cancel_first.send(accept) == QueuedAt(1)
    cancel_first.end("a")
    cancel_first.end("b")
    assert cancel_first.ends == {"a": "cancelled user_cancel", "b": "completed end_turn"}


@pytest.mark.promise("R5", "R7")
def test_a_queued_run_has_its_own_start_and_end(session: CommittedLane) -> None:
    session.queue("a", "b")
    session.end("a", FAILED)
    assert session.changes[-3:] == [
        RunEnded("a", "active", "failed", "provider"),
        TurnStarted("b"),
        QueueViewChanged(),
    ]
    session.end("b")
    assert session.ends == {"a": "failed provider", "b": "completed end_turn"}


@pytest.mark.promise("R6", "C1", "C4")
def test_steers_join_at_a_boundary_without_queued_and_cancelled_runs(session: CommittedLane) -> None:
    session.queue("host")
    session.steer("covered")
    session.queue("own turn")
    session.steer("first")
    session.send(CancelRun("covered"))
    session.steer("second")
    assert session.send(Boundary("host")) == GoOn(("first", "second"))
    assert session.ends == {"covered": "cancelled user_cancel"}
    assert session.order == ["own turn"]


@pytest.mark.promise("R6", "C1")
def test_no_steer_joins_a_cancelled_turn(session: CommittedLane) -> None:
    session.queue("host")
    session.steer("before")
    session.send(CancelSession())
    session.steer("after")
    assert session.send(Boundary("host", COMPLETED)) == StopNow("user_cancel")
    session.end("host")
    assert session.ends == {"before": "cancelled user_cancel", "host": "cancelled user_cancel"}
    assert (session.joined, session.started) == ([], ["host", "after"])


@pytest.mark.promise("R6")
def test_all_waiting_steers_join_at_one_boundary_in_seq_order(session: CommittedLane) -> None:
    session.queue("host")
    session.steer("b", "c", "d")
    assert session.send(Boundary("host")) == GoOn(("b", "c", "d"))
    assert session.joined == ["b", "c", "d"]
    assert session.states == {"host": "active", "b": "joined", "c": "joined", "d": "joined"}


@pytest.mark.promise("R6")
def test_a_steer_that_arrives_at_the_last_step_joins_the_turn(session: CommittedLane) -> None:
    session.queue("host")
    session.steer("late")
    assert session.send(Boundary("host", COMPLETED)) == GoOn(("late",))
    assert session.send(Boundary("host", COMPLETED)) == Ended()
    assert session.started == ["host"]
    assert session.ends == {"host": "completed end_turn", "late": "completed end_turn"}


@pytest.mark.promise("R6")
def test_a_steer_that_arrives_after_the_turn_has_ended_starts(session: CommittedLane) -> None:
    session.queue("a")
    assert session.send(Boundary("a", COMPLETED)) == Ended()
    assert session.steer("late") == Started()


@pytest.mark.promise("R6")
def test_a_steer_for_a_stopping_run_is_queued_and_runs(session: CommittedLane) -> None:
    session.queue("host")
    session.send(CancelActive())
    assert session.steer("b") == QueuedAt(1)
    session.end("host")
    assert session.started == ["host", "b"]


@pytest.mark.promise("R6")
@pytest.mark.parametrize(
    "other",
    [
        RunSettings(model="p/other"),
        RunSettings(mode="plan"),
        RunSettings(interactive=False),
        RunSettings(limits=Limits(max_steps=3)),
    ],
)
def test_a_steer_with_other_settings_is_queued(session: CommittedLane, other: RunSettings) -> None:
    session.queue("host")
    assert session.steer("b", settings=other) == QueuedAt(1)
    session.end("host")
    assert session.steer("c", settings=other) == Steered("b")


@pytest.mark.promise("R4", "R6")
@pytest.mark.parametrize("kind", ["compact", "shell", "undo", "redo"])
def test_a_run_that_is_not_a_prompt_has_its_own_turn(session: CommittedLane, kind: RunKind) -> None:
    session.queue("a")
    assert session.steer("own", kind=kind) == QueuedAt(1)
    session.end("a")
    assert session.started == ["a", "own"]
    assert session.steer("b") == QueuedAt(1)
    session.end("own")
    assert session.started == ["a", "own", "b"]


@pytest.mark.promise("R6")
def test_waiting_steers_move_to_the_head_of_the_queue_if_a_limit_ends_the_turn(session: CommittedLane) -> None:
    session.queue("host", "queued")
    session.steer("b", "c")
    session.end("host", LIMIT)
    assert session.ends == {"host": "failed limit_steps"}
    assert (session.started, session.order) == (["host", "b"], ["c", "queued"])
    session.end("b")
    session.end("c")
    assert session.started == ["host", "b", "c", "queued"]


@pytest.mark.promise("R5", "R7")
def test_the_queue_continues_after_a_failed_run(session: CommittedLane) -> None:
    session.queue("a", "b", "c")
    session.end("a", FAILED)
    session.end("b", FAILED)
    session.end("c")
    assert session.started == ["a", "b", "c"]
    assert session.ends == {"a": "failed provider", "b": "failed provider", "c": "completed end_turn"}


@pytest.mark.promise("R5")
def test_after_success_starts_when_its_predecessor_completed(session: CommittedLane) -> None:
    assert session.queue("a", after="success") == Started()
    session.queue("b", after="success")
    session.end("a")
    assert session.started == ["a", "b"]


@pytest.mark.promise("R5")
def test_after_success_pauses_the_lane_when_its_predecessor_did_not_complete(session: CommittedLane) -> None:
    session.queue("a")
    session.queue("b", after="success")
    session.queue("c")
    session.end("a", FAILED)
    assert session.lane.paused == "predecessor"
    assert (session.started, session.order) == (["a"], ["b", "c"])
    session.send(Resume())
    assert session.lane.paused is None
    assert session.started == ["a", "b"]


@pytest.mark.promise("R5")
@pytest.mark.parametrize("command", [CancelRun("b"), Move("c", 1)])
def test_a_predecessor_pause_ends_when_another_run_is_next(command: Command) -> None:
    session = CommittedLane()
    session.queue("a")
    session.queue("b", after="success")
    session.queue("c")
    session.end("a", FAILED)
    session.send(command)
    assert session.lane.paused is None
    assert session.started == ["a", "c"]


@pytest.mark.promise("R5", "C1")
def test_a_cancel_of_the_session_ends_any_pause(session: CommittedLane) -> None:
    session.queue("a")
    session.send(Pause())
    session.send(CancelSession())
    assert session.lane.paused is None
    session.queue("b")
    session.end("a")
    assert session.started == ["a", "b"]


@pytest.mark.promise("R5", "C4")
@pytest.mark.parametrize("cancel", [CancelActive(), CancelRun("a"), CancelRun("b")])
def test_a_cancel_of_one_run_keeps_the_users_pause(cancel: Command) -> None:
    session = CommittedLane()
    session.queue("a", "b", "c")
    session.send(Pause())
    session.send(cancel)
    session.end("a")
    assert session.lane.paused == "user"
    assert session.started == ["a"]


@pytest.mark.promise("R5")
def test_a_pause_does_not_affect_the_active_run_and_its_steers(session: CommittedLane) -> None:
    session.queue("a", "b")
    session.send(Pause())
    assert session.steer("c") == Steered("a")
    assert session.send(Boundary("a")) == GoOn(("c",))
    session.end("a")
    assert session.started == ["a"]
    session.send(Resume())
    assert session.started == ["a", "b"]


@pytest.mark.promise("C4", "R6")
def test_a_cancel_of_the_active_run_keeps_queued_runs_and_waiting_steers(session: CommittedLane) -> None:
    session.queue("host")
    session.steer("joined")
    session.send(Boundary("host"))
    session.queue("queued")
    session.steer("b", "c")
    assert covered(session.send(CancelActive())) == {"host": "active", "joined": "joined"}
    assert session.order == ["b", "c", "queued"]
    session.end("host")
    assert session.ends == {"host": "cancelled user_cancel", "joined": "cancelled user_cancel"}
    assert session.started == ["host", "b"]


@pytest.mark.promise("C4")
def test_a_cancel_of_a_joined_run_is_refused_and_names_the_host(session: CommittedLane) -> None:
    session.queue("host")
    session.steer("b")
    session.send(Boundary("host"))
    with pytest.raises(Conflict, match="'host'") as refusal:
        session.send(CancelRun("b"))
    assert refusal.value.error_code == "run_joined"
    assert refusal.value.detail == {"run_id": "b", "host_run_id": "host"}


@pytest.mark.promise("R7")
def test_a_joined_run_ends_in_the_decision_of_its_host_with_its_state_and_id(session: CommittedLane) -> None:
    session.queue("host")
    session.steer("b")
    session.send(Boundary("host"))
    session.end("host", FAILED)
    assert session.changes[-2:] == [
        RunEnded("host", "active", "failed", "provider"),
        RunEnded("b", "joined", "failed", "provider", "host"),
    ]


@pytest.mark.promise("C3")
def test_a_second_cancel_changes_nothing_and_lists_the_runs_that_are_still_stopping(session: CommittedLane) -> None:
    session.queue("a", "b")
    session.send(CancelSession())
    before, changes = session.lane, list(session.changes)
    assert covered(session.send(CancelSession())) == {"a": "stopping"}
    assert (session.lane, session.changes) == (before, changes)


@pytest.mark.promise("C3")
def test_a_cancel_of_a_finished_run_covers_nothing(session: CommittedLane) -> None:
    session.queue("a", "b")
    session.end("a")
    before = session.lane
    assert covered(session.send(CancelRun("a"))) == {}
    assert session.lane == before


@pytest.mark.promise("C1")
def test_a_sub_agent_run_is_cancelled_with_the_reason_parent_ended(session: CommittedLane) -> None:
    session.queue("child")
    session.send(CancelSession(reason="parent_ended"))
    session.end("child")
    assert session.ends == {"child": "cancelled parent_ended"}


@pytest.mark.promise("C1")
def test_a_stopping_run_ends_with_the_first_stop_reason(session: CommittedLane) -> None:
    session.queue("a")
    session.send(CancelSession())
    session.send(ServerStop())
    session.send(Delete())
    session.end("a", FAILED)
    assert session.ends == {"a": "cancelled user_cancel"}


@pytest.mark.promise("R4")
def test_a_delete_of_an_active_session_ends_its_runs_first(session: CommittedLane) -> None:
    session.queue("a", "b")
    session.steer("c")
    assert covered(session.send(Delete())) == {"a": "active", "b": "queued", "c": "waiting"}
    assert session.changes[-4:-1] == [
        RunEnded("b", "queued", "cancelled", "session_deleted"),
        RunEnded("c", "waiting", "cancelled", "session_deleted"),
        TurnStopping("a", "session_deleted"),
    ]
    with pytest.raises(Gone):
        session.queue("d")
    session.end("a")
    assert session.changes[-2:] == [
        RunEnded("a", "stopping", "cancelled", "session_deleted"),
        DeletionCompleted(),
    ]
    with pytest.raises(Gone):
        session.send(Delete())


@pytest.mark.promise("R4")
def test_a_delete_of_an_idle_session_is_completed_at_once(session: CommittedLane) -> None:
    session.send(Delete())
    assert session.changes == [DeletionCompleted()]
    assert session.lane.lifecycle == "deleted"


@pytest.mark.promise("R4")
def test_recovery_completes_a_delete_that_a_crash_interrupted(session: CommittedLane) -> None:
    session.queue("a")
    session.send(Delete())
    session.send(Recover())
    assert session.ends == {"a": "cancelled session_deleted"}
    assert session.changes[-1] == DeletionCompleted()


@pytest.mark.promise("W5")
def test_a_server_stop_interrupts_the_active_run_and_pauses_the_queue(session: CommittedLane) -> None:
    session.queue("active", "queued")
    session.steer("waiting")
    session.send(ServerStop())
    assert session.states == {"active": "stopping", "queued": "queued", "waiting": "queued"}
    with pytest.raises(ServerStopping):
        session.queue("late")
    session.end("active")
    assert session.ends == {"active": "interrupted server_stop"}
    assert (session.order, session.lane.paused) == (["waiting", "queued"], "server_stop")

    session.send(Recover())
    session.send(Open())
    assert (session.started, session.lane.paused) == (["active"], "server_stop")
    assert session.queue("new") == QueuedAt(3)
    session.send(Resume())
    assert session.started == ["active", "waiting"]


@pytest.mark.promise("W5")
def test_a_server_stop_with_an_empty_queue_does_not_pause_the_lane(session: CommittedLane) -> None:
    session.queue("a")
    session.send(ServerStop())
    session.end("a")
    session.send(Recover())
    session.send(Open())
    assert session.queue("b") == Started()


@pytest.mark.promise("W5")
def test_a_pause_by_a_server_stop_ends_when_the_queue_is_empty(session: CommittedLane) -> None:
    session.queue("a", "b")
    session.send(ServerStop())
    session.end("a")
    session.send(Recover())
    session.send(Open())
    session.send(CancelRun("b"))
    assert session.lane.paused is None
    assert session.queue("c") == Started()


@pytest.mark.promise("W5")
def test_a_server_stop_keeps_the_users_pause(session: CommittedLane) -> None:
    session.send(Pause())
    session.send(ServerStop())
    session.send(Recover())
    session.send(Open())
    assert session.lane.paused == "user"


@pytest.mark.promise("W6", "R6", "R7")
def test_after_a_crash_the_turn_is_interrupted_and_the_queue_starts_when_the_workspace_opens(
    session: CommittedLane,
) -> None:
    session.queue("host")
    session.steer("joined")
    session.send(Boundary("host"))
    session.queue("queued")
    session.steer("waiting")
    session.send(Recover())
    assert session.ends == {"host": "interrupted server_crash", "joined": "interrupted server_crash"}
    assert (session.started, session.order) == (["host"], ["waiting", "queued"])
    session.send(Open())
    assert session.started == ["host", "waiting"]


@pytest.mark.promise("W6", "C1")
def test_after_a_crash_a_stopping_run_ends_cancelled_and_nothing_covered_starts(session: CommittedLane) -> None:
    session.queue("a", "b")
    session.send(CancelSession())
    session.queue("c")
    session.send(Recover())
    session.send(Open())
    assert session.ends == {"a": "cancelled user_cancel", "b": "cancelled user_cancel"}
    assert session.started == ["a", "c"]


@pytest.mark.promise("W6", "R5")
def test_a_crash_neither_starts_nor_ends_a_pause(session: CommittedLane) -> None:
    session.queue("a", "b")
    session.send(Pause())
    session.send(Recover())
    session.send(Open())
    assert session.lane.paused == "user"
    assert session.started == ["a"]


@pytest.mark.promise("C1", "R5")
def test_a_cancel_covers_a_moved_run(session: CommittedLane) -> None:
    session.queue("a", "b", "c", "d")
    session.send(Move("d", 1))
    assert session.order == ["d", "b", "c"]
    session.end("a")
    assert covered(session.send(CancelSession())) == {"b": "queued", "c": "queued", "d": "active"}
    session.queue("e")
    session.end("d")
    assert session.started == ["a", "d", "e"]


@pytest.mark.promise("R5")
def test_a_move_reassigns_the_existing_ranks(session: CommittedLane) -> None:
    session.queue("a", "b", "c", "d")
    session.send(Move("b", 99))
    assert session.order == ["c", "d", "b"]
    assert session.changes[-4:] == [RunMoved("c", 2), RunMoved("d", 3), RunMoved("b", 4), QueueViewChanged()]
    assert session.queue("e") == QueuedAt(4)


@pytest.mark.promise("R6")
def test_requeued_steers_come_before_a_run_that_was_moved_to_the_front(session: CommittedLane) -> None:
    session.queue("host", "b", "c")
    session.steer("d", "e")
    session.send(Move("c", 1))
    session.send(CancelActive())
    assert session.order == ["d", "e", "c", "b"]
    assert [change for change in session.changes if isinstance(change, SteerRequeued)] == [
        SteerRequeued("d", 0),
        SteerRequeued("e", 1),
    ]


def test_a_queued_run_can_be_edited(session: CommittedLane) -> None:
    session.queue("a", "b")
    session.send(Edit("b"))
    assert session.changes[-1] == RunEdited("b")


@pytest.mark.parametrize("command", [Edit, lambda run_id: Move(run_id, 1)])
@pytest.mark.parametrize("run_id", ["active", "waiting", "joined", "unknown"])
def test_only_a_queued_run_is_edited_or_moved(session: CommittedLane, command: Any, run_id: str) -> None:
    session.queue("active")
    session.steer("joined")
    session.send(Boundary("active"))
    session.steer("waiting")
    with pytest.raises(Conflict, match=repr(run_id)) as refusal:
        session.send(command(run_id))
    assert refusal.value.error_code == "not_queued"


def test_a_position_before_the_first_is_refused(session: CommittedLane) -> None:
    session.queue("a", "b")
    with pytest.raises(BadRequest, match="0"):
        session.send(Move("b", 0))


@pytest.mark.promise("R7")
def test_only_the_run_with_the_turn_can_end_and_only_once(session: CommittedLane) -> None:
    session.queue("a", "b")
    with pytest.raises(Conflict, match="'b' does not have the turn"):
        session.end("b")
    session.end("a")
    with pytest.raises(Conflict, match="'a' does not have the turn"):
        session.end("a", FAILED)
    assert session.ends == {"a": "completed end_turn"}


@pytest.mark.promise("R3")
@pytest.mark.parametrize("command", [CancelSession(), ServerStop(), Pause()])
def test_a_repeated_run_is_the_same_run_even_while_it_is_stopping(session: CommittedLane, command: Command) -> None:
    session.queue("a")
    session.send(command)
    before = session.lane
    assert session.queue("a") == Repeated("a")
    assert session.lane == before


@pytest.mark.promise("R14")
def test_a_refused_commit_leaves_the_lane_as_it_was(session: CommittedLane) -> None:
    session.queue("a", "b")
    before = session.lane
    first = decide(before, CancelSession())
    assert session.lane == before
    assert session.states == {"a": "active", "b": "queued"}
    assert decide(before, CancelSession()) == first


@pytest.mark.promise("R5")
def test_the_view_lists_the_queue_the_waiting_steers_and_the_pause(session: CommittedLane) -> None:
    session.queue("a", "b", "c")
    session.steer("d")
    session.send(Move("c", 1))
    session.send(Pause())
    assert session.lane.view("ses_1") == Queue(
        session_id="ses_1", run_ids=("c", "b"), waiting=("d",), active="a", paused="user"
    )
    assert (session.lane.position("b"), session.lane.position("a")) == (2, None)


def test_a_lane_has_only_unfinished_runs(session: CommittedLane) -> None:
    for number in range(50):
        session.queue(f"r{number}")
        session.end(f"r{number}")
    assert session.lane.runs == ()
    assert session.lane.next_seq == 51
