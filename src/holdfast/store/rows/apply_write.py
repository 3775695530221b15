"""The one `match` over all writes."""

from __future__ import annotations

from typing import assert_never

from holdfast.store import writes as w
from holdfast.store.rows import (
    approvals,
    audit,
    messages,
    people,
    runs,
    sessions,
    stored_responses,
    tokens,
    tool_records,
    usage,
)
from holdfast.store.rows.transaction import Transaction


def apply_write(tx: Transaction, write: w.AnyWrite) -> None:  # noqa: PLR0915 - one line per kind
    match write:
        case w.PutMessage():
            messages.put(tx, write.message, attempt=write.attempt)
        case w.UpdateRun():
            runs.update(tx, write)
        case w.EndRun():
            runs.end(tx, write)
        case w.InsertRun():
            runs.insert(tx, write)
        case w.SetLane():
            runs.set_lane(tx, write.lane)
        case w.AddAudit():
            audit.add(tx, write)
        case w.EndAudit():
            audit.end(tx, write)
        case w.AddUsage():
            usage.add_usage(tx, write)
        case w.PutSession():
            sessions.put(tx, write.session, lane=write.lane)
        case w.AddToolUse():
            usage.add_tool_use(tx.sql, write)
        case w.RecordRead():
            tool_records.record_read(tx, write)
        case w.PutWorkspace():
            sessions.put_workspace(tx, write.workspace)
        case w.UpdateSession():
            sessions.update(tx, write)
        case w.DeleteSession():
            sessions.delete(tx, write)
        case w.OpenApproval():
            approvals.open_approval(tx, write.approval)
        case w.ResolveApproval():
            approvals.resolve_approval(tx, write)
        case w.OpenQuestion():
            approvals.open_question(tx, write.question)
        case w.ResolveQuestion():
            approvals.resolve_question(tx, write)
        case w.AddGrant():
            approvals.add_grant(tx, write.grant)
        case w.RemoveGrants():
            approvals.remove_grants(tx, write)
        case w.PutJob():
            tool_records.put_job(tx, write.job)
        case w.PutTodos():
            tool_records.put_todos(tx, write)
        case w.PutCallOutput():
            tool_records.put_call_output(tx, write.output)
        case w.PutSnapshot():
            tool_records.put_snapshot(tx, write.snapshot)
        case w.MoveSnapshot():
            tool_records.move_snapshot(tx, write)
        case w.PutResponse():
            stored_responses.put(tx, write.response)
        case w.PutToken():
            tokens.put(tx, write.token)
        case w.PutPerson():
            people.put(tx, write.person)
        case _:
            assert_never(write)
