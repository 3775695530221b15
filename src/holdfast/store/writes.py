"""Writes: a commit is a `Batch` of writes and their events, applied together or not at all.

The writes are a closed union. Each implementation of the store has one `match` over it. Conditional writes
(`UpdateRun`, `EndRun`, `ResolveApproval`, …) raise `StoreConflict` if the state is not the expected one, and then
nothing of the batch is applied. Writes are applied in the given order; events get their numbers after them.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec
from msgspec import UNSET, UnsetType
from msgspec.structs import asdict

from holdfast.schema.approvals import Approval, ApprovalDecision, ApprovalState, Grant, Question, RuleScope
from holdfast.schema.base import Value
from holdfast.schema.events import KnownDurable
from holdfast.schema.messages import File, Message
from holdfast.schema.people import Person
from holdfast.schema.runs import EndReason, Outcome, Run, RunDecision, UnfinishedState
from holdfast.schema.sessions import Job, Session, Todo, Workspace
from holdfast.schema.usage import Usage
from holdfast.store.records import (
    CallOutput,
    CommittedEvent,
    FileSnapshot,
    LaneRow,
    SnapshotState,
    StoredResponse,
    TokenRecord,
)

_UNFINISHED: tuple[UnfinishedState, ...] = ("queued", "waiting", "joined", "active", "stopping")


class _Write(Value, frozen=True, tag=True):
    """Base of the union."""


class PutWorkspace(_Write, frozen=True):
    """Insert or replace by id. Conflicts if another workspace has the path."""

    workspace: Workspace


class PutSession(_Write, frozen=True):
    """Insert a session, without ``busy``, ``queued`` and ``clients``. Conflicts if the id exists."""

    session: Session
    lane: LaneRow | None = None
    """Its lane after the commit, if that is not a new one."""


class UpdateSession(_Write, frozen=True, kw_only=True):
    """Change the given fields. Conflicts if the session is deleted."""

    session_id: str
    title: str | UnsetType = UNSET
    archived: bool | UnsetType = UNSET
    updated_at: str | UnsetType = UNSET
    agent: str | UnsetType = UNSET


class DeleteSession(_Write, frozen=True):
    """Delete a session and its descendants: messages, reads, snapshots, event bodies (`E8`).

    The id, body hash and end of each run are kept, and the row of the session, so that reads raise `Gone`, not
    `NotFound`. Conflicts if a run is unfinished; an earlier `EndRun` of the same batch may end it. Events of the batch
    lose their text.
    """

    session_id: str
    at: str


class InsertRun(_Write, frozen=True, kw_only=True):
    """Insert an accepted run, with what a repeated request for it returns (`R3`).

    Conflicts if the id or ``seq`` exists. The session becomes the newest of its workspace. The log is not pruned past
    this batch until the run ends.
    """

    run: Run
    body_hash: str
    decision: RunDecision
    position: int | None = None
    host_run_id: str | None = None
    environment: dict[str, str] | None = None
    """The variables that the client sent with it."""


class UpdateRun(_Write, frozen=True, kw_only=True):
    """Change the given fields of an unfinished run. Conflicts if its state is not in ``expect``. Does not end it."""

    run_id: str
    expect: tuple[UnfinishedState, ...] = _UNFINISHED
    state: UnfinishedState | UnsetType = UNSET
    reason: EndReason | UnsetType | None = UNSET
    """Why it is stopping, set before its end."""
    rank: int | UnsetType = UNSET
    prompt: str | UnsetType = UNSET
    attachments: tuple[File, ...] | UnsetType = UNSET
    model: str | UnsetType | None = UNSET
    host_run_id: str | UnsetType | None = UNSET
    started_at: str | UnsetType | None = UNSET
    message_id: str | UnsetType | None = UNSET
    usage: Usage | UnsetType = UNSET
    steps: int | UnsetType = UNSET


class EndRun(_Write, frozen=True, kw_only=True):
    """End a run (`R7`). Conflicts if its state is not in ``expect``."""

    run_id: str
    outcome: Outcome
    finished_at: str
    expect: tuple[UnfinishedState, ...] = _UNFINISHED
    usage: Usage | UnsetType = UNSET
    steps: int | UnsetType = UNSET


class SetLane(_Write, frozen=True):
    lane: LaneRow


class PutMessage(_Write, frozen=True):
    """Insert or replace by id. ``seq`` 0 becomes the session's next ``seq``; a replaced message keeps its own.

    The assigned ``seq`` is set in the batch's events of the message, and is in `Committed.seqs`. A message is
    searchable if it is a user's or has a ``finish`` part.
    """

    message: Message
    attempt: int = 1
    """The attempt that its text belongs to. Draft text of another attempt is not read any more."""


class OpenApproval(_Write, frozen=True):
    approval: Approval


class ResolveApproval(_Write, frozen=True, kw_only=True):
    """Store the first answer (`W4`). Conflicts if the approval is not open."""

    approval_id: str
    state: ApprovalState
    resolved_at: str
    decision: ApprovalDecision | None = None
    pattern: tuple[str, ...] = ()
    scope: RuleScope = "project"
    feedback: str = ""
    answered_by: str | None = None


class OpenQuestion(_Write, frozen=True):
    question: Question


class ResolveQuestion(_Write, frozen=True, kw_only=True):
    """Store the first answer (`W4`). Conflicts if the question is not open."""

    question_id: str
    state: ApprovalState
    resolved_at: str
    answers: tuple[tuple[str, ...], ...] | None = None
    dismissed: bool = False
    answered_by: str | None = None


class PutJob(_Write, frozen=True):
    """Insert or replace by id."""

    job: Job


class PutTodos(_Write, frozen=True):
    """Replace the session's list."""

    session_id: str
    todos: tuple[Todo, ...]


