"""Approvals, questions and grants."""

from __future__ import annotations

import msgspec

from holdfast.errors import NotFound
from holdfast.schema.approvals import Approval, Grant, Question
from holdfast.schema.base import LateDecoder, encode
from holdfast.store.records import Page
from holdfast.store.rows import event_log
from holdfast.store.rows.sql import Sql
from holdfast.store.rows.transaction import Transaction, conflict
from holdfast.store.writes import RemoveGrants, ResolveApproval, ResolveQuestion

_approval = LateDecoder(Approval)
_question = LateDecoder(Question)
_grant = LateDecoder(Grant)


def open_approval(tx: Transaction, approval: Approval) -> None:
    tx.require_session(approval.session_id)
    tx.sql.execute(
        "INSERT INTO approvals (id, workspace_id, session_id, run_id, state, body) VALUES (?, ?, ?, ?, ?, ?)",
        (
            approval.id,
            approval.workspace_id,
            approval.session_id,
            approval.run_id,
            approval.state,
            encode(approval),
        ),
    )


def resolve_approval(tx: Transaction, write: ResolveApproval) -> None:
    row = tx.sql.execute("SELECT body FROM approvals WHERE id = ?", (write.approval_id,)).fetchone()
    if row is None:
        raise conflict(f"approval {write.approval_id!r} does not exist", id=write.approval_id, state=None)
    approval = _approval.decode(row[0])
    if approval.state != "open":
        raise _already_closed(write.approval_id, approval.state, approval.answered_by)
    resolved = msgspec.structs.replace(
        approval,
        state=write.state,
        decision=write.decision,
        pattern=write.pattern,
        scope=write.scope,
        feedback=write.feedback,
        answered_by=write.answered_by,
        resolved_at=write.resolved_at,
    )
    tx.sql.execute(
        "UPDATE approvals SET state = ?, body = ? WHERE id = ?", (resolved.state, encode(resolved), resolved.id)
    )


def open_question(tx: Transaction, question: Question) -> None:
    tx.require_session(question.session_id)
    tx.sql.execute(
        "INSERT INTO questions (id, workspace_id, session_id, run_id, state, body) VALUES (?, ?, ?, ?, ?, ?)",
        (
            question.id,
            question.workspace_id,
            question.session_id,
            question.run_id,
            question.state,
            encode(question),
        ),
    )


def resolve_question(tx: Transaction, write: ResolveQuestion) -> None:
    row = tx.sql.execute("SELECT body FROM questions WHERE id = ?", (write.question_id,)).fetchone()
    if row is None:
        raise conflict(f"question {write.question_id!r} does not exist", id=write.question_id, state=None)
    question = _question.decode(row[0])
    if question.state != "open":
        raise _already_closed(write.question_id, question.state, question.answered_by)
    resolved = msgspec.structs.replace(
        question,
        state=write.state,
        answers=write.answers,
        dismissed=write.dismissed,
        answered_by=write.answered_by,
        resolved_at=write.resolved_at,
    )
    tx.sql.execute(
        "UPDATE questions SET state = ?, body = ? WHERE id = ?", (resolved.state, encode(resolved), resolved.id)
    )


def _already_closed(record_id: str, state: str, answered_by: str | None) -> Exception:
    by = f" by {answered_by}" if answered_by else ""
    return conflict(f"{record_id!r} is already {state}{by}", id=record_id, state=state, answered_by=answered_by)


def add_grant(tx: Transaction, grant: Grant) -> None:
    if grant.session_id is not None:
        tx.require_session(grant.session_id)
    tx.sql.execute(
        "INSERT INTO grants (id, workspace_id, session_id, rule, body) VALUES (?, ?, ?, ?, ?) "
        "ON CONFLICT (workspace_id, coalesce(session_id, ''), rule) DO NOTHING",
        (grant.id, grant.workspace_id, grant.session_id, grant.rule, encode(grant)),
    )


def remove_grants(tx: Transaction, write: RemoveGrants) -> None:
    tx.sql.execute(
        "DELETE FROM grants WHERE workspace_id = :workspace AND (:grant IS NULL OR id = :grant)",
        {"workspace": write.workspace_id, "grant": write.grant_id},
    )


def approval(sql: Sql, approval_id: str) -> Approval:
    row = sql.execute("SELECT body FROM approvals WHERE id = ?", (approval_id,)).fetchone()
    if row is None:
        raise NotFound(f"approval {approval_id!r} does not exist", code="approval_not_found")
    return _approval.decode(row[0])


def question(sql: Sql, question_id: str) -> Question:
    row = sql.execute("SELECT body FROM questions WHERE id = ?", (question_id,)).fetchone()
    if row is None:
        raise NotFound(f"question {question_id!r} does not exist", code="question_not_found")
    return _question.decode(row[0])


_OPEN_APPROVALS = """SELECT body FROM approvals WHERE state = 'open'
    AND (:workspace IS NULL OR workspace_id = :workspace) AND (:run IS NULL OR run_id = :run) ORDER BY n"""

_OPEN_QUESTIONS = """SELECT body FROM questions WHERE state = 'open'
    AND (:workspace IS NULL OR workspace_id = :workspace) AND (:run IS NULL OR run_id = :run) ORDER BY n"""


def open_approvals(sql: Sql, *, workspace_id: str | None, run_id: str | None) -> Page[Approval]:
    rows = sql.execute(_OPEN_APPROVALS, {"workspace": workspace_id, "run": run_id})
    return Page(items=tuple(_approval.decode(body) for (body,) in rows), at=event_log.last_number(sql))


def open_questions(sql: Sql, *, workspace_id: str | None, run_id: str | None) -> Page[Question]:
    rows = sql.execute(_OPEN_QUESTIONS, {"workspace": workspace_id, "run": run_id})
    return Page(items=tuple(_question.decode(body) for (body,) in rows), at=event_log.last_number(sql))


def grants(sql: Sql, workspace_id: str, *, session_id: str | None) -> tuple[Grant, ...]:
    rows = sql.execute(
        "SELECT body FROM grants WHERE workspace_id = ? AND (session_id IS NULL OR session_id = ?) ORDER BY n",
        (workspace_id, session_id),
    )
    return tuple(_grant.decode(body) for (body,) in rows)


def grants_of_all_sessions(sql: Sql, workspace_id: str) -> tuple[Grant, ...]:
    rows = sql.execute("SELECT body FROM grants WHERE workspace_id = ? ORDER BY n", (workspace_id,))
    return tuple(_grant.decode(body) for (body,) in rows)
