"""What differs from `rows` when a batch is written: counters that all servers share, and hosts of workspaces."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from holdfast.schema.base import encode
from holdfast.schema.events import KnownDurable
from holdfast.schema.messages import Message
from holdfast.schema.runs import Run
from holdfast.schema.sessions import Workspace
from holdfast.store import writes as w
from holdfast.store.postgres.connection import PostgresConnection
from holdfast.store.postgres.dialect import Expression
from holdfast.store.postgres.known_rows import KnownRows, KnownSession
from holdfast.store.postgres.word_index import WORD_INDEX
from holdfast.store.rows import sessions, usage
from holdfast.store.rows.apply_write import apply_write
from holdfast.store.rows.sql import Sql
from holdfast.store.rows.transaction import Counters, SessionPlace, StoredMessage, Transaction

_NEXT_ACTIVITY = Expression("nextval('session_activity')")
_NEXT_NUMBER = Expression("(SELECT last + 1 FROM log)")
"""At most the number of the batch's first event: others may commit first."""


_NO_FENCE = -1
_NO_COUNTERS = Counters(last=0, activity=0)


class PostgresTransaction(Transaction):
    """What the writes and events of one batch share. The database computes its numbers."""

    __slots__ = ("_known", "_relied", "_relies", "_workspaces", "host_of", "statistics")

    def __init__(
        self,
        sql: PostgresConnection,
        *,
        host_of: Callable[[str], str],
        known: KnownRows,
        relies: bool,
        events: tuple[KnownDurable, ...],
    ) -> None:
        """``host_of`` says for the path of a directory on which host it is; empty: on all.

        If it ``relies`` on what is ``known``, it does not read that.
        """
        super().__init__(sql, counters=_NO_COUNTERS, search=WORD_INDEX, events=events)
        self.first = _NEXT_NUMBER
        self.host_of = host_of
        self._workspaces: set[str] = set()
        self._known = known
        self._relies = relies
        self._relied: dict[str, int] = {}
        self.statistics: list[w.AddUsage | w.AddToolUse] = []
        """What the batch adds to the rows of a day. They are written last, by `write_statistics`."""

    def next_activity(self) -> Expression:
        return _NEXT_ACTIVITY

    def add_workspace(self, workspace_id: str) -> None:
        self._workspaces.add(workspace_id)

    def workspaces(self) -> set[str]:
        """The workspaces that the batch changes."""
        for run in self.runs.values():
            self.place(run.session_id)
        return self._workspaces | {place.workspace_id for place in self.places()}

    def relied_fences(self) -> dict[str, int]:
        """The fences under which the batch's facts are true, by workspace."""
        return self._relied

    def place(self, session_id: str) -> SessionPlace:
        found = self._session(session_id)
        return super().place(session_id) if found is None else found.place

    def forget_places(self) -> None:
        super().forget_places()
        self._known.clear()
        self._relies = False

    def find_run(self, run_id: str) -> Run | None:
        if self._relies:
            run = self._known.run(run_id)
            if run is not None and self._session(run.session_id) is not None:
                return run
        return super().find_run(run_id)

    def note_run(self, run: Run) -> None:
        super().note_run(run)
        if self._session(run.session_id) is not None:
            self._known.add_run(run)

    def usage(self, session_id: str) -> bytes:
        session = self._session(session_id)
        return super().usage(session_id) if session is None or session.usage is None else session.usage

    def note_usage(self, session_id: str, usage: bytes) -> None:
        super().note_usage(session_id, usage)
        session = self._session(session_id)
        if session is not None:
            session.usage = usage

    def find_message(self, message: Message) -> StoredMessage | None:
        if self._relies and not self._known.has_message(message.id):
            return None
        return super().find_message(message)

    def next_message_seq(self, session_id: str) -> int:
        session = self._session(session_id)
        if session is not None and session.last_seq is not None:
            return session.last_seq + 1
        seq = super().next_message_seq(session_id)
        if session is not None:
            session.last_seq = seq - 1
        return seq

    def note_message(self, message: Message, seq: int, *, referenced: int) -> None:
        super().note_message(message, seq, referenced=referenced)
        self._known.add_message(message.id)
        session = self._session(message.session_id)
        if session is not None and session.last_seq is not None:
            session.last_seq = max(session.last_seq, seq)

    def _session(self, session_id: str) -> KnownSession | None:
        """What is known of a session, read once. None if nothing may be relied on."""
        if not self._relies:
            return None
        found = self._known.session(session_id)
        if found is None:
            found = self._known.add_session(session_id, super().place(session_id))
            if found is not None:
                found.usage = self._usages.get(session_id)
        if found is not None:
            self._places[session_id] = found.place
            workspace_id = found.place.workspace_id
            if self._relied.setdefault(workspace_id, found.fence) != found.fence:
                self._relied[workspace_id] = _NO_FENCE
        return found


def apply_postgres_write(tx: PostgresTransaction, write: w.AnyWrite) -> None:
    match write:
        case w.PutWorkspace():
            _put_workspace(tx, write.workspace)
        case w.AddGrant():
            tx.add_workspace(write.grant.workspace_id)
            apply_write(tx, write)
        case w.RemoveGrants():
            tx.add_workspace(write.workspace_id)
            apply_write(tx, write)
        case w.AddUsage():
            usage.add_to_session(tx, write.session_id, write.usage)
            if not write.by_subagent:
                tx.statistics.append(write)
        case w.AddToolUse():
            tx.statistics.append(write)
        case _:
            apply_write(tx, write)


def write_statistics(sql: Sql, writes: Iterable[w.AddUsage | w.AddToolUse]) -> None:
    """Add to the rows of a day, which all servers share: in one order, or two servers would wait for each other."""
    for write in sorted(writes, key=_statistics_row):
        if isinstance(write, w.AddUsage):
            usage.add_to_day(sql, write)
        else:
            usage.add_tool_use(sql, write)


def _statistics_row(write: w.AddUsage | w.AddToolUse) -> tuple[str, str, str]:
    return ("model", write.day, write.model) if isinstance(write, w.AddUsage) else ("tool", write.day, write.tool)


def _put_workspace(tx: PostgresTransaction, workspace: Workspace) -> None:
    tx.sql.execute(
        "INSERT INTO workspaces (id, path, body, host_id) VALUES (?, ?, ?, ?) "
        "ON CONFLICT (id) DO UPDATE SET path = excluded.path, body = excluded.body",
        (workspace.id, workspace.path, encode(workspace), tx.host_of(workspace.path)),
    )


def workspace_at(sql: Sql, path: str, *, host_id: str) -> Workspace | None:
    row = sql.execute(
        "SELECT body FROM workspaces WHERE path = ? AND host_id IN ('', ?) ORDER BY host_id DESC LIMIT 1",
        (path, host_id),
    ).fetchone()
    return None if row is None else sessions.read_workspace(row[0])
