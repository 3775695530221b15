"""Decodes the bodies of rows that others refer to: messages, and runs that leave out their answer."""

from __future__ import annotations

import sqlite3

import msgspec

from holdfast.schema.messages import Message, read_message, text_of
from holdfast.schema.runs import Run

_run = msgspec.json.Decoder(Run)


def referenced_message(sql: sqlite3.Connection, message_id: str) -> Message:
    row = sql.execute("SELECT body FROM messages WHERE id = ?", (message_id,)).fetchone()
    if row is None:
        raise sqlite3.DatabaseError(f"a row refers to message {message_id!r}, which does not exist")
    return read_message(row[0])


def referenced_run(sql: sqlite3.Connection, run_id: str) -> Run:
    row = sql.execute("SELECT body, text_from FROM runs WHERE id = ?", (run_id,)).fetchone()
    if row is None:
        raise sqlite3.DatabaseError(f"an event refers to run {run_id!r}, which does not exist")
    return read_run(sql, *row)


def read_run(sql: sqlite3.Connection, body: bytes, text_from: str | None) -> Run:
    """Decode a run, with the answer that its row leaves out."""
    run = _run.decode(body)
    if text_from is None:
        return run
    return msgspec.structs.replace(run, text=text_of(referenced_message(sql, text_from).parts))
