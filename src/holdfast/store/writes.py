"""A commit is data: a `Batch` of writes and the events that tell them, applied together or not at all.

The writes are a closed union, so that a second implementation is a second `match`, not a second design. Conditional
writes (`UpdateRun`, `EndRun`, `ResolveApproval`, …) raise `StoreConflict` when they find another state than they
expect, and then nothing of their batch happens. Writes apply in the order given; events get their numbers after them.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec
from msgspec import UNSET, UnsetType

from holdfast.schema.approvals import Approval, ApprovalDecision, ApprovalState, Grant, Question
from holdfast.schema.base import Value
from holdfast.schema.events import KnownDurable
from holdfast.schema.messages import File, Message
from holdfast.schema.runs import EndReason, Outcome, Run, RunDecision, UnfinishedState
from holdfast.schema.sessions import Job, Session, Todo, Workspace
from holdfast.schema.usage import Usage
from holdfast.store.records import CallOutput, FileSnapshot, LaneRow, SnapshotState, StoredResponse

LIVE: tuple[UnfinishedState, ...] = ("queued", "waiting", "joined", "active", "stopping")


class Write(Value, frozen=True, tag=True):
    """Base of the union."""


class PutWorkspace(Write, frozen=True):
    """Inserts or replaces by id. A path belongs to one workspace: `StoreConflict` if another has it."""

    workspace: Workspace


class PutSession(Write, frozen=True):
    """Inserts a new session; ``busy``, ``queued`` and ``clients`` are not stored. A known id is a `StoreConflict`."""

    session: Session


class UpdateSession(Write, frozen=True, kw_only=True):
    """Changes the given fields of a session that is not deleted, else `StoreConflict`."""

    session_id: str
    title: str | UnsetType = UNSET
    archived: bool | UnsetType = UNSET
    updated_at: str | UnsetType = UNSET


class DeleteSession(Write, frozen=True):
    """Removes a session and its descendants: messages, reads, snapshots, event bodies (`E8`).

    Per run its id, body hash and end stay, and the session's row as a grave (`Gone`, not `NotFound`). A run of them
    that is still live is a `StoreConflict`: end it before, at the latest by an `EndRun` earlier in the same batch.
    Events of the batch itself are told without anybody's text.
    """

    session_id: str
    at: str


class InsertRun(Write, frozen=True, kw_only=True):
    """A run as accepted, with what a repeat of its id is answered (`R3`). A known id or ``seq`` is a `StoreConflict`.

    Makes its session the newest of its workspace. The log is not pruned past this batch while the run is live.
    """

    run: Run
    body_hash: str
    decision: RunDecision
    position: int | None = None
    host_run_id: str | None = None


class UpdateRun(Write, frozen=True, kw_only=True):
    """Changes the given fields of a live run whose state is one of ``expect``, else `StoreConflict`. Never ends it."""

    run_id: str
    expect: tuple[UnfinishedState, ...] = LIVE
    state: UnfinishedState | UnsetType = UNSET
    reason: EndReason | UnsetType | None = UNSET
    """Why it is stopping, already before its end."""
    rank: int | UnsetType = UNSET
    prompt: str | UnsetType = UNSET
    attachments: tuple[File, ...] | UnsetType = UNSET
    model: str | UnsetType | None = UNSET
    host_run_id: str | UnsetType | None = UNSET
    started_at: str | UnsetType | None = UNSET
    message_id: str | UnsetType | None = UNSET
    usage: Usage | UnsetType = UNSET
    steps: int | UnsetType = UNSET


class EndRun(Write, frozen=True, kw_only=True):
    """The one end of a run (`R7`): only from a live state of ``expect``, else `StoreConflict`."""

    run_id: str
    outcome: Outcome
    finished_at: str
    expect: tuple[UnfinishedState, ...] = LIVE
    usage: Usage | UnsetType = UNSET
    steps: int | UnsetType = UNSET


class SetLane(Write, frozen=True):
    """What a session's lane remembers besides its runs."""

    lane: LaneRow


class PutMessage(Write, frozen=True):
    """Inserts, or replaces by id. ``seq`` 0 is allotted: the session's next; a replaced message keeps its own.

    The allotted number is put into the batch's events that carry the message, and is in `Committed.seqs`.
    A message becomes searchable when it is a user's, or when it has a ``finish`` part.
    """

    message: Message


class OpenApproval(Write, frozen=True):
    approval: Approval


