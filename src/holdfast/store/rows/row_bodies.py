"""Decodes the bodies of rows that others refer to: messages, and runs that leave out their answer."""

from __future__ import annotations

import msgspec

from holdfast.errors import StoreDamaged
from holdfast.schema.base import LateDecoder
from holdfast.schema.messages import Message, read_message, text_of
from holdfast.schema.runs import Run
from holdfast.store.rows.sql import Sql

_run = LateDecoder(Run)


def referenced_message(sql: Sql, message_id: str) -> Message:
    row = sql.execute("SELECT body FROM messages WHERE id = ?", (message_id,)).fetchone()
    if row is None:
        raise StoreDamaged(f"a row refers to message {message_id!r}, which does not exist; restore a backup")
    return read_message(row[0])


def referenced_run(sql: Sql, run_id: str) -> Run:
    row = sql.execute("SELECT body, text_from FROM runs WHERE id = ?", (run_id,)).fetchone()
    if row is None:
        raise StoreDamaged(f"an event refers to run {run_id!r}, which does not exist; restore a backup")
    return read_run(sql, *row)


def read_run(sql: Sql, body: bytes, text_from: str | None) -> Run:
    """Decode a run, with the answer that its row leaves out."""
    run = _run.decode(body)
    if text_from is None:
        return run
    return msgspec.structs.replace(run, text=text_of(referenced_message(sql, text_from).parts))
