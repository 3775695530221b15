"""Records of tools: jobs, todos, file reads, call outputs, file snapshots."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from holdfast.errors import NotFound
from holdfast.schema.base import LateDecoder, encode
from holdfast.schema.sessions import Job, Todo
from holdfast.store.records import CallOutput, FileSnapshot, Page
from holdfast.store.rows import event_log
from holdfast.store.rows.sql import Sql
from holdfast.store.rows.transaction import Transaction, conflict
from holdfast.store.writes import MoveSnapshot, PutTodos, RecordRead

_job = LateDecoder(Job)
_todos = LateDecoder(tuple[Todo, ...])
_snapshot = LateDecoder(FileSnapshot)


def put_job(tx: Transaction, job: Job) -> None:
    tx.place(job.session_id)
    tx.sql.execute(
        "INSERT INTO jobs (id, workspace_id, session_id, state, body) VALUES (?, ?, ?, ?, ?) "
        "ON CONFLICT (id) DO UPDATE SET state = excluded.state, body = excluded.body",
        (job.id, job.workspace_id, job.session_id, job.state, encode(job)),
    )


def put_todos(tx: Transaction, write: PutTodos) -> None:
    tx.require_session(write.session_id)
    tx.sql.execute(
        "INSERT INTO todos (session_id, body) VALUES (?, ?) "
        "ON CONFLICT (session_id) DO UPDATE SET body = excluded.body",
        (write.session_id, encode(write.todos)),
    )


def record_read(tx: Transaction, write: RecordRead) -> None:
    tx.require_session(write.session_id)
    tx.sql.execute(
        "INSERT INTO reads (session_id, path, content_hash) VALUES (?, ?, ?) "
        "ON CONFLICT (session_id, path) DO UPDATE SET content_hash = excluded.content_hash",
        (write.session_id, write.path, write.content_hash),
    )


def put_call_output(tx: Transaction, output: CallOutput) -> None:
    tx.require_session(output.session_id)
    tx.sql.execute(
        "INSERT INTO call_outputs (call_id, session_id, path, size, message_id) VALUES (?, ?, ?, ?, ?) "
        "ON CONFLICT (call_id) DO UPDATE SET path = excluded.path, size = excluded.size",
        (output.call_id, output.session_id, output.path, output.size, output.message_id),
    )


def put_snapshot(tx: Transaction, snapshot: FileSnapshot) -> None:
    tx.require_session(snapshot.session_id)
    (last,) = tx.sql.execute("SELECT max(seq) FROM snapshots WHERE session_id = ?", (snapshot.session_id,)).fetchone()
    snapshot = msgspec.structs.replace(snapshot, seq=snapshot.seq or int(last or 0) + 1)
    tx.sql.execute(
        "INSERT INTO snapshots (id, session_id, seq, path, before, after, state, body) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (
            snapshot.id,
            snapshot.session_id,
            snapshot.seq,
            snapshot.path,
            snapshot.before,
            snapshot.after,
            snapshot.state,
            encode(snapshot),
        ),
    )
    tx.seqs[snapshot.id] = snapshot.seq


def move_snapshot(tx: Transaction, write: MoveSnapshot) -> None:
    row = tx.sql.execute("SELECT body FROM snapshots WHERE id = ?", (write.snapshot_id,)).fetchone()
    snapshot = _snapshot.decode(row[0]) if row else None
    if snapshot is None or snapshot.state != write.expect:
        found = snapshot.state if snapshot else "gone"
        raise conflict(f"snapshot {write.snapshot_id!r} is {found}, not {write.expect}", id=write.snapshot_id)
    moved = msgspec.structs.replace(snapshot, state=write.state)
    tx.sql.execute("UPDATE snapshots SET state = ?, body = ? WHERE id = ?", (moved.state, encode(moved), moved.id))


def job(sql: Sql, job_id: str) -> Job:
    row = sql.execute("SELECT body FROM jobs WHERE id = ?", (job_id,)).fetchone()
    if row is None:
        raise NotFound(f"job {job_id!r} does not exist", code="job_not_found")
    return _job.decode(row[0])


def jobs(sql: Sql, *, workspace_id: str | None, running: bool) -> Page[Job]:
    rows = sql.execute(
        "SELECT body FROM jobs WHERE (:workspace IS NULL OR workspace_id = :workspace) "
        "AND (:running = 0 OR state = 'running') ORDER BY n",
        {"workspace": workspace_id, "running": running},
    )
    return Page(items=tuple(_job.decode(body) for (body,) in rows), at=event_log.last_number(sql))


def todos(sql: Sql, session_id: str) -> tuple[Todo, ...]:
    row = sql.execute("SELECT body FROM todos WHERE session_id = ?", (session_id,)).fetchone()
    return _todos.decode(row[0]) if row else ()


def read_hash(sql: Sql, session_id: str, path: str) -> str | None:
    row = sql.execute("SELECT content_hash FROM reads WHERE session_id = ? AND path = ?", (session_id, path)).fetchone()
    return row[0] if row else None


def read_hashes(sql: Sql, session_id: str) -> tuple[tuple[str, str], ...]:
    found = sql.execute("SELECT path, content_hash FROM reads WHERE session_id = ? ORDER BY path", (session_id,))
    return tuple(found)


def call_output(sql: Sql, call_id: str) -> CallOutput:
    row = sql.execute(
        "SELECT call_id, session_id, path, size, message_id FROM call_outputs WHERE call_id = ?", (call_id,)
    ).fetchone()
    if row is None:
        raise NotFound(f"call {call_id!r} has no stored output", code="call_not_found")
    return CallOutput(*row)


def snapshots(sql: Sql, session_id: str, *, path: str | None) -> tuple[FileSnapshot, ...]:
    rows = sql.execute(
        "SELECT body FROM snapshots WHERE session_id = :session AND (:path IS NULL OR path = :path) ORDER BY seq",
        {"session": session_id, "path": path},
    )
    return tuple(_snapshot.decode(body) for (body,) in rows)


def known_contents(sql: Sql, hashes: Iterable[str]) -> frozenset[str]:
    rows = sql.execute(
        "SELECT value FROM json_each(?) WHERE EXISTS (SELECT 1 FROM snapshots WHERE before = value) "
        "OR EXISTS (SELECT 1 FROM snapshots WHERE after = value)",
        (encode(list(hashes)).decode(),),
    )
    return frozenset(row[0] for row in rows)
