"""Approvals and questions as requests to an editor, and its answers. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.acp.tool_updates import JsonObject, approval_fields
from holdfast.schema.approvals import Approval, ApprovalDecision, Question, QuestionItem, RuleScope
from holdfast.schema.base import Value


class ApprovalAnswer(Value, frozen=True):
    decision: ApprovalDecision
    scope: RuleScope = "project"
    pattern: tuple[str, ...] = ()


def permission_request(approval: Approval, *, session_id: str, directory: str) -> JsonObject:
    """The request for an approval, with our options."""
    return {
        "sessionId": session_id,
        "toolCall": approval_fields(approval, directory=directory),
        "options": permission_options(approval),
    }


def permission_options(approval: Approval) -> list[JsonObject]:
    options = [{"optionId": "once", "name": "Allow once", "kind": "allow_once"}]
    if approval.patterns:
        rules = _rules(approval.patterns)
        options += [
            {"optionId": "session", "name": f"Allow {rules} in this session", "kind": "allow_always"},
            {"optionId": "always", "name": f"Always allow {rules} in this directory", "kind": "allow_always"},
            {"optionId": "everywhere", "name": f"Always allow {rules} everywhere", "kind": "allow_always"},
        ]
    return [*options, {"optionId": "deny", "name": "Deny", "kind": "reject_once"}]


def read_permission(response: object, approval: Approval) -> ApprovalAnswer | None:
    """What the editor answered. ``None``: it did not decide, and others still can."""
    outcome = response.get("outcome") if isinstance(response, dict) else None
    if not isinstance(outcome, dict) or outcome.get("outcome") != "selected":
        return None
    offered = {option["optionId"] for option in permission_options(approval)}
    match outcome.get("optionId"):
        case str() as other if other not in offered:
            return None
        case "once":
            return ApprovalAnswer("once")
        case "session":
            return ApprovalAnswer("session", pattern=approval.patterns)
        case "always":
            return ApprovalAnswer("always", pattern=approval.patterns)
        case "everywhere":
            return ApprovalAnswer("always", scope="all", pattern=approval.patterns)
        case "deny":
            return ApprovalAnswer("deny")
        case _:
            return None


def question_form(question: Question, *, session_id: str) -> JsonObject:
    """A question as a form, for editors that have forms."""
    properties = {f"answer{number}": _field(item) for number, item in enumerate(question.items, 1)}
    return {
        "mode": "form",
        "sessionId": session_id,
        "toolCallId": question.call_id,
        "message": question.items[0].text if len(question.items) == 1 else "The agent has questions",
        "requestedSchema": {"type": "object", "properties": properties, "required": list(properties)},
    }


def read_form(response: object, question: Question) -> list[list[str]] | None:
    """The answers of a form, one list per item; ``None``: it was declined."""
    if not isinstance(response, dict) or response.get("action") != "accept":
        return None
    content = response.get("content")
    values: Mapping[str, Any] = content if isinstance(content, dict) else {}
    return [_answers(values.get(f"answer{number}")) for number in range(1, len(question.items) + 1)]


def can_be_choice(question: Question) -> bool:
    """Whether a question can be asked as a choice, for editors without forms: one item with options."""
    return len(question.items) == 1 and bool(_options(question.items[0])) and question.items[0].kind != "multiple"


def choice_request(question: Question, *, session_id: str) -> JsonObject:
    """A question with one item as a choice among its options."""
    options = _options(question.items[0])
    return {
        "sessionId": session_id,
        "toolCall": {"toolCallId": question.call_id, "title": question.items[0].text, "kind": "think"},
        "options": [
            *({"optionId": f"option{n}", "name": option, "kind": "allow_once"} for n, option in enumerate(options)),
            {"optionId": "dismiss", "name": "Do not answer", "kind": "reject_once"},
        ],
    }


def read_choice(response: object, question: Question) -> tuple[bool, list[list[str]] | None]:
    """Whether the editor decided, and the answers; ``None`` dismisses the question."""
    outcome = response.get("outcome") if isinstance(response, dict) else None
    if not isinstance(outcome, dict) or outcome.get("outcome") != "selected":
        return False, None
    chosen = outcome.get("optionId")
    if chosen == "dismiss":
        return True, None
    for number, option in enumerate(_options(question.items[0])):
        if chosen == f"option{number}":
            return True, [[option]]
    return False, None


def _rules(patterns: tuple[str, ...]) -> str:
    shown = ", ".join(f"“{pattern}”" for pattern in patterns[:3])
    return shown if len(patterns) <= 3 else f"{shown} and {len(patterns) - 3} more"


def _options(item: QuestionItem) -> tuple[str, ...]:
    return ("yes", "no") if item.kind == "yes_no" else item.options


def _field(item: QuestionItem) -> JsonObject:
    options = _options(item)
    if item.kind == "multiple" and options:
        return {"type": "array", "title": item.text, "items": {"type": "string", "enum": list(options)}}
    if options:
        return {"type": "string", "title": item.text, "enum": list(options)}
    return {"type": "string", "title": item.text}


def _answers(value: object) -> list[str]:
    if isinstance(value, list):
        return [str(one) for one in value]
    if isinstance(value, bool):
        return ["yes" if value else "no"]
    return [] if value is None else [str(value)]
