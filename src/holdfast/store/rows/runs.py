"""Runs and lanes. The body of a row holds the whole run; the other columns serve conditions and indexes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from holdfast.errors import Gone, NotFound
from holdfast.schema.base import LateDecoder, encode
from holdfast.schema.messages import text_of
from holdfast.schema.runs import END_STATES, Run, RunState
from holdfast.store.public_events import run_without_text
from holdfast.store.records import LaneRecord, LaneRow, Page, RunRecord
from holdfast.store.rows import environments, event_log
from holdfast.store.rows.row_bodies import read_run
from holdfast.store.rows.sql import Sql
from holdfast.store.rows.transaction import Transaction, conflict, require_session
from holdfast.store.writes import EndRun, InsertRun, UpdateRun, apply_run_write

_run = LateDecoder(Run)


def insert(tx: Transaction, write: InsertRun) -> None:
    run = write.run
    tx.require_session(run.session_id)
    tx.sql.execute(
        "INSERT INTO runs (id, session_id, seq, state, live, floor, body_hash, verdict, position, host_run_id, "
        "environment, body) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            run.id,
            run.session_id,
            run.seq,
            run.state,
            run.state not in END_STATES,
            tx.first,
            write.body_hash,
            write.decision,
            write.position,
            write.host_run_id,
            None if write.environment is None else environments.put(tx, write.environment),
            encode(run),
        ),
    )
    tx.note_run(run)
    if tx.make_newest(run.session_id):
        tx.sql.execute("UPDATE sessions SET activity = ? WHERE id = ?", (tx.next_activity(), run.session_id))


def update(tx: Transaction, write: UpdateRun) -> None:
    before = _expected(tx, write)
    after = apply_run_write(before, write)
    if after.prompt != before.prompt:
        event_log.complete_events_of_run(tx, before)
    _write(tx, after)


def end(tx: Transaction, write: EndRun) -> None:
    """Store the end. The answer is left out of the row if it is the text of a message of the same batch."""
    run = apply_run_write(_expected(tx, write), write)
    answer = tx.messages.get(run.message_id or "")
    if run.text and answer is not None and text_of(answer.parts) == run.text:
        _write(tx, msgspec.structs.replace(run, text=""), text_from=answer.id)
        tx.runs[run.id] = run
    else:
        _write(tx, run)


def _expected(tx: Transaction, write: UpdateRun | EndRun) -> Run:
    run = tx.find_run(write.run_id)
    if run is None:
        raise conflict(f"run {write.run_id!r} does not exist", run_id=write.run_id, state=None)
    if run.state not in write.expect:
        raise conflict(
            f"run {run.id!r} is {run.state}, not {' or '.join(write.expect)}", run_id=run.id, state=run.state
        )
    return run


def _write(tx: Transaction, run: Run, *, text_from: str | None = None) -> None:
    tx.note_run(run)
    tx.sql.execute(
        "UPDATE runs SET state = ?, live = ?, body = ?, text_from = ? WHERE id = ?",
        (run.state, run.state not in END_STATES, encode(run), text_from, run.id),
    )


def insert_lane(tx: Transaction, lane: LaneRow) -> None:
    tx.sql.execute(
        "INSERT INTO lanes (session_id, next_seq, mark, hold, last_end, lifecycle) VALUES (?, ?, ?, ?, ?, ?)",
        (lane.session_id, lane.next_seq, lane.mark, lane.hold, lane.last_end, lane.lifecycle),
    )


def set_lane(tx: Transaction, lane: LaneRow) -> None:
    tx.place(lane.session_id)
    tx.sql.execute(
        "UPDATE lanes SET next_seq = ?, mark = ?, hold = ?, last_end = ?, lifecycle = ? WHERE session_id = ?",
        (lane.next_seq, lane.mark, lane.hold, lane.last_end, lane.lifecycle, lane.session_id),
    )


def unfinished_ids(sql: Sql, session_id: str) -> list[str]:
    return [row[0] for row in sql.execute("SELECT id FROM runs WHERE session_id = ? AND live = 1", (session_id,))]


def remove_text(tx: Transaction, session_id: str) -> None:
    """Keep of each run only its id, body hash and end."""
    environments.remove_of_session(tx, session_id)
    for (body,) in tx.sql.execute("SELECT body FROM runs WHERE session_id = ?", (session_id,)).fetchall():
        kept = run_without_text(_run.decode(body))
        tx.sql.execute("UPDATE runs SET body = ?, text_from = NULL WHERE id = ?", (encode(kept), kept.id))


def run(sql: Sql, run_id: str) -> Run:
    record = run_record(sql, run_id)
    if record is None:
        raise NotFound(f"run {run_id!r} does not exist", code="run_not_found")
    if record.deleted:
        raise Gone(f"the session of run {run_id!r} was deleted")
    return record.run


def run_record(sql: Sql, run_id: str) -> RunRecord | None:
    row = sql.execute(
        "SELECT runs.body, text_from, workspace_id, body_hash, verdict, position, host_run_id, deleted_at IS NOT NULL "
        "FROM runs JOIN sessions ON sessions.id = session_id WHERE runs.id = ?",
        (run_id,),
    ).fetchone()
    if row is None:
        return None
    body, text_from, workspace_id, body_hash, verdict, position, host_run_id, deleted = row
    return RunRecord(
        run=read_run(sql, body, text_from),
        workspace_id=workspace_id,
        body_hash=body_hash,
        decision=verdict,
        position=position,
        host_run_id=host_run_id,
        deleted=bool(deleted),
    )


def runs(sql: Sql, session_id: str, *, limit: int, before: int | None, states: Iterable[RunState] | None) -> Page[Run]:
    require_session(sql, session_id)
    wanted = None if states is None else encode(list(states)).decode()
    rows = sql.execute(
        "SELECT body, text_from FROM runs WHERE session_id = :session AND (:before IS NULL OR seq < :before) "
        "AND (:states IS NULL OR state IN (SELECT value FROM json_each(:states))) ORDER BY seq DESC LIMIT :limit",
        {"session": session_id, "before": before, "states": wanted, "limit": limit + 1},
    ).fetchall()
    found = tuple(read_run(sql, body, text_from) for body, text_from in rows[:limit])
    return Page(items=found, at=event_log.last_number(sql), next=found[-1].seq if len(rows) > limit else None)


def lane(sql: Sql, session_id: str) -> LaneRecord:
    require_session(sql, session_id)
    *fields, workspace_id = sql.execute(
        "SELECT session_id, next_seq, mark, hold, last_end, lifecycle, workspace_id FROM lanes "
        "JOIN sessions ON sessions.id = session_id WHERE session_id = ?",
        (session_id,),
    ).fetchone()
    return LaneRecord(
        lane=LaneRow(*fields),
        runs=unfinished(sql, workspace_id=None, session_id=session_id),
        workspace_id=workspace_id,
    )


def unfinished(sql: Sql, *, workspace_id: str | None, session_id: str | None) -> tuple[Run, ...]:
    rows: Iterable[Any]
    if session_id is not None:
        rows = sql.execute("SELECT body FROM runs WHERE session_id = ? AND live = 1 ORDER BY seq", (session_id,))
    else:
        rows = sql.execute(
            "SELECT runs.body FROM runs JOIN sessions ON sessions.id = session_id "
            "WHERE live = 1 AND (:workspace IS NULL OR workspace_id = :workspace) ORDER BY session_id, seq",
            {"workspace": workspace_id},
        )
    return tuple(_run.decode(body) for (body,) in rows)