class ResolveApproval(Write, frozen=True, kw_only=True):
    """First answer wins (`W4`): anything but an open approval is a `StoreConflict`."""

    approval_id: str
    state: ApprovalState
    resolved_at: str
    decision: ApprovalDecision | None = None
    pattern: tuple[str, ...] = ()
    feedback: str = ""
    answered_by: str | None = None


class OpenQuestion(Write, frozen=True):
    question: Question


class ResolveQuestion(Write, frozen=True, kw_only=True):
    """First answer wins (`W4`): anything but an open question is a `StoreConflict`."""

    question_id: str
    state: ApprovalState
    resolved_at: str
    answers: tuple[tuple[str, ...], ...] | None = None
    dismissed: bool = False
    answered_by: str | None = None


class PutJob(Write, frozen=True):
    """Inserts or replaces by id."""

    job: Job


class PutTodos(Write, frozen=True):
    """The session's whole list."""

    session_id: str
    todos: tuple[Todo, ...]


class RecordRead(Write, frozen=True, kw_only=True):
    """This session knows this content of the file; the latest read (or own write) counts."""

    session_id: str
    path: str
    content_hash: str


class PutCallOutput(Write, frozen=True):
    """Where the whole output of a tool call lies. Inserts or replaces by call."""

    output: CallOutput


class PutSnapshot(Write, frozen=True):
    """One change of a file by the agent, for undo. ``seq`` 0 is allotted: the session's next."""

    snapshot: FileSnapshot


class MoveSnapshot(Write, frozen=True, kw_only=True):
    """Undo and redo: only from the state ``expect``, else `StoreConflict`."""

    snapshot_id: str
    expect: SnapshotState
    state: SnapshotState


class AddGrant(Write, frozen=True):
    """Inserts; the same rule for the same scope again changes nothing."""

    grant: Grant


class RemoveGrants(Write, frozen=True, kw_only=True):
    """One grant of a workspace, or all of them."""

    workspace_id: str
    grant_id: str | None = None


class PutResponse(Write, frozen=True):
    """What a mutation with an ``Idempotency-Key`` answered. A key that is already there is a `StoreConflict`."""

    answer: StoredResponse


class AddUsage(Write, frozen=True, kw_only=True):
    """Adds to the session and to the statistics of the day and model."""

    session_id: str
    day: str
    """``2026-01-31``"""
    model: str
    usage: Usage
    runs: int = 0
    steps: int = 0
    by_subagent: bool = False
    """Only to the session: a sub-agent spent it, and told the statistics itself."""


class AddToolUse(Write, frozen=True, kw_only=True):
    """Adds to the statistics of the day and tool."""

    day: str
    tool: str
    calls: int = 1
    failed: int = 0


AnyWrite: TypeAlias = (
    PutWorkspace
    | PutSession
    | UpdateSession
    | DeleteSession
    | InsertRun
    | UpdateRun
    | EndRun
    | SetLane
    | PutMessage
    | OpenApproval
    | ResolveApproval
    | OpenQuestion
    | ResolveQuestion
    | PutJob
    | PutTodos
    | RecordRead
    | PutCallOutput
    | PutSnapshot
    | MoveSnapshot
    | AddGrant
    | RemoveGrants
    | PutResponse
    | AddUsage
    | AddToolUse
)


class Batch(Value, frozen=True):
    """What happens together. An event of a session that does not exist is a `StoreConflict`."""

    writes: tuple[AnyWrite, ...] = ()
    events: tuple[KnownDurable, ...] = ()


class LoggedEvent(Value, frozen=True):
    """An event as it stands in the log: encoded once, without the providers' opaque data."""

    number: int
    workspace_id: str | None
    """``None``: for every workspace."""
    session_id: str | None
    root_session_id: str | None
    """The top of the session's tree."""
    kind: str
    body: bytes


class Committed(Value, frozen=True):
    """What a commit gave: numbers of its events in their order, and allotted ``seq`` by message or snapshot id."""

    numbers: tuple[int, ...] = ()
    events: tuple[LoggedEvent, ...] = ()
    seqs: dict[str, int] = msgspec.field(default_factory=dict)


def apply_run_write(run: Run, write: UpdateRun | EndRun) -> Run:
    """The run as the store will have it after the write, so that a batch's event can tell the same."""
    given = {
        name: value
        for name in write.__struct_fields__
        if name not in ("run_id", "expect", "outcome") and (value := getattr(write, name)) is not UNSET
    }
    if isinstance(write, EndRun):
        outcome = write.outcome
        given |= {name: getattr(outcome, name) for name in Outcome.__struct_fields__}
        given["message_id"] = outcome.message_id or run.message_id
        given["now"] = None
    return msgspec.structs.replace(run, **given)
