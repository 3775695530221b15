"""What a person may answer, and what a second answer is told."""

from __future__ import annotations

from typing import TypeVar, assert_never

from holdfast.errors import BadRequest, Conflict
from holdfast.schema.approvals import Approval, ApprovalDecision, Question, QuestionItem
from holdfast.schema.base import to_builtins

_Asked = TypeVar("_Asked", bound=Approval | Question)


def rules_to_save(approval: Approval, decision: ApprovalDecision, patterns: tuple[str, ...] | None) -> tuple[str, ...]:
    """What "session" or "always" saves: what was shown, exactly, or some of it."""
    if decision not in ("session", "always"):
        return ()
    if not approval.patterns:
        raise BadRequest(f"{approval.title!r} can only be allowed once; answer 'once' or 'deny'")
    chosen = approval.patterns if patterns is None else tuple(dict.fromkeys(patterns))
    offered = ", ".join(map(repr, approval.patterns))
    if unknown := [pattern for pattern in chosen if pattern not in approval.patterns]:
        raise BadRequest(f"the pattern {unknown[0]!r} was not offered; offered: {offered}")
    if not chosen:
        raise BadRequest(f"{decision!r} saves at least one pattern; offered: {offered}")
    return chosen


def again_or_refuse(found: _Asked, wanted: _Asked) -> _Asked:
    """The winner's answer, the first time and when it is repeated; everyone else is told who won."""
    if found.state == "answered" and _said(found) == _said(wanted):
        return found
    what = "approval" if isinstance(found, Approval) else "question"
    who = f" by {found.answered_by!r}" if found.answered_by else ""
    raise Conflict(
        f"{what} {found.id!r} is {found.state} already{who}",
        code=f"{what}_closed",
        detail={what: to_builtins(found)},
    )


def _said(asked: Approval | Question) -> tuple[object, ...]:
    if isinstance(asked, Approval):
        return asked.answered_by, asked.decision, asked.pattern, asked.feedback
    return asked.answered_by, asked.answers, asked.dismissed


def check_answers(items: tuple[QuestionItem, ...], answers: tuple[tuple[str, ...], ...]) -> None:
    """Refuses answers that do not fit their questions."""
    if len(items) != len(answers):
        raise BadRequest(f"there are {len(items)} questions, but {len(answers)} answers")
    for item, answer in zip(items, answers, strict=True):
        options = ("yes", "no") if item.kind == "yes_no" else item.options
        if not _fits(item, answer, options):
            raise BadRequest(f"{list(answer)!r} is no answer to {item.text!r}; options: {list(options)!r}")


def _fits(item: QuestionItem, answer: tuple[str, ...], options: tuple[str, ...]) -> bool:
    match item.kind:
        case "text":
            return len(answer) <= 1
        case "multiple":
            return set(answer) <= set(options)
        case "yes_no" | "single":
            return len(answer) == 1 and answer[0] in options
        case _:
            assert_never(item.kind)
