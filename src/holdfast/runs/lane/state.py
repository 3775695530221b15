"""The state of a lane: the unfinished runs of one session, and what else decides about them."""

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

RunStopReason = Literal["user_cancel", "parent_ended", "session_deleted", "server_stop"]
"""Why a run must stop. It becomes the reason of the run's end."""


class QueuedPhase(Value, frozen=True):
    state: ClassVar[UnfinishedState] = "queued"


class WaitingPhase(Value, frozen=True):
    """A steer that joins its host at the next step boundary. The host is active, never stopping."""

    state: ClassVar[UnfinishedState] = "waiting"
    host: str


class JoinedPhase(Value, frozen=True):
    """A steer that is part of its host's turn and ends with it."""

    state: ClassVar[UnfinishedState] = "joined"
    host: str


class ActivePhase(Value, frozen=True):
    state: ClassVar[UnfinishedState] = "active"


class StoppingPhase(Value, frozen=True):
    """The end is decided by the first stop reason. Only the turn's clean-up is awaited."""

    state: ClassVar[UnfinishedState] = "stopping"
    reason: RunStopReason


LanePhase: TypeAlias = QueuedPhase | WaitingPhase | JoinedPhase | ActivePhase | StoppingPhase


class LaneRun(Value, frozen=True, kw_only=True):
    """What the lane knows about an unfinished run."""

    id: str
    seq: int
    rank: int
    kind: RunKind = "prompt"
    delivery: Delivery = "queue"
    after: After = "any"
    settings: RunSettings = RunSettings()
    phase: LanePhase = QueuedPhase()

    @property
    def state(self) -> UnfinishedState:
        return self.phase.state

    @property
    def host(self) -> str | None:
        """The run whose turn this run waits for or has joined (`host_run_id` of its row)."""
        return self.phase.host if isinstance(self.phase, WaitingPhase | JoinedPhase) else None

    @property
    def stop_reason(self) -> RunStopReason | None:
        """Why the run is stopping (`reason` of its row, set before the end)."""
        return self.phase.reason if isinstance(self.phase, StoppingPhase) else None


class Lane(Value, frozen=True, kw_only=True):
    """The state of one session's lane. Its size does not depend on the session's history."""

    runs: tuple[LaneRun, ...] = ()
    """In the order of `seq`."""
    next_seq: int = 1
    mark: int = 0
    """The highest `seq` that a cancel of the session, or its deletion, has covered."""
    hold: LaneHold | None = None
    last_end: EndState | None = None
    """How the last run that had the turn ended; `after: "success"` depends on it."""
    lifecycle: LaneLifecycle = "open"
    may_start: bool = True
    """False while the server may begin nothing. It is not stored: the engine sets it before each decision."""

    @property
    def active(self) -> LaneRun | None:
        """The one run that has the turn: active or stopping."""
        for run in self.runs:  # asked often, so without a generator
            if type(run.phase) in (ActivePhase, StoppingPhase):
                return run
        return None

    @property
    def queue(self) -> tuple[LaneRun, ...]:
        """Queued runs in the order in which they start: by `rank`."""
        queued = [run for run in self.runs if isinstance(run.phase, QueuedPhase)]
        return tuple(sorted(queued, key=lambda run: run.rank)) if len(queued) > 1 else tuple(queued)

    @property
    def waiting(self) -> tuple[LaneRun, ...]:
        return tuple(run for run in self.runs if isinstance(run.phase, WaitingPhase))

    @property
    def joined(self) -> tuple[LaneRun, ...]:
        return tuple(run for run in self.runs if isinstance(run.phase, JoinedPhase))

    @property
    def paused(self) -> PauseReason | None:
        """Why the next run does not start now, or will not start when the active one ends."""
        if self.hold is not None:
            return self.hold
        queue = self.queue
        blocked = bool(queue) and queue[0].after == "success" and self.last_end not in (None, "completed")
        return "predecessor" if blocked and self.active is None else None

    def find(self, run_id: str) -> LaneRun | None:
        return next((run for run in self.runs if run.id == run_id), None)

    def position(self, run_id: str) -> int | None:
        """The place of a run in the queue, starting at 1; `None` if it is not queued."""
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
    """Convert the row of an unfinished run. Raises `StoreDamaged` if the row is contradictory."""
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


def _phase(run: Run) -> LanePhase:
    match run.state, run.host_run_id, run.reason:
        case "queued", _, _:
            return QueuedPhase()
        case "waiting", str() as host, _:
            return WaitingPhase(host)
        case "joined", str() as host, _:
            return JoinedPhase(host)
        case "active", _, _:
            return ActivePhase()
        case "stopping", _, ("user_cancel" | "parent_ended" | "session_deleted" | "server_stop") as reason:
            return StoppingPhase(reason)
        case state, host, reason:
            raise StoreDamaged(
                f"run {run.id!r} cannot have state {state!r} with host {host!r} and reason {reason!r}; "
                "restore the database from a backup"
            )
