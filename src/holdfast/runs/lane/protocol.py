"""The commands that a lane takes, and the changes and answers of its decisions."""

from __future__ import annotations

from typing import Generic, Literal, TypeAlias, TypeVar

from holdfast.runs.lane.state import Lane, LaneRun, RunStopReason
from holdfast.schema.base import Value
from holdfast.schema.runs import (
    After,
    BoundaryAnswer,
    Delivery,
    EndReason,
    EndState,
    Outcome,
    RunKind,
    RunSettings,
    UnfinishedState,
)

CancelReason = Literal["user_cancel", "parent_ended"]


class Accept(Value, frozen=True, kw_only=True):
    """Add a run. `compact`, `shell`, `undo` and `redo` are runs with a turn of their own."""

    run_id: str
    kind: RunKind = "prompt"
    delivery: Delivery = "queue"
    after: After = "any"
    settings: RunSettings = RunSettings()
    same_settings_as: str | None = None
    """For a steer: the active run that works with these settings, though they were given differently to it."""
    parked: bool = False
    """Accept it although nothing can start here: the server that has the directory is away. It waits in the queue."""


class Edit(Value, frozen=True):
    """Change the text of a queued run. The lane only decides whether that is still possible."""

    run_id: str


class Move(Value, frozen=True):
    """Change the place of a queued run."""

    run_id: str
    position: int
    """1 is the next to start; a number larger than the queue means last."""


class Boundary(Value, frozen=True):
    """A step is done and another one is allowed. (If a limit forbids it, the turn ends with `End`.)"""

    run_id: str
    proposed: Outcome | None = None
    """How the turn ends if nothing joins; `None` if tool results require another step."""


class End(Value, frozen=True):
    """The turn is over: its processes are dead and its approvals are closed."""

    run_id: str
    outcome: Outcome


class CancelSession(Value, frozen=True):
    """Cancel everything accepted until now."""

    reason: CancelReason = "user_cancel"


class CancelActive(Value, frozen=True):
    """Cancel the active run and the runs that joined it; the others continue."""

    reason: CancelReason = "user_cancel"


class CancelRun(Value, frozen=True):
    run_id: str
    reason: CancelReason = "user_cancel"


class Pause(Value, frozen=True):
    """Keep the next run from starting; the active run continues."""


class Resume(Value, frozen=True):
    """End any pause: the next run starts, even if it waits for a success of its predecessor."""


class Delete(Value, frozen=True):
    """End all runs, then delete the session."""


class ServerStop(Value, frozen=True):
    """Interrupt the active run; keep the queue and pause it."""


class Recover(Value, frozen=True):
    """The first command after a crash: end the run that had the turn. Starts nothing."""


class Open(Value, frozen=True):
    """The workspace is open: runs may start."""


Command: TypeAlias = (
    Accept
    | Edit
    | Move
    | Boundary
    | End
    | CancelSession
    | CancelActive
    | CancelRun
    | Pause
    | Resume
    | Delete
    | ServerStop
    | Recover
    | Open
)


class RunAdded(Value, frozen=True):
    run: LaneRun
    """As first decided: queued or waiting."""


class TurnStarted(Value, frozen=True):
    """A run has the turn. The engine starts it after the commit."""

    run_id: str


class SteerJoined(Value, frozen=True):
    run_id: str
    host: str


class SteerRequeued(Value, frozen=True):
    """A waiting steer that cannot join any more is queued with a rank at the head of the queue."""

    run_id: str
    rank: int


class RunMoved(Value, frozen=True):
    run_id: str
    rank: int


class RunEdited(Value, frozen=True):
    run_id: str


class TurnStopping(Value, frozen=True):
    """The run with the turn must stop. The engine stops it after the commit."""

    run_id: str
    reason: RunStopReason


class RunEnded(Value, frozen=True):
    """The single end of a run. It is no longer in the lane."""

    run_id: str
    was: UnfinishedState
    """`queued` and `waiting` mean that the prompt never reached a model."""
    state: EndState
    reason: EndReason
    host: str | None = None
    """For a joined run: the host that ended."""


class QueueViewChanged(Value, frozen=True):
    """The order of the queue, the waiting steers or the pause, as `Lane.view` shows them, have changed."""


class DeletionCompleted(Value, frozen=True):
    """All runs of a session that is being deleted have ended. The session is deleted in the same commit."""


Change: TypeAlias = (
    RunAdded
    | TurnStarted
    | SteerJoined
    | SteerRequeued
    | RunMoved
    | RunEdited
    | TurnStopping
    | RunEnded
    | QueueViewChanged
    | DeletionCompleted
)


class Started(Value, frozen=True):
    pass


class QueuedAt(Value, frozen=True):
    position: int


class Steered(Value, frozen=True):
    host: str


class Repeated(Value, frozen=True):
    """The run is already in the lane; nothing changes. The caller gets the first answer again (`R3`)."""

    run_id: str


class Covered(Value, frozen=True):
    """The runs that a cancel or deletion covers, as they were before it. The receipt waits for their ends."""

    mark: int
    runs: tuple[LaneRun, ...] = ()


class Done(Value, frozen=True):
    pass


AcceptAnswer: TypeAlias = Started | QueuedAt | Steered | Repeated
LaneAnswer: TypeAlias = AcceptAnswer | BoundaryAnswer | Covered | Done

A = TypeVar("A")


class Decision(Value, Generic[A], frozen=True):
    """The new lane, the changes to commit, and the answer to the caller."""

    lane: Lane
    changes: tuple[Change, ...]
    """In the order in which they are published. The lane's own fields (`next_seq`, `mark`, `hold`, `last_end`,
    `lifecycle`) are written as they are in `lane`."""
    answer: A
