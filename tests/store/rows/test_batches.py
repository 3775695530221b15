"""A batch writes the rows that its writes would make one by one, and reads and writes each row once."""

import itertools
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.schema.events import (
    MessageCreated,
    MessageFinished,
    MessageUpdated,
    RunAccepted,
    RunFinished,
    RunStarted,
    SessionCreated,
)
from holdfast.schema.messages import Context, Finish, Text
from holdfast.schema.runs import Outcome
from holdfast.schema.sessions import Session
from holdfast.schema.usage import Usage
from holdfast.store import Batch, LaneRow, apply_run_write
from holdfast.store import writes as w
from holdfast.store.rows import event_log
from holdfast.store.rows.apply_write import apply_write
from holdfast.store.rows.transaction import Counters, Transaction
from holdfast.store.sqlite.database_file import ensure_search, migrate
from holdfast.store.sqlite.search_index import FTS5_INDEX
from tests.store.batches import AT, a_message, a_run, new_workspace

SESSION = Session(id="ses_1", workspace_id="wsp_1", title="Bench", created_at=AT, updated_at=AT)
RUN = a_run(prompt="go on")
START = w.UpdateRun(run_id=RUN.id, expect=("queued",), state="active", started_at=AT)
STARTED = apply_run_write(RUN, START)
PROMPT = a_message("msg_1", Text("go on"), role="user")
WITH_CONTEXT = replace(PROMPT, parts=(Context(blocks=("system",), changed="today is Monday"), *PROMPT.parts))
OPEN = a_message("msg_2")
ANSWER = replace(OPEN, parts=(Text("done"), Finish("end_turn")))
END = w.EndRun(
    run_id=RUN.id,
    expect=("active",),
    outcome=Outcome("completed", "end_turn", "done", "msg_2"),
    finished_at=AT,
    usage=Usage(input=3),
    steps=1,
)


def used(count: int) -> w.AddUsage:
    return w.AddUsage(session_id="ses_1", day="2026-01-01", model="m", usage=Usage(input=count), runs=1, steps=1)


TURN = (
    Batch((w.PutSession(SESSION, LaneRow("ses_1", next_seq=2)),), (SessionCreated(AT, "ses_1", SESSION),)),
    Batch((w.InsertRun(run=RUN, body_hash="hash", decision="started"),), (RunAccepted(AT, "ses_1", RUN),)),
    Batch((START,), (RunStarted(AT, "ses_1", STARTED),)),
    Batch((w.PutMessage(PROMPT),), (MessageCreated(AT, "ses_1", PROMPT),)),
    Batch((w.PutMessage(WITH_CONTEXT),), (MessageUpdated(AT, "ses_1", WITH_CONTEXT),)),
    Batch((w.PutMessage(OPEN),), (MessageCreated(AT, "ses_1", OPEN),)),
    Batch((used(1),)),
    Batch((used(2),)),
    Batch(
        (w.PutMessage(ANSWER), END),
        (MessageFinished(AT, "ses_1", ANSWER), RunFinished(AT, "ses_1", apply_run_write(STARTED, END))),
    ),
)


def joined(batches: Sequence[Batch]) -> Batch:
    return Batch(
        tuple(write for batch in batches for write in batch.writes),
        tuple(event for batch in batches for event in batch.events),
    )


def all_joins(batches: Sequence[Batch]) -> Iterator[list[Batch]]:
    """Every way to join neighbours, from one batch of all to each alone."""
    for cuts in itertools.product((False, True), repeat=len(batches) - 1):
        edges = [0, *(place for place, cut in enumerate(cuts, 1) if cut), len(batches)]
        yield [joined(batches[start:end]) for start, end in itertools.pairwise(edges)]


