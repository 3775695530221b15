"""The interface of a store.

Reads see every commit that returned before they began. A page's ``at`` is the event number it is true at. Unknown ids
raise `NotFound` and ids of deleted sessions `Gone`, unless the method returns ``None`` for them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import Protocol, TypeAlias

from holdfast.schema.approvals import Approval, Grant, Question
from holdfast.schema.audit import AuditEntry
from holdfast.schema.messages import Message
from holdfast.schema.people import Person
from holdfast.schema.runs import Run, RunState
from holdfast.schema.sessions import IdKind, IdMatch, Job, SearchHit, Session, Todo, Workspace
from holdfast.schema.usage import ToolRow, UsageRow
from holdfast.store.records import (
    AuditFilter,
    CallOutput,
    CommittedEvent,
    FileSnapshot,
    LaneRecord,
    LogPage,
    OpenRunParts,
    OwnedKind,
    Page,
    RunRecord,
    StoredResponse,
    TokenRecord,
)
from holdfast.store.writes import AddAudit, Batch, Committed, EndAudit

CommitListener: TypeAlias = Callable[[tuple[CommittedEvent, ...]], None]


class Store(Protocol):
    async def commit(self, batch: Batch, *, until_known: bool = True) -> Committed:
        """Write the whole batch durably, or nothing.

        Raises `StoreConflict` if a condition does not hold, `StoreUnwritable` if the disk is full, read-only or broken,
        and `StoreLocked` if another process holds a lock for longer than commits wait. Cancelling the caller does not
        withdraw the batch; shield the call where that matters.

        Raises `StoreUnreachable` if a database server does not answer. If the answer to the commit itself was lost, it
        waits until the database tells what became of it; without ``until_known`` it raises `OutcomeUnknown`.
        """
        ...

    def append_draft(
        self, session_id: str, message_id: str, part: int, text: str, *, attempt: int = 1, is_reasoning: bool = False
    ) -> None:
        """Add text to a part of a stored, open message, without waiting (`E3`).

        Reads see it at once. It survives a killed process after about 20 ms, and a power failure after half a second.
        It is text of the message until a commit contains the part, starts another attempt, or finishes the message.
        Never fails: if it cannot be written, it is written later or with the message.
        """
        ...

    def append_audit(self, write: AddAudit | EndAudit) -> None:
        """Write an entry of the audit without waiting.

        It is in the transaction of the next commit that begins after this call, or written alone after a moment. While
        the store cannot be written it is kept, within limits.
        """
        ...

    def listen(self, listener: CommitListener) -> Callable[[], None]:
        """Call the listener on the event loop with the events of each commit, in commit order, before `commit` returns.

        Returns a function that removes the listener.
        """
        ...

    async def catch_up(self) -> None:
        """Return when listeners have every event that was committed before the call, by any server."""
        ...

    async def prune_events(self, *, before: str) -> int:
        """Remove events older than the time, but none since the start of the oldest unfinished run (`E8`).

        Returns how many were removed.
        """
        ...

    async def prune_responses(self, *, before: str) -> int: ...

    async def prune_audit(self, *, before: str) -> int:
        """Remove entries of the audit that are older than the time. Returns how many were removed."""
        ...

    async def size(self) -> int:
        """Bytes of the database on disk, with its log of recent writes."""
        ...

    async def give_back_space(self) -> None:
        """Write the database anew without free pages, if they are a good part of it. Commits wait meanwhile."""
        ...

    async def backup(self, path: Path) -> None:
        """Write a consistent copy while commits continue. Raises `BadRequest` if the file exists."""
        ...

    async def close(self) -> None:
        """Commit what is waiting, then close the database."""
        ...

    @property
    def log_id(self) -> str:
        """The id of the event log, created with the database. It is part of every cursor."""
        ...

    @property
    def last_number(self) -> int:
        """The highest event number that listeners have received; 0 for an empty log."""
        ...

    @property
    def oldest_number(self) -> int:
        """The lowest event number that can be replayed. Events below it were pruned."""
        ...

    async def events_after(
        self,
        number: int,
        *,
        upto: int,
        workspace_id: str | None = None,
        session_id: str | None = None,
        limit: int = 256,
        max_bytes: int = 1 << 20,
    ) -> LogPage:
        """Return events above ``number`` and at most ``upto``, in order.

        A session's filter includes its descendants. A workspace's filter includes events of no workspace. The page ends
        with the event that reaches ``max_bytes``.
        """
        ...

    async def workspace(self, workspace_id: str) -> Workspace: ...

    async def workspace_at(self, path: str) -> Workspace | None: ...

    async def workspaces(self) -> tuple[Workspace, ...]: ...

    async def session(self, session_id: str) -> Session:
        """Return the session with its current ``busy`` and ``queued``. The server adds ``clients``."""
        ...

    async def sessions(
        self,
        workspace_id: str,
        *,
        limit: int,
        before: int | None = None,
        q: str | None = None,
        archived: bool | None = False,
        parent_id: str | None = None,
    ) -> Page[Session]:
        """Return top-level sessions, or those of a parent, the last prompted first. ``q`` matches the title."""
        ...

    async def descendants(self, session_id: str) -> tuple[str, ...]:
        """Return the ids of all sessions below it, including deleted ones."""
        ...

    async def run(self, run_id: str) -> Run: ...

    async def run_record(self, run_id: str) -> RunRecord | None:
        """Return the record for `R3`, also of a deleted session; ``None`` if the id is unknown."""
        ...

    async def runs(
        self, session_id: str, *, limit: int, before: int | None = None, states: Iterable[RunState] | None = None
    ) -> Page[Run]:
        """Return runs with the newest ``seq`` first."""
        ...

    async def environment_of_run(self, run_id: str) -> dict[str, str] | None:
        """Return the variables sent with the run, or else with the last run before it in its session."""
        ...

    async def lane(self, session_id: str) -> LaneRecord: ...

    async def unfinished_runs(
        self, *, workspace_id: str | None = None, session_id: str | None = None
    ) -> tuple[Run, ...]:
        """Return unfinished runs in order of acceptance within each session."""
        ...

    async def message(self, message_id: str) -> Message: ...

    async def messages(
        self, session_id: str, *, limit: int, after: int | None = None, before: int | None = None
    ) -> Page[Message]:
        """Return messages in ``seq`` order: from the start, after a ``seq``, or the last ones before a ``seq``.

        ``before`` may be past the end. ``next`` continues in the same direction.
        """
        ...

    async def messages_since_summary(self, session_id: str) -> tuple[Message, ...]:
        """Return the last message with a summary and all after it; all messages if there is no summary."""
        ...

    async def search(self, q: str, *, workspace_id: str | None = None, limit: int = 50) -> tuple[SearchHit, ...]:
        """Return messages that contain all words of ``q``, the best match first."""
        ...

    async def find_ids(self, prefix: str, *, kinds: Collection[IdKind] = (), limit: int = 10) -> tuple[IdMatch, ...]:
        """Return what has an id that begins with ``prefix`` (ASCII, not empty), without deleted sessions.

        If an id is the prefix itself, it is the only one.
        """
        ...

    async def approval(self, approval_id: str) -> Approval: ...

    async def open_approvals(self, *, workspace_id: str | None = None, run_id: str | None = None) -> Page[Approval]: ...

    async def question(self, question_id: str) -> Question: ...

    async def open_questions(self, *, workspace_id: str | None = None, run_id: str | None = None) -> Page[Question]: ...

    async def open_run_parts(self, session_id: str, *, run_id: str, limit: int) -> OpenRunParts:
        """Return the last messages of the session, and the open approvals and questions of the run, in one read."""
        ...

    async def grants(self, workspace_id: str, *, session_id: str | None = None) -> tuple[Grant, ...]:
        """Return the grants of the workspace, and with ``session_id`` also those of the session."""
        ...

    async def job(self, job_id: str) -> Job: ...

    async def jobs(self, *, workspace_id: str | None = None, running: bool = False) -> Page[Job]: ...

    async def todos(self, session_id: str) -> tuple[Todo, ...]: ...

    async def read_hash(self, session_id: str, path: str) -> str | None:
        """Return the hash of the file's content that the session last read or wrote."""
        ...

    async def read_hashes(self, session_id: str) -> tuple[tuple[str, str], ...]:
        """Return the path and the hash of every file that the session read or wrote, by path."""
        ...

    async def call_output(self, call_id: str) -> CallOutput: ...

    async def snapshots(self, session_id: str, *, path: str | None = None) -> tuple[FileSnapshot, ...]:
        """Return file snapshots in ``seq`` order."""
        ...

    async def known_contents(self, hashes: Iterable[str]) -> frozenset[str]:
        """Return those of the hashes that a snapshot refers to."""
        ...

    async def stored_response(self, key: str) -> StoredResponse | None: ...

    async def audit(
        self, *, limit: int, before: int | None = None, after: int | None = None, wanted: AuditFilter
    ) -> tuple[AuditEntry, ...]:
        """Return entries before a number, the newest first, or after a number, the oldest first."""
        ...

    async def people(self) -> tuple[Person, ...]:
        """Return all people, also those that were removed, by name."""
        ...

    async def workspace_of(self, kind: OwnedKind, owned_id: str) -> str | None:
        """Return the id of the workspace that something belongs to, also after its session was deleted.

        ``None`` if the id is unknown. The id of a call is that of its stored output.
        """
        ...

    async def tokens(self) -> tuple[TokenRecord, ...]:
        """Return the tokens of all devices, also of revoked ones, the oldest first."""
        ...

    async def usage_stats(self, *, since: str, until: str) -> tuple[UsageRow, ...]:
        """Return usage by day and model, both days included."""
        ...

    async def tool_stats(self, *, since: str, until: str) -> tuple[ToolRow, ...]: ...
