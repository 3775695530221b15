"""What is said to a lane and what it says: commands, changes, answers."""

from __future__ import annotations

from typing import Generic, Literal, TypeAlias, TypeVar

from holdfast.runs.lane_state import Lane, LaneRun, StopWhy
from holdfast.schema.base import Word
from holdfast.schema.runs import After, Delivery, EndReason, EndState, LiveState, Outcome, RunKind, RunSettings

CancelWhy = Literal["user_cancel", "parent_ended"]


class Accept(Word, frozen=True, kw_only=True):
    """A new run. ``compact``, ``shell``, ``undo`` and ``redo`` are runs of their kind, with a turn of their own."""

    run_id: str
    kind: RunKind = "prompt"
    delivery: Delivery = "queue"
    after: After = "any"
    settings: RunSettings = RunSettings()


class Edit(Word, frozen=True):
    """The text of a queued run changes; the lane only says whether it still may."""

    run_id: str


class Move(Word, frozen=True):
    run_id: str
    position: int
    """1 is the next to start; more than there are means last."""


class Remove(Word, frozen=True):
    run_id: str


class Boundary(Word, frozen=True):
    """A step is done and another one is allowed. (A limit that forbids it is an `End`.)"""

    run_id: str
    proposed: Outcome | None = None
    """How the turn would end if nothing joins; ``None`` when tool results make it go on anyway."""


class End(Word, frozen=True):
    """The turn is over: everything of it is dead and closed."""

    run_id: str
    outcome: Outcome


class CancelSession(Word, frozen=True):
    """Everything accepted until now."""

    why: CancelWhy = "user_cancel"


class CancelActive(Word, frozen=True):
    """The active run and what joined it; the rest goes on."""

    why: CancelWhy = "user_cancel"


class CancelRun(Word, frozen=True):
    run_id: str
    why: CancelWhy = "user_cancel"


class Pause(Word, frozen=True):
    """The next run does not start; the active one is not touched."""


class Resume(Word, frozen=True):
    """Ends any pause: the next run starts, whatever it asked of its predecessor."""


class Delete(Word, frozen=True):
    """Ends everything, then the session."""


class ServerStop(Word, frozen=True):
    """A deliberate stop: the active run is interrupted, the queue is kept and held."""


class Recover(Word, frozen=True):
    """The first command after a restart: ends what the last server left with a turn. Starts nothing yet."""


class Open(Word, frozen=True):
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


class RunAccepted(Word, frozen=True):
    run: LaneRun
    """As first decided: queued or waiting."""


class RunStarted(Word, frozen=True):
    """After the commit: start its turn."""

    run_id: str


class RunJoined(Word, frozen=True):
    run_id: str
    host: str


class RunFellBack(Word, frozen=True):
    """A waiting steer that cannot join any more: queued, with a rank at the queue's head."""

    run_id: str
    rank: int


class RunMoved(Word, frozen=True):
    run_id: str
    rank: int


class RunEdited(Word, frozen=True):
    run_id: str


class RunStopping(Word, frozen=True):
    """After the commit: stop its turn."""

    run_id: str
    why: StopWhy


class RunFinished(Word, frozen=True):
    """The one end of a run; it is no longer in the lane."""

    run_id: str
    was: LiveState
    """``queued`` and ``waiting`` mean that it never reached a model."""
    state: EndState
    reason: EndReason
    host: str | None = None
    """Of a joined run: the run whose end this is."""


class QueueChanged(Word, frozen=True):
    """What `Lane.view` shows of the queue is different now: order, waiting steers, or the pause."""


class SessionDeleted(Word, frozen=True):
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


class Started(Word, frozen=True):
    pass


class QueuedAt(Word, frozen=True):
    position: int


class Steered(Word, frozen=True):
    host: str


class Repeated(Word, frozen=True):
    """The run is already in the lane; nothing was changed. Answer with its first decision (`R3`)."""

    run_id: str


class Covered(Word, frozen=True):
    """What a cancel or deletion applies to, with what each run was before it; the receipt waits for their ends."""

    mark: int
    runs: tuple[LaneRun, ...] = ()


class GoOn(Word, frozen=True):
    """Take another step, with these runs' prompts in this order."""

    joined: tuple[str, ...] = ()


class Ended(Word, frozen=True):
    """The run's end is this decision."""


class StopNow(Word, frozen=True):
    """The run is stopping: clean up, then report an `End`; its outcome will be the reason's, not the turn's."""

    why: StopWhy


class Done(Word, frozen=True):
    pass


AcceptAnswer: TypeAlias = Started | QueuedAt | Steered | Repeated
BoundaryAnswer: TypeAlias = GoOn | Ended | StopNow
Answer: TypeAlias = AcceptAnswer | BoundaryAnswer | Covered | Done

A = TypeVar("A", bound=Answer)


class Decision(Word, Generic[A], frozen=True):
    """A new lane, what to write and tell in the one commit that makes it true, and the caller's answer."""

    lane: Lane
    changes: tuple[Change, ...]
    """What happened to runs and queue, in the order in which it is told. The lane's own fields (``next_seq``, ``mark``,
    ``hold``, ``last_end``, ``lifecycle``) are written as they stand in ``lane``; no changes and an equal lane mean that
    there is nothing to commit."""
    answer: A