class Ledger:
    """A database in memory."""

    def __init__(self) -> None:
        self.sql = sqlite3.connect(":memory:", isolation_level=None)
        self.counters = Counters(last=0, activity=0)
        migrate(self.sql)
        ensure_search(self.sql)
        self.sql.execute("PRAGMA foreign_keys = ON")
        self.commit(new_workspace())

    def commit(self, batch: Batch) -> list[bytes]:
        """Returns the events as they are published."""
        tx = Transaction(self.sql, counters=self.counters, search=FTS5_INDEX, events=batch.events)
        for write in batch.writes:
            apply_write(tx, write)
        events = event_log.append(tx, batch.events)
        event_log.set_last_number(self.sql, self.counters.last)
        return [event.body for event in events]

    def statements(self, batch: Batch) -> list[str]:
        found: list[str] = []
        self.sql.set_trace_callback(found.append)
        self.commit(batch)
        self.sql.set_trace_callback(None)
        return [" ".join(statement.split()) for statement in found]

    def rows(self) -> dict[str, list[Any]]:
        """What does not depend on when it was committed."""
        return {name: self.sql.execute(query).fetchall() for name, query in ROWS.items()}

    def log(self) -> list[bytes]:
        page = event_log.events_after(
            self.sql, 0, upto=1000, workspace_id=None, session_id=None, limit=1000, max_bytes=1 << 30
        )
        return [event.body for event in page.events]


ROWS = {
    "sessions": "SELECT id, workspace_id, root_id, title, usage, activity > 0 FROM sessions",
    "lanes": "SELECT * FROM lanes",
    "runs": "SELECT id, session_id, seq, state, live, body_hash, verdict, position, host_run_id, body, text_from "
    "FROM runs",
    "messages": "SELECT n, id, session_id, seq, summary, attempt, body FROM messages",
    "message_text": "SELECT n, text, indexed FROM message_text",
    "usage_days": "SELECT * FROM usage_days",
}

TOO_FEW_REFERENCED = (
    "SELECT 1 FROM events JOIN messages ON messages.id = source WHERE first_part + part_count > referenced"
)


@pytest.fixture
def ledger() -> Iterator[Ledger]:
    made = Ledger()
    with closing(made.sql):
        yield made


def test_however_the_batches_of_a_turn_are_joined_its_rows_and_its_log_are_the_same(ledger: Ledger) -> None:
    found: list[tuple[dict[str, list[Any]], list[bytes]]] = []
    for batches in all_joins(TURN):
        ledger.sql.execute("BEGIN")
        ledger.counters.last = 0
        published = [body for batch in batches for body in ledger.commit(batch)]
        assert ledger.log() == published, "what is replayed is what was published"
        assert ledger.sql.execute(TOO_FEW_REFERENCED).fetchone() is None
        found.append((ledger.rows(), published))
        ledger.sql.execute("ROLLBACK")
    assert len(found) == 2 ** (len(TURN) - 1)
    assert all(one == found[-1] for one in found)
    assert found[-1][0]["runs"][0][-1] == "msg_2", "the answer is stored once"
    assert b'"input":3' in found[-1][0]["sessions"][0][4]


def test_the_first_commit_of_a_session_reads_nothing_and_writes_each_row_once(ledger: Ledger) -> None:
    active = w.InsertRun(run=STARTED, body_hash="hash", decision="started")
    statements = ledger.statements(joined([TURN[0], Batch((active,), TURN[1].events), TURN[3]]))
    inserts = ("sessions", "lanes", "runs", "messages", "message_text", *["events"] * 3)
    assert [statement.split(" (")[0] for statement in statements[:-1]] == [f"INSERT INTO {name}" for name in inserts]
    assert statements[-1] == "UPDATE log SET last = 3"


def test_the_last_commit_of_a_run_reads_its_session_message_and_run_once_and_writes_each_row_once(
    ledger: Ledger,
) -> None:
    ledger.commit(joined(TURN[:6]))
    statements = ledger.statements(joined(TURN[7:]))
    assert [statement.split(" WHERE")[0].split(" SET")[0].split(" (")[0][:40] for statement in statements] == [
        "SELECT workspace_id, root_id, deleted_at",
        "UPDATE sessions",
        "INSERT INTO usage_days",
        "SELECT messages.n, session_id, seq, refe",
        "UPDATE messages",
        "INSERT INTO message_text",
        "SELECT body FROM runs",
        "UPDATE runs",
        "INSERT INTO events",
        "INSERT INTO events",
        "UPDATE log",
    ]


def test_a_session_that_is_not_the_newest_of_its_batch_becomes_it_with_a_run(ledger: Ledger) -> None:
    other = replace(SESSION, id="ses_2")
    insert = w.InsertRun(run=RUN, body_hash="hash", decision="queued")
    ledger.commit(Batch((w.PutSession(SESSION), w.PutSession(other), insert)))
    assert ledger.sql.execute("SELECT id FROM sessions ORDER BY activity").fetchall() == [("ses_2",), ("ses_1",)]
