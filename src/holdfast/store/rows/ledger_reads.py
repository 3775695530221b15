"""The reads of a store. Every implementation has them from here, and gives each its connection."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from functools import partial
from typing import Protocol, TypeVar

from holdfast.schema.approvals import Approval, Grant, Question
from holdfast.schema.audit import AuditEntry
from holdfast.schema.messages import Message
from holdfast.schema.people import Person
from holdfast.schema.runs import Run, RunState
from holdfast.schema.sessions import IdKind, IdMatch, Job, SearchHit, Session, Todo, Workspace
from holdfast.schema.usage import ToolRow, UsageRow
from holdfast.store.open_drafts import DraftLookup
from holdfast.store.records import (
    AuditFilter,
    CallOutput,
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
from holdfast.store.rows import (
    approvals,
    audit,
    environments,
    event_log,
    id_lookup,
    messages,
    people,
    runs,
    sessions,
    stored_responses,
    tokens,
    tool_records,
    usage,
)
from holdfast.store.rows.sql import SearchIndex, Sql

T = TypeVar("T")
_PAST_THE_END = 1 << 62
T_co = TypeVar("T_co", covariant=True)


class ReadFunction(Protocol):
    """Runs a query on a connection that reads."""

    async def __call__(self, query: Callable[[Sql], T], /) -> T: ...


class DraftQuery(Protocol[T_co]):
    """A read of messages, which gets the drafts that belong to them."""

    def __call__(self, sql: Sql, *, drafts: DraftLookup) -> T_co: ...


class LedgerReads:
    """Base of the stores. Each read runs in one transaction, which sees one state of the database."""

    _search_index: SearchIndex
    _read: ReadFunction

    async def _read_with_drafts(self, query: DraftQuery[T], *, session_id: str | None = None) -> T:
        """Read messages: of one session, or one message of any session."""
        raise NotImplementedError

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
        return await self._read(
            partial(
                event_log.events_after,
                number=number,
                upto=upto,
                workspace_id=workspace_id,
                session_id=session_id,
                limit=limit,
                max_bytes=max_bytes,
            )
        )

    async def workspace(self, workspace_id: str) -> Workspace:
        return await self._read(partial(sessions.workspace, workspace_id=workspace_id))

    async def workspace_at(self, path: str) -> Workspace | None:
        return await self._read(partial(sessions.workspace_at, path=path))

    async def workspaces(self) -> tuple[Workspace, ...]:
        return await self._read(sessions.workspaces)

    async def session(self, session_id: str) -> Session:
        return await self._read(partial(sessions.session, session_id=session_id))

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
        return await self._read(
            partial(
                sessions.sessions,
                workspace_id=workspace_id,
                limit=limit,
                before=before,
                q=q,
                archived=archived,
                parent_id=parent_id,
            )
        )

    async def descendants(self, session_id: str) -> tuple[str, ...]:
        return await self._read(partial(sessions.descendants, session_id=session_id))

    async def run(self, run_id: str) -> Run:
        return await self._read(partial(runs.run, run_id=run_id))

    async def run_record(self, run_id: str) -> RunRecord | None:
        return await self._read(partial(runs.run_record, run_id=run_id))

    async def runs(
        self, session_id: str, *, limit: int, before: int | None = None, states: Iterable[RunState] | None = None
    ) -> Page[Run]:
        return await self._read(partial(runs.runs, session_id=session_id, limit=limit, before=before, states=states))

    async def environment_of_run(self, run_id: str) -> dict[str, str] | None:
        return await self._read(partial(environments.of_run, run_id=run_id))

    async def lane(self, session_id: str) -> LaneRecord:
        return await self._read(partial(runs.lane, session_id=session_id))

    async def unfinished_runs(
        self, *, workspace_id: str | None = None, session_id: str | None = None
    ) -> tuple[Run, ...]:
        return await self._read(partial(runs.unfinished, workspace_id=workspace_id, session_id=session_id))

    async def message(self, message_id: str) -> Message:
        return await self._read_with_drafts(partial(messages.message, message_id=message_id))

    async def messages(
        self, session_id: str, *, limit: int, after: int | None = None, before: int | None = None
    ) -> Page[Message]:
        return await self._read_with_drafts(
            partial(messages.messages, session_id=session_id, limit=limit, after=after, before=before),
            session_id=session_id,
        )

    async def messages_since_summary(self, session_id: str) -> tuple[Message, ...]:
        return await self._read_with_drafts(
            partial(messages.since_summary, session_id=session_id), session_id=session_id
        )

    async def search(self, q: str, *, workspace_id: str | None = None, limit: int = 50) -> tuple[SearchHit, ...]:
        return await self._read(
            partial(messages.search, q=q, workspace_id=workspace_id, limit=limit, index=self._search_index)
        )

    async def find_ids(self, prefix: str, *, kinds: Collection[IdKind] = (), limit: int = 10) -> tuple[IdMatch, ...]:
        return await self._read(partial(id_lookup.find_ids, prefix=prefix, kinds=kinds, limit=limit))

    async def approval(self, approval_id: str) -> Approval:
        return await self._read(partial(approvals.approval, approval_id=approval_id))

    async def open_approvals(self, *, workspace_id: str | None = None, run_id: str | None = None) -> Page[Approval]:
        return await self._read(partial(approvals.open_approvals, workspace_id=workspace_id, run_id=run_id))

    async def question(self, question_id: str) -> Question:
        return await self._read(partial(approvals.question, question_id=question_id))

    async def open_questions(self, *, workspace_id: str | None = None, run_id: str | None = None) -> Page[Question]:
        return await self._read(partial(approvals.open_questions, workspace_id=workspace_id, run_id=run_id))

    async def open_run_parts(self, session_id: str, *, run_id: str, limit: int) -> OpenRunParts:
        return await self._read_with_drafts(
            partial(_open_run_parts, session_id=session_id, run_id=run_id, limit=limit), session_id=session_id
        )

    async def grants(self, workspace_id: str, *, session_id: str | None = None) -> tuple[Grant, ...]:
        return await self._read(partial(approvals.grants, workspace_id=workspace_id, session_id=session_id))

    async def job(self, job_id: str) -> Job:
        return await self._read(partial(tool_records.job, job_id=job_id))

    async def jobs(self, *, workspace_id: str | None = None, running: bool = False) -> Page[Job]:
        return await self._read(partial(tool_records.jobs, workspace_id=workspace_id, running=running))

    async def todos(self, session_id: str) -> tuple[Todo, ...]:
        return await self._read(partial(tool_records.todos, session_id=session_id))

    async def read_hash(self, session_id: str, path: str) -> str | None:
        return await self._read(partial(tool_records.read_hash, session_id=session_id, path=path))

    async def read_hashes(self, session_id: str) -> tuple[tuple[str, str], ...]:
        return await self._read(partial(tool_records.read_hashes, session_id=session_id))

    async def call_output(self, call_id: str) -> CallOutput:
        return await self._read(partial(tool_records.call_output, call_id=call_id))

    async def snapshots(self, session_id: str, *, path: str | None = None) -> tuple[FileSnapshot, ...]:
        return await self._read(partial(tool_records.snapshots, session_id=session_id, path=path))

    async def known_contents(self, hashes: Iterable[str]) -> frozenset[str]:
        return await self._read(partial(tool_records.known_contents, hashes=hashes))

    async def stored_response(self, key: str) -> StoredResponse | None:
        return await self._read(partial(stored_responses.stored_response, key=key))

    async def audit(
        self, *, limit: int, before: int | None = None, after: int | None = None, wanted: AuditFilter
    ) -> tuple[AuditEntry, ...]:
        return await self._read(partial(audit.entries, limit=limit, before=before, after=after, wanted=wanted))

    async def people(self) -> tuple[Person, ...]:
        return await self._read(people.people)

    async def workspace_of(self, kind: OwnedKind, owned_id: str) -> str | None:
        return await self._read(partial(id_lookup.workspace_of, kind=kind, owned_id=owned_id))

    async def tokens(self) -> tuple[TokenRecord, ...]:
        return await self._read(tokens.tokens)

    async def usage_stats(self, *, since: str, until: str) -> tuple[UsageRow, ...]:
        return await self._read(partial(usage.usage_stats, since=since, until=until))

    async def tool_stats(self, *, since: str, until: str) -> tuple[ToolRow, ...]:
        return await self._read(partial(usage.tool_stats, since=since, until=until))


def _open_run_parts(sql: Sql, *, session_id: str, run_id: str, limit: int, drafts: DraftLookup) -> OpenRunParts:
    return OpenRunParts(
        messages.messages(sql, session_id, limit=limit, after=None, before=_PAST_THE_END, drafts=drafts),
        approvals.open_approvals(sql, workspace_id=None, run_id=run_id).items,
        approvals.open_questions(sql, workspace_id=None, run_id=run_id).items,
    )
