"""Records that reads return besides the values of `schema`: rows that clients do not see, logged events, pages."""

from __future__ import annotations

from typing import Generic, Literal, TypeVar

from holdfast.schema.approvals import Approval, Question
from holdfast.schema.base import Value
from holdfast.schema.devices import Device
from holdfast.schema.events import KnownDurable
from holdfast.schema.messages import Message
from holdfast.schema.runs import EndState, LaneHold, LaneLifecycle, Run, RunDecision

T = TypeVar("T")


class LaneRow(Value, frozen=True):
    """What is stored of a session's lane besides its unfinished runs."""

    session_id: str
    next_seq: int = 1
    mark: int = 0
    """A cancel covers every run accepted at or below this ``seq``."""
    hold: LaneHold | None = None
    last_end: EndState | None = None
    """How the last turn ended. Decides whether a run with ``after: "success"`` starts."""
    lifecycle: LaneLifecycle = "open"


class LaneRecord(Value, frozen=True):
    """A stored lane: its row and its unfinished runs in ``seq`` order."""

    lane: LaneRow
    runs: tuple[Run, ...] = ()
    workspace_id: str = ""


class RunRecord(Value, frozen=True):
    """A run, and what is needed to answer a repeated request for it (`R3`)."""

    run: Run
    workspace_id: str
    body_hash: str
    decision: RunDecision
    position: int | None = None
    host_run_id: str | None = None
    """The host at acceptance; ``run.host_run_id`` is the current one."""
    deleted: bool = False
    """The session was deleted. Only id, body hash and end of the run are kept."""


class LoggedEvent(Value, frozen=True):
    """An event in the log, encoded once and without the providers' opaque data."""

    number: int
    workspace_id: str | None
    """``None``: for every workspace."""
    session_id: str | None
    kind: str
    body: bytes


class CommittedEvent(LoggedEvent, frozen=True):
    """An event as a commit gives it to listeners, with the value that ``body`` encodes."""

    event: KnownDurable


class LogPage(Value, frozen=True):
    """Events of a filtered read, and how far the log was read for them."""

    events: tuple[LoggedEvent, ...]
    passed: int
    """Every event up to this number is in the page, was filtered out, or was removed."""
    pruned: int = 0
    """Events up to this number were pruned when the page was read."""


class Page(Value, Generic[T], frozen=True):
    """Part of a list, and the event number it is true at (`E7`)."""

    items: tuple[T, ...]
    at: int
    next: int | None = None
    """Pass it as ``after`` or ``before`` to continue in the same direction; ``None`` at the end."""


class OpenRunParts(Value, frozen=True):
    """What a run that ends may have left open."""

    messages: Page[Message]
    """The last ones of its session."""
    approvals: tuple[Approval, ...]
    questions: tuple[Question, ...]


class CallOutput(Value, frozen=True):
    """Where the whole output of a tool call is."""

    call_id: str
    session_id: str
    path: str
    """Empty if the call's result contains the whole output."""
    size: int = 0
    message_id: str = ""
    """The message with the call's result."""


SnapshotState = Literal["applied", "undone"]
ChangedBy = Literal["tool", "command"]
"""``command``: the file changed while a command ran, so the change may also be a person's."""


class FileSnapshot(Value, frozen=True):
    """One change of one file by the agent. Contents are stored outside, by their hash; ``None``: no such file.

    ``before`` and ``after`` are hashes, or stand for a symlink or for a content that was not stored (see `file_state`).
    """

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
    by: ChangedBy = "tool"
    mode_after: int | None = None
    """Permission bits after a command. The file tools keep those of an existing file."""
    parents_made: int = 0
    """How many of the directories above the file were made by the change. Undo removes them if they are empty."""
    parents_removed: int = 0
    """How many were removed by the change. Redo removes them if they are empty."""


class AuditFilter(Value, frozen=True, kw_only=True):
    """Which entries of the audit are wanted. ``None`` stands for all."""

    since: str | None = None
    person: str | None = None
    device_id: str | None = None
    target: str | None = None
    """A part of the path, or the id of what was made."""
    failed: bool = False


OwnedKind = Literal["session", "run", "approval", "question", "job", "call"]
"""What belongs to a workspace and has an id."""


class TokenRecord(Value, frozen=True):
    """The token of a device."""

    digest: str
    """SHA-256 of the token, in hexadecimal. The token itself is not stored."""
    device: Device


class StoredResponse(Value, frozen=True):
    """The response to a request with an ``Idempotency-Key``."""

    key: str
    request_hash: str
    """Hash of method, path and body. Using the key for another request is an error."""
    status: int
    body: bytes
    created_at: str
