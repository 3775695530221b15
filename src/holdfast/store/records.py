"""What the ledger keeps besides the words: rows that no client sees as they are, and pages of what they do see."""

from __future__ import annotations

from typing import Generic, Literal, TypeVar

from holdfast.schema.base import Value
from holdfast.schema.runs import EndState, LaneHold, LaneLifecycle, Run, RunDecision

T = TypeVar("T")


class LaneRow(Value, frozen=True):
    """What a session's lane remembers besides its unfinished runs."""

    session_id: str
    next_seq: int = 1
    mark: int = 0
    """Everything accepted at or below it is covered by a cancel."""
    hold: LaneHold | None = None
    """A pause that somebody made."""
    last_end: EndState | None = None
    """How the last turn ended: decides a successor that asked for ``after: "success"``."""
    lifecycle: LaneLifecycle = "open"


class LaneRecord(Value, frozen=True):
    """A lane as it stands in the ledger: its row and every run that has not ended, in ``seq`` order."""

    lane: LaneRow
    runs: tuple[Run, ...] = ()
    workspace_id: str = ""


class RunRecord(Value, frozen=True):
    """A run and what a repeat of its POST needs to know (`R3`)."""

    run: Run
    workspace_id: str
    body_hash: str
    decision: RunDecision
    position: int | None = None
    host_run_id: str | None = None
    """As decided at acceptance; ``run.host_run_id`` is as it is now."""
    deleted: bool = False
    """The session is gone; of the run only id, body hash and end are kept."""


class Page(Value, Generic[T], frozen=True):
    """Part of a list, and the event number it is true at (`E7`)."""

    items: tuple[T, ...]
    at: int
    next: int | None = None
    """Give it as ``after`` or ``before`` for the rest in the same direction; ``None`` at the end."""


class CallOutput(Value, frozen=True):
    """Where the whole output of a call is."""

    call_id: str
    session_id: str
    path: str
    """Empty: it is whole in the call's result."""
    size: int = 0
    message_id: str = ""
    """The message with the call's result."""


SnapshotState = Literal["applied", "undone"]


class FileSnapshot(Value, frozen=True):
    """One change of one file by the agent; contents lie outside, by their hash. ``None``: the file was not there."""

    id: str
    session_id: str
    run_id: str
    path: str
    before: str | None
    after: str | None
    call_id: str = ""
    message_id: str = ""
    mode: int | None = None
    """Permission bits before the change."""
    state: SnapshotState = "applied"
    seq: int = 0
    created_at: str = ""


class StoredResponse(Value, frozen=True):
    """What a mutation with an ``Idempotency-Key`` answered."""

    key: str
    request_hash: str
    """Of method, path and body: the same key for something else is the caller's mistake."""
    status: int
    body: bytes
    created_at: str
