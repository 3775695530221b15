"""What a lane holds: the unfinished runs of one session, and what else decides about them."""

from __future__ import annotations

from typing import ClassVar, Literal, TypeAlias

from holdfast.errors import StoreDamaged
from holdfast.schema.base import Value
from holdfast.schema.runs import (
    After,
    Delivery,
    EndState,
    LaneHold,
    LaneLifecycle,
    PauseReason,
    Queue,
    Run,
    RunKind,
    RunSettings,
    UnfinishedState,
    settings_of,
)

StopWhy = Literal["user_cancel", "parent_ended", "session_deleted", "server_stop"]
"""Why a run must stop; it becomes the reason of its end."""


class Queued(Value, frozen=True):
    state: ClassVar[UnfinishedState] = "queued"


class Waiting(Value, frozen=True):
    """A steer that will join its host at the next step boundary. Its host is active, never stopping."""

    state: ClassVar[UnfinishedState] = "waiting"
    host: str


class Joined(Value, frozen=True):
    """A steer that is part of its host's turn, and ends with it."""

    state: ClassVar[UnfinishedState] = "joined"
    host: str


class Active(Value, frozen=True):
    state: ClassVar[UnfinishedState] = "active"


class Stopping(Value, frozen=True):
    """Its end is decided, by the first reason that came; only the turn's clean-up is awaited."""

    state: ClassVar[UnfinishedState] = "stopping"
    why: StopWhy


Phase: TypeAlias = Queued | Waiting | Joined | Active | Stopping


class LaneRun(Value, frozen=True, kw_only=True):
    """What the lane must know of an unfinished run."""

    id: str
    seq: int
    rank: int
    kind: RunKind = "prompt"
    delivery: Delivery = "queue"
    after: After = "any"
    settings: RunSettings = RunSettings()
    phase: Phase = Queued()

    @property
    def state(self) -> UnfinishedState:
        return self.phase.state

    @property
    def host(self) -> str | None:
        """The run whose turn it waits for or has joined (``host_run_id`` of its row)."""
        return self.phase.host if isinstance(self.phase, Waiting | Joined) else None

    @property
    def why(self) -> StopWhy | None:
        """Why it is stopping (``reason`` of its row, already before the end)."""
        return self.phase.why if isinstance(self.phase, Stopping) else None


class Lane(Value, frozen=True, kw_only=True):
    """A session's unfinished runs and what else decides about them. Its size never depends on the history."""

    runs: tuple[LaneRun, ...] = ()
    """In ``seq`` order."""
    next_seq: int = 1
    mark: int = 0
    """The highest ``seq`` that a cancel of the session or its deletion has covered."""
    hold: LaneHold | None = None
    last_end: EndState | None = None
    """How the run ended that had the turn last; ``after: "success"`` looks at it."""
    lifecycle: LaneLifecycle = "open"

    @property
    def active(self) -> LaneRun | None:
        """The one run that has the turn: active or stopping."""
        return next((run for run in self.runs if isinstance(run.phase, Active | Stopping)), None)

    @property
    def queue(self) -> tuple[LaneRun, ...]:
        """In start order."""
        return tuple(sorted((run for run in self.runs if isinstance(run.phase, Queued)), key=lambda run: run.rank))

    @property
    def waiting(self) -> tuple[LaneRun, ...]:
        return tuple(run for run in self.runs if isinstance(run.phase, Waiting))

    @property
    def joined(self) -> tuple[LaneRun, ...]:
        return tuple(run for run in self.runs if isinstance(run.phase, Joined))

    @property
    def paused(self) -> PauseReason | None:
        """Why the next run does not start, or will not start when the active one ends."""
        if self.hold is not None:
            return self.hold
        queue = self.queue
        blocked = bool(queue) and queue[0].after == "success" and self.last_end not in (None, "completed")
        return "predecessor" if blocked and self.active is None else None

    def find(self, run_id: str) -> LaneRun | None:
        return next((run for run in self.runs if run.id == run_id), None)

    def position(self, run_id: str) -> int | None:
        """Place in the queue, 1 being the next to start; ``None`` when it is not queued."""
        return next((place for place, run in enumerate(self.queue, 1) if run.id == run_id), None)

    def view(self, session_id: str) -> Queue:
        """The lane as clients see it."""
        return Queue(
            session_id=session_id,
            run_ids=tuple(run.id for run in self.queue),
            waiting=tuple(run.id for run in self.waiting),
            active=self.active.id if self.active else None,
            paused=self.paused,
        )


def lane_run(run: Run) -> LaneRun:
    """An unfinished run's row, as the lane needs it: ``host_run_id`` is its host, ``reason`` why it is stopping."""
    return LaneRun(
        id=run.id,
        seq=run.seq,
        rank=run.rank,
        kind=run.kind,
        delivery=run.delivery,
        after=run.after,
        settings=settings_of(run),
        phase=_phase(run),
    )


def _phase(run: Run) -> Phase:
    match run.state, run.host_run_id, run.reason:
        case "queued", _, _:
            return Queued()
        case "waiting", str() as host, _:
            return Waiting(host)
        case "joined", str() as host, _:
            return Joined(host)
        case "active", _, _:
            return Active()
        case "stopping", _, ("user_cancel" | "parent_ended" | "session_deleted" | "server_stop") as why:
            return Stopping(why)
        case state, host, reason:
            raise StoreDamaged(f"run {run.id!r} cannot be {state!r} with host {host!r} and reason {reason!r}")