class RecordRead(_Write, frozen=True, kw_only=True):
    """Record the content of a file that a session last read or wrote."""

    session_id: str
    path: str
    content_hash: str


class PutCallOutput(_Write, frozen=True):
    """Insert or replace by call id."""

    output: CallOutput


class PutSnapshot(_Write, frozen=True):
    """Insert one change of a file, for undo. ``seq`` 0 becomes the session's next ``seq``."""

    snapshot: FileSnapshot


class MoveSnapshot(_Write, frozen=True, kw_only=True):
    """Mark a change as undone or applied again. Conflicts if its state is not ``expect``."""

    snapshot_id: str
    expect: SnapshotState
    state: SnapshotState


class AddGrant(_Write, frozen=True):
    """Insert, unless the same rule exists for the same scope."""

    grant: Grant


class RemoveGrants(_Write, frozen=True, kw_only=True):
    """Remove one grant of a workspace, or all."""

    workspace_id: str
    grant_id: str | None = None


class PutResponse(_Write, frozen=True):
    """Insert the response to a request with an ``Idempotency-Key``. Conflicts if the key exists."""

    response: StoredResponse


class PutToken(_Write, frozen=True):
    """Insert a token, or change the name, scope and last use of a known one, or revoke it. A revocation is final."""

    token: TokenRecord


class PutPerson(_Write, frozen=True):
    """Insert or replace by name."""

    person: Person


class AddAudit(_Write, frozen=True, kw_only=True):
    """Insert an entry of the audit, which has no answer yet."""

    id: str
    at: str
    person: str | None
    device_id: str | None
    client: str
    action: str
    target: str


class EndAudit(_Write, frozen=True, kw_only=True):
    """Add to an entry how it was answered."""

    id: str
    status: int
    code: str | None = None
    made: str | None = None


class AddUsage(_Write, frozen=True, kw_only=True):
    """Add to the session and to the statistics of the day and model."""

    session_id: str
    day: str
    """``2026-01-31``"""
    model: str
    usage: Usage
    runs: int = 0
    steps: int = 0
    by_subagent: bool = False
    """Add to the session only: the usage is a sub-agent's, which is in the statistics already."""


class AddToolUse(_Write, frozen=True, kw_only=True):
    """Add to the statistics of the day and tool."""

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
    | PutToken
    | PutPerson
    | AddAudit
    | EndAudit
    | AddUsage
    | AddToolUse
)


class Batch(Value, frozen=True):
    """Writes and events of one commit. Conflicts if an event's session does not exist."""

    writes: tuple[AnyWrite, ...] = ()
    events: tuple[KnownDurable, ...] = ()
    uses_reserve: bool = False
    """Whether the commit may use the space that is reserved for cancels and ends on a full disk (`R14`)."""


class Committed(Value, frozen=True):
    """The result of a commit."""

    numbers: tuple[int, ...] = ()
    """The numbers of the events, in their order."""
    events: tuple[CommittedEvent, ...] = ()
    seqs: dict[str, int] = msgspec.field(default_factory=dict)
    """The assigned ``seq`` by message or snapshot id."""


_NOT_OF_THE_RUN = frozenset({"run_id", "expect", "outcome"})


def apply_run_write(run: Run, write: UpdateRun | EndRun) -> Run:
    """Return the run as the store has it after the write, for the events of the same batch."""
    given = {name: value for name, value in asdict(write).items() if value is not UNSET and name not in _NOT_OF_THE_RUN}
    if isinstance(write, EndRun):
        given |= asdict(write.outcome)
        given["message_id"] = write.outcome.message_id or run.message_id
        given["now"] = None
    return msgspec.structs.replace(run, **given)
