"""The role that a ledger plays. Small protocols by subject; `Store` is all of them.

Reads see every commit that was answered before they began. A page's ``at`` is the event number it is true at. Unknown
ids raise `NotFound`, ids of deleted sessions `Gone`, unless a method says that it answers ``None``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Protocol, TypeAlias

from holdfast.schema.approvals import Approval, Grant, Question
from holdfast.schema.base import Value
from holdfast.schema.messages import Message
from holdfast.schema.runs import Run, RunState
from holdfast.schema.sessions import Job, SearchHit, Session, Todo, Workspace
from holdfast.schema.usage import ToolRow, UsageRow
from holdfast.store.records import CallOutput, FileSnapshot, LaneRecord, Page, RunRecord, StoredResponse
from holdfast.store.writes import Batch, Committed, LoggedEvent

CommitListener: TypeAlias = Callable[[tuple[LoggedEvent, ...]], None]


class LogPage(Value, frozen=True):
    """Events of a filtered read, and how far the log was read for them."""

    events: tuple[LoggedEvent, ...]
    passed: int
    """Every event up to this number is in the page, was filtered out, or was removed."""
    pruned: int = 0
    """Events up to this number are gone, as of this very read."""


class Commits(Protocol):
    """Writing. One owner, one order."""

    async def commit(self, batch: Batch) -> Committed:
        """All of the batch, durably, or nothing.

        Raises `StoreConflict` (a condition did not hold) or `StoreUnwritable` (disk full, I/O error, read-only).
        A caller that is cancelled meanwhile does not recall its batch: shield the call where that matters.
        """
        ...

    def listen(self, listener: CommitListener) -> Callable[[], None]:
        """Called on the loop with the events of each commit, in commit order, exactly once, before ``commit`` returns.

        Answers the function that ends it.
        """
        ...

    async def prune_events(self, *, before: str) -> int:
        """Removes events older than the time, oldest first, never past the oldest unfinished run; how many (`E8`)."""
        ...

    async def prune_responses(self, *, before: str) -> int: ...

    async def backup(self, path: Path) -> None:
        """A consistent copy while everything goes on. An existing file is refused."""
        ...

    async def close(self) -> None:
        """Commits what waits, then lets go of the database."""
        ...


class Log(Protocol):
    """The event log."""

    @property
    def log_id(self) -> str:
        """Made with the database; part of every cursor."""
        ...

    @property
    def last_number(self) -> int:
        """The highest number that listeners have been told; 0 for an empty log."""
        ...

    @property
    def oldest_number(self) -> int:
        """The lowest number that can still be replayed: events below it were pruned."""
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
        """In order, above ``number`` and at most ``upto``. A session's filter includes its descendants; events of no
        workspace are in every workspace's. The page ends with the event that reaches ``max_bytes``."""
        ...


class Sessions(Protocol):
    async def workspace(self, workspace_id: str) -> Workspace: ...

    async def workspace_at(self, path: str) -> Workspace | None: ...

    async def workspaces(self) -> tuple[Workspace, ...]: ...

    async def session(self, session_id: str) -> Session:
        """With ``busy`` and ``queued`` as they are; ``clients`` is the server's to add."""
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
        """Top-level sessions (or one session's children), the one that was prompted last first; ``q`` in the title."""
        ...

    async def descendants(self, session_id: str) -> tuple[str, ...]:
        """Ids of all sessions below it, deleted ones too."""
        ...


class Runs(Protocol):
    async def run(self, run_id: str) -> Run: ...

    async def run_record(self, run_id: str) -> RunRecord | None:
        """For `R3`: also of a deleted session; ``None`` if unknown."""
        ...

    async def runs(
        self, session_id: str, *, limit: int, before: int | None = None, states: Iterable[RunState] | None = None
    ) -> Page[Run]:
        """Newest ``seq`` first."""
        ...

    async def lane(self, session_id: str) -> LaneRecord: ...

    async def unfinished_runs(
        self, *, workspace_id: str | None = None, session_id: str | None = None
    ) -> tuple[Run, ...]:
        """In order of acceptance within each session."""
        ...


class Messages(Protocol):
    async def message(self, message_id: str) -> Message: ...

    async def messages(
        self, session_id: str, *, limit: int, after: int | None = None, before: int | None = None
    ) -> Page[Message]:
        """Always in ``seq`` order: from the start, after a ``seq``, or the last ones before a ``seq``.

        With neither, the first page; ``before`` may lie past the end. ``next`` goes on in the direction asked.
        """
        ...

    async def messages_since_summary(self, session_id: str) -> tuple[Message, ...]:
        """The last message with a summary, and all after it; everything if there is none."""
        ...

    async def search(self, q: str, *, workspace_id: str | None = None, limit: int = 50) -> tuple[SearchHit, ...]:
        """Messages of sessions that exist, which contain all words of ``q``; best first."""
        ...


class Asks(Protocol):
    async def approval(self, approval_id: str) -> Approval: ...

    async def open_approvals(self, *, workspace_id: str | None = None, run_id: str | None = None) -> Page[Approval]: ...

    async def question(self, question_id: str) -> Question: ...

    async def open_questions(self, *, workspace_id: str | None = None, run_id: str | None = None) -> Page[Question]: ...

    async def grants(self, workspace_id: str, *, session_id: str | None = None) -> tuple[Grant, ...]:
        """The workspace's; with a session also that session's own."""
        ...


class Work(Protocol):
    """What tools leave behind, and what it cost."""

    async def job(self, job_id: str) -> Job: ...

    async def jobs(self, *, workspace_id: str | None = None, running: bool = False) -> Page[Job]: ...

    async def todos(self, session_id: str) -> tuple[Todo, ...]: ...

    async def read_hash(self, session_id: str, path: str) -> str | None:
        """The content this session knows of the file."""
        ...

    async def call_output(self, call_id: str) -> CallOutput: ...

    async def snapshots(self, session_id: str, *, path: str | None = None) -> tuple[FileSnapshot, ...]:
        """In ``seq`` order."""
        ...

    async def known_contents(self, hashes: Iterable[str]) -> frozenset[str]:
        """Those of the hashes that a snapshot still needs."""
        ...

    async def stored_response(self, key: str) -> StoredResponse | None: ...

    async def usage_stats(self, *, since: str, until: str) -> tuple[UsageRow, ...]:
        """By day and model, both days included."""
        ...

    async def tool_stats(self, *, since: str, until: str) -> tuple[ToolRow, ...]: ...


class Store(Commits, Log, Sessions, Runs, Messages, Asks, Work, Protocol):
    """The ledger."""
