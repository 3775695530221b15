"""Approvals, questions and grants."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holdfast.client.api_call import ApiCall, api_call, api_path
from holdfast.schema.api.response_bodies import PageView
from holdfast.schema.approvals import Approval, ApprovalDecision, Grant, Question, RuleScope


def approvals(workspace_id: str) -> ApiCall[PageView[Approval]]:
    return api_call("GET", api_path("workspaces", workspace_id, "approvals"), returns=PageView[Approval])


def approval(approval_id: str) -> ApiCall[Approval]:
    return api_call("GET", api_path("approvals", approval_id), returns=Approval)


def answer_approval(
    approval_id: str,
    decision: ApprovalDecision,
    *,
    pattern: Sequence[str] = (),
    scope: RuleScope = "project",
    feedback: str = "",
) -> ApiCall[Approval]:
    """``scope`` is where the rules that "always" saves count."""
    body: dict[str, Any] = {"decision": decision}
    if scope != "project":
        body["scope"] = scope
    if pattern:
        body["pattern"] = list(pattern)
    if feedback:
        body["feedback"] = feedback
    return api_call("POST", api_path("approvals", approval_id), body, returns=Approval)


def questions(workspace_id: str) -> ApiCall[PageView[Question]]:
    return api_call("GET", api_path("workspaces", workspace_id, "questions"), returns=PageView[Question])


def question(question_id: str) -> ApiCall[Question]:
    return api_call("GET", api_path("questions", question_id), returns=Question)


def answer_question(question_id: str, answers: Sequence[Sequence[str]] | None) -> ApiCall[Question]:
    """Answer a question; ``None`` dismisses it."""
    body: dict[str, Any] = {"dismiss": True} if answers is None else {"answers": answers}
    return api_call("POST", api_path("questions", question_id), body, returns=Question)


def grants(workspace_id: str, *, session_id: str | None = None) -> ApiCall[PageView[Grant]]:
    """The grants of the workspace, and those of one session if it is named."""
    target = api_path("workspaces", workspace_id, "grants")
    return api_call("GET", target, returns=PageView[Grant], query={"session": session_id})


def remove_grants(
    workspace_id: str, *, session_id: str | None = None, grant_id: str | None = None
) -> ApiCall[PageView[Grant]]:
    """Remove one grant, or all of them. Returns those that remain."""
    target = api_path("workspaces", workspace_id, "grants")
    return api_call("DELETE", target, returns=PageView[Grant], query={"session": session_id, "id": grant_id})
