"""The variables that clients sent with runs, each set once."""

from __future__ import annotations

import msgspec

from holdfast.digests import sha256_hex
from holdfast.schema.base import LateDecoder
from holdfast.store.rows.sql import Sql
from holdfast.store.rows.transaction import Transaction

_variables = LateDecoder(dict[str, str])
_canonical_json = msgspec.json.Encoder(order="sorted")


def put(tx: Transaction, environment: dict[str, str]) -> str:
    """Store the variables. Returns what the row of a run names them by."""
    body = _canonical_json.encode(environment)
    digest = sha256_hex(body)
    tx.sql.execute("INSERT INTO environments (digest, body) VALUES (?, ?) ON CONFLICT DO NOTHING", (digest, body))
    return digest


def remove_of_session(tx: Transaction, session_id: str) -> None:
    digests = tx.sql.execute(
        "SELECT DISTINCT environment FROM runs WHERE session_id = ? AND environment IS NOT NULL", (session_id,)
    ).fetchall()
    tx.sql.execute("UPDATE runs SET environment = NULL WHERE session_id = ?", (session_id,))
    tx.sql.executemany(
        "DELETE FROM environments WHERE digest = ? AND NOT EXISTS (SELECT 1 FROM runs WHERE environment = digest)",
        digests,
    )


def of_run(sql: Sql, run_id: str) -> dict[str, str] | None:
    """What was sent with the run, or with the last run before it in its session; ``None`` if nothing was."""
    row = sql.execute(
        "SELECT environments.body FROM runs AS this JOIN runs AS sent ON sent.session_id = this.session_id "
        "JOIN environments ON digest = sent.environment "
        "WHERE this.id = ? AND sent.seq <= this.seq ORDER BY sent.seq DESC LIMIT 1",
        (run_id,),
    ).fetchone()
    return None if row is None else _variables.decode(row[0])
