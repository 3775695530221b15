"""The audit: one row for each request that changes something."""

from __future__ import annotations

from holdfast.schema.audit import AuditEntry
from holdfast.store.records import AuditFilter
from holdfast.store.rows.sql import Sql
from holdfast.store.rows.transaction import Transaction
from holdfast.store.writes import AddAudit, EndAudit

PRUNE_BATCH = 2000


def add(tx: Transaction, write: AddAudit) -> None:
    tx.sql.execute(
        "INSERT INTO audit (id, at, person, device_id, client, action, target) VALUES (?, ?, ?, ?, ?, ?, ?)",
        (write.id, write.at, write.person, write.device_id, write.client, write.action, write.target),
    )


def end(tx: Transaction, write: EndAudit) -> None:
    tx.sql.execute(
        "UPDATE audit SET status = ?, code = ?, made = ? WHERE id = ?",
        (write.status, write.code, write.made, write.id),
    )


_WANTED = """SELECT n, id, at, person, device_id, client, action, target, status, code, made FROM audit
    WHERE n > :after AND n < :before
        AND (:since = '' OR at >= :since) AND (:person = '' OR person = :person)
        AND (:device = '' OR device_id = :device) AND (:failed = 0 OR status >= 400)
        AND (:target = '' OR target LIKE :pattern ESCAPE '!' OR made = :target)"""
_OLDEST_FIRST = f"{_WANTED} ORDER BY n LIMIT :limit"
_NEWEST_FIRST = f"{_WANTED} ORDER BY n DESC LIMIT :limit"
_END = 1 << 62


def entries(
    sql: Sql, *, limit: int, before: int | None, after: int | None, wanted: AuditFilter
) -> tuple[AuditEntry, ...]:
    """Entries before a number, the newest first, or after a number, the oldest first."""
    target = wanted.target or ""
    escaped = target.replace("!", "!!").replace("%", "!%").replace("_", "!_")
    parameters = {
        "after": -1 if after is None else after,
        "before": _END if before is None else before,
        "since": wanted.since or "",
        "person": wanted.person or "",
        "device": wanted.device_id or "",
        "failed": int(wanted.failed),
        "target": target,
        "pattern": f"%{escaped}%",
        "limit": limit,
    }
    rows = sql.execute(_NEWEST_FIRST if after is None else _OLDEST_FIRST, parameters).fetchall()
    return tuple(AuditEntry(*row) for row in rows)


def prune(sql: Sql, before: str) -> int:
    """Remove some of the entries older than the time. Return how many."""
    oldest = sql.execute("SELECT n, at FROM audit ORDER BY n LIMIT ?", (PRUNE_BATCH,)).fetchall()
    old = [number for number, at in oldest if at < before]
    if old:
        sql.execute("DELETE FROM audit WHERE n <= ? AND at < ?", (max(old), before))
    return len(old)
