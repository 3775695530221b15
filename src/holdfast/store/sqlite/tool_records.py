"""What tools leave behind: jobs, todos, reads, outputs, snapshots; stored answers; what everything cost."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

import msgspec

from holdfast.errors import NotFound
from holdfast.schema.base import encode
from holdfast.schema.sessions import Job, Todo
from holdfast.schema.usage import ToolRow, Usage, UsageRow
from holdfast.store.records import CallOutput, FileSnapshot, Page, StoredResponse
from holdfast.store.sqlite import event_log, sessions
from holdfast.store.sqlite.transaction import Transaction, conflict
from holdfast.store.writes import AddToolUse, AddUsage, MoveSnapshot, PutTodos, RecordRead

_job = msgspec.json.Decoder(Job)
_todos = msgspec.json.Decoder(tuple[Todo, ...])
_snapshot = msgspec.json.Decoder(FileSnapshot)


def put_job(tx: Transaction, job: Job) -> None:
    tx.home(job.session_id)
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


def put_answer(tx: Transaction, answer: StoredResponse) -> None:
    tx.sql.execute(
        "INSERT INTO answers (key, request_hash, status, body, created_at) VALUES (?, ?, ?, ?, ?)",
        (answer.key, answer.request_hash, answer.status, answer.body, answer.created_at),
    )


def add_usage(tx: Transaction, write: AddUsage) -> None:
    sessions.add_usage(tx, write.session_id, write.usage)
    if write.by_subagent:
        return
    usage = write.usage
    tx.sql.execute(
        "INSERT INTO usage_days (day, model, input, output, cache_read, cache_write, cost, estimated, runs, steps) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (day, model) DO UPDATE SET "
        "input = input + excluded.input, output = output + excluded.output, "
        "cache_read = cache_read + excluded.cache_read, cache_write = cache_write + excluded.cache_write, "
        "cost = cost + excluded.cost, estimated = max(estimated, excluded.estimated), "
        "runs = runs + excluded.runs, steps = steps + excluded.steps",
        (
            write.day,
            write.model,
            usage.input,
            usage.output,
            usage.cache_read,
            usage.cache_write,
            usage.cost,
            usage.estimated,
            write.runs,
            write.steps,
        ),
    )


def add_tool_use(tx: Transaction, write: AddToolUse) -> None:
    tx.sql.execute(
        "INSERT INTO tool_days (day, tool, calls, failed) VALUES (?, ?, ?, ?) "
        "ON CONFLICT (day, tool) DO UPDATE SET calls = calls + excluded.calls, failed = failed + excluded.failed",
        (write.day, write.tool, write.calls, write.failed),
    )


def prune_responses(sql: sqlite3.Connection, before: str) -> int:
    return sql.execute("DELETE FROM answers WHERE created_at < ?", (before,)).rowcount


def job(sql: sqlite3.Connection, job_id: str) -> Job:
    row = sql.execute("SELECT body FROM jobs WHERE id = ?", (job_id,)).fetchone()
    if row is None:
        raise NotFound(f"job {job_id!r} does not exist", code="job_not_found")
    return _job.decode(row[0])


def jobs(sql: sqlite3.Connection, *, workspace_id: str | None, running: bool) -> Page[Job]:
    rows = sql.execute(
        "SELECT body FROM jobs WHERE (:workspace IS NULL OR workspace_id = :workspace) "
        "AND (NOT :running OR state = 'running') ORDER BY n",
        {"workspace": workspace_id, "running": running},
    )
    return Page(items=tuple(_job.decode(body) for (body,) in rows), at=event_log.last_number(sql))


def todos(sql: sqlite3.Connection, session_id: str) -> tuple[Todo, ...]:
    row = sql.execute("SELECT body FROM todos WHERE session_id = ?", (session_id,)).fetchone()
    return _todos.decode(row[0]) if row else ()


def read_hash(sql: sqlite3.Connection, session_id: str, path: str) -> str | None:
    row = sql.execute("SELECT content_hash FROM reads WHERE session_id = ? AND path = ?", (session_id, path)).fetchone()
    return row[0] if row else None


def call_output(sql: sqlite3.Connection, call_id: str) -> CallOutput:
    row = sql.execute(
        "SELECT call_id, session_id, path, size, message_id FROM call_outputs WHERE call_id = ?", (call_id,)
    ).fetchone()
    if row is None:
        raise NotFound(f"call {call_id!r} has no stored output", code="call_not_found")
    return CallOutput(*row)


def snapshots(sql: sqlite3.Connection, session_id: str, *, path: str | None) -> tuple[FileSnapshot, ...]:
    rows = sql.execute(
        "SELECT body FROM snapshots WHERE session_id = :session AND (:path IS NULL OR path = :path) ORDER BY seq",
        {"session": session_id, "path": path},
    )
    return tuple(_snapshot.decode(body) for (body,) in rows)


def known_contents(sql: sqlite3.Connection, hashes: Iterable[str]) -> frozenset[str]:
    rows = sql.execute(
        "SELECT value FROM json_each(?) WHERE EXISTS (SELECT 1 FROM snapshots WHERE before = value) "
        "OR EXISTS (SELECT 1 FROM snapshots WHERE after = value)",
        (encode(list(hashes)).decode(),),
    )
    return frozenset(row[0] for row in rows)


def answer(sql: sqlite3.Connection, key: str) -> StoredResponse | None:
    row = sql.execute(
        "SELECT key, request_hash, status, body, created_at FROM answers WHERE key = ?", (key,)
    ).fetchone()
    return StoredResponse(*row) if row else None


def usage_stats(sql: sqlite3.Connection, *, since: str, until: str) -> tuple[UsageRow, ...]:
    rows = sql.execute(
        "SELECT day, model, input, output, cache_read, cache_write, cost, estimated, runs, steps FROM usage_days "
        "WHERE day BETWEEN ? AND ? ORDER BY day, model",
        (since, until),
    )
    return tuple(
        UsageRow(
            day=row[0],
            model=row[1],
            usage=Usage(
                input=row[2], output=row[3], cache_read=row[4], cache_write=row[5], cost=row[6], estimated=bool(row[7])
            ),
            runs=row[8],
            steps=row[9],
        )
        for row in rows
    )


def tool_stats(sql: sqlite3.Connection, *, since: str, until: str) -> tuple[ToolRow, ...]:
    rows = sql.execute(
        "SELECT day, tool, calls, failed FROM tool_days WHERE day BETWEEN ? AND ? ORDER BY day, tool", (since, until)
    )
    return tuple(ToolRow(*row) for row in rows)
