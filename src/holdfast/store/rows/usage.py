"""Token usage and cost: per session, and per day as statistics of models and tools."""

from __future__ import annotations

from holdfast.schema.base import LateDecoder, encode
from holdfast.schema.usage import ToolRow, Usage, UsageRow
from holdfast.store.rows.sql import Sql
from holdfast.store.rows.transaction import Transaction
from holdfast.store.writes import AddToolUse, AddUsage

_usage = LateDecoder(Usage)


def add_usage(tx: Transaction, write: AddUsage) -> None:
    add_to_session(tx, write.session_id, write.usage)
    if not write.by_subagent:
        add_to_day(tx.sql, write)


def add_to_day(sql: Sql, write: AddUsage) -> None:
    usage = write.usage
    sql.execute(
        "INSERT INTO usage_days (day, model, input, output, cache_read, cache_write, cost, estimated, runs, steps) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (day, model) DO UPDATE SET "
        "input = usage_days.input + excluded.input, output = usage_days.output + excluded.output, "
        "cache_read = usage_days.cache_read + excluded.cache_read, "
        "cache_write = usage_days.cache_write + excluded.cache_write, cost = usage_days.cost + excluded.cost, "
        "estimated = usage_days.estimated | excluded.estimated, "
        "runs = usage_days.runs + excluded.runs, steps = usage_days.steps + excluded.steps",
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


def add_to_session(tx: Transaction, session_id: str, usage: Usage) -> None:
    tx.require_session(session_id)
    total = encode(_usage.decode(tx.usage(session_id)) + usage)
    tx.sql.execute("UPDATE sessions SET usage = ? WHERE id = ?", (total, session_id))
    tx.note_usage(session_id, total)


def add_tool_use(sql: Sql, write: AddToolUse) -> None:
    sql.execute(
        "INSERT INTO tool_days (day, tool, calls, failed) VALUES (?, ?, ?, ?) "
        "ON CONFLICT (day, tool) DO UPDATE SET calls = tool_days.calls + excluded.calls, "
        "failed = tool_days.failed + excluded.failed",
        (write.day, write.tool, write.calls, write.failed),
    )


def usage_stats(sql: Sql, *, since: str, until: str) -> tuple[UsageRow, ...]:
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


def tool_stats(sql: Sql, *, since: str, until: str) -> tuple[ToolRow, ...]:
    rows = sql.execute(
        "SELECT day, tool, calls, failed FROM tool_days WHERE day BETWEEN ? AND ? ORDER BY day, tool", (since, until)
    )
    return tuple(ToolRow(*row) for row in rows)
