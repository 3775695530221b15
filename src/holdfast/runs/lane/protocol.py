"""What is said to a lane and what it says: commands, changes, answers."""

from __future__ import annotations

from typing import Generic, Literal, TypeAlias, TypeVar

from holdfast.runs.lane.state import Lane, LaneRun, StopWhy
from holdfast.schema.base import Value
from holdfast.schema.runs import After, Delivery, EndReason, EndState, Outcome, RunKind, RunSettings, UnfinishedState

CancelWhy = Literal["user_cancel", "parent_ended"]


class Accept(Value, frozen=True, kw_only=True):
    """A new run. ``compact``, ``shell``, ``undo`` and ``redo`` are runs of their kind, with a turn of their own."""

    run_id: str
    kind: RunKind = "prompt"
    delivery: Delivery = "queue"
    after: After = "any"
    settings: RunSettings = RunSettings()


class Edit(Value, frozen=True):
    """The text of a queued run changes; the lane only says whether it still may."""

    run_id: str


class Move(Value, frozen=True):
    run_id: str
    position: int
    """1 is the next to start; more than there are means last."""


class Remove(Value, frozen=True):
    run_id: str


class Boundary(Value, frozen=True):
    """A step is done and another one is allowed. (A limit that forbids it is an `End`.)"""

    run_id: str
    proposed: Outcome | None = None
    """How the turn would end if nothing joins; ``None`` when tool results make it go on anyway."""


class End(Value, frozen=True):
    """The turn is over: everything of it is dead and closed."""

    run_id: str
    outcome: Outcome


class CancelSession(Value, frozen=True):
    """Everything accepted until now."""

    why: CancelWhy = "user_cancel"


class CancelActive(Value, frozen=True):
    """The active run and what joined it; the rest goes on."""

    why: CancelWhy = "user_cancel"


class CancelRun(Value, frozen=True):
    run_id: str
    why: CancelWhy = "user_cancel"


class Pause(Value, frozen=True):
    """The next run does not start; the active one is not touched."""


class Resume(Value, frozen=True):
    """Ends any pause: the next run starts, whatever it asked of its predecessor."""


class Delete(Value, frozen=True):
    """Ends everything, then the session."""


class ServerStop(Value, frozen=True):
    """A deliberate stop: the active run is interrupted, the queue is kept and held."""


class Recover(Value, frozen=True):
    """The first command after a restart: ends what the last server left with a turn. Starts nothing yet."""


class Open(Value, frozen=True):
    """The workspace is open: runs may start."""


Command: TypeAlias = (
    Accept
    | Edit
    | Move
    | Remove
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


class RunAccepted(Value, frozen=True):
    run: LaneRun
    """As first decided: queued or waiting."""


class RunStarted(Value, frozen=True):
    """After the commit: start its turn."""

    run_id: str


class RunJoined(Value, frozen=True):
    run_id: str
    host: str


class RunFellBack(Value, frozen=True):
    """A waiting steer that cannot join any more: queued, with a rank at the queue's head."""

    run_id: str
    rank: int


class RunMoved(Value, frozen=True):
    run_id: str
    rank: int


class RunEdited(Value, frozen=True):
    run_id: str


class RunStopping(Value, frozen=True):
    """After the commit: stop its turn."""

    run_id: str
    why: StopWhy


class RunFinished(Value, frozen=True):
    """The one end of a run; it is no longer in the lane."""

    run_id: str
    was: UnfinishedState
    """``queued`` and ``waiting`` mean that it never reached a model."""
    state: EndState
    reason: EndReason
    host: str | None = None
    """Of a joined run: the run whose end this is."""


class QueueChanged(Value, frozen=True):
    """What `Lane.view` shows of the queue is different now: order, waiting steers, or the pause."""


class SessionDeleted(Value, frozen=True):
    """All its runs have ended: remove it in this very commit."""


Change: TypeAlias = (
    RunAccepted
    | RunStarted
    | RunJoined
    | RunFellBack
    | RunMoved
    | RunEdited
    | RunStopping
    | RunFinished
    | QueueChanged
    | SessionDeleted
)


class Started(Value, frozen=True):
    pass


class QueuedAt(Value, frozen=True):
    position: int


class Steered(Value, frozen=True):
    host: str


class Repeated(Value, frozen=True):
    """The run is already in the lane; nothing was changed. Answer with its first decision (`R3`)."""

    run_id: str


class Covered(Value, frozen=True):
    """What a cancel or deletion applies to, with what each run was before it; the receipt waits for their ends."""

    mark: int
    runs: tuple[LaneRun, ...] = ()


class GoOn(Value, frozen=True):
    """Take another step, with these runs' prompts in this order."""

    joined: tuple[str, ...] = ()


class Ended(Value, frozen=True):
    """The run's end is this decision."""


class StopNow(Value, frozen=True):
    """The run is stopping: clean up, then report an `End`; its outcome will be the reason's, not the turn's."""

    why: StopWhy


class Done(Value, frozen=True):
    pass


AcceptAnswer: TypeAlias = Started | QueuedAt | Steered | Repeated
BoundaryAnswer: TypeAlias = GoOn | Ended | StopNow
Answer: TypeAlias = AcceptAnswer | BoundaryAnswer | Covered | Done

A = TypeVar("A", bound=Answer)


class Decision(Value, Generic[A], frozen=True):
    """A new lane, what to write and tell in the one commit that makes it true, and the caller's answer."""

    lane: Lane
    changes: tuple[Change, ...]
    """What happened to runs and queue, in the order in which it is told. The lane's own fields (``next_seq``, ``mark``,
    ``hold``, ``last_end``, ``lifecycle``) are written as they stand in ``lane``; no changes and an equal lane mean that
    there is nothing to commit."""
    answer: A
