"""What a person is asked: approvals and questions."""

from __future__ import annotations

from typing import Any, Literal

from holdfast.schema.base import Word

Decision = Literal["once", "session", "always", "deny"]
ApprovalState = Literal["open", "answered", "expired", "cancelled"]


class Approval(Word, frozen=True):
    id: str
    workspace_id: str
    session_id: str
    """The session whose call asks; for a sub-agent the child's."""
    root_session_id: str
    """The top-level session it is shown under."""
    run_id: str
    call_id: str
    tool: str
    title: str
    """The exact command, path or URL."""
    why: str = ""
    """Why it is asked."""
    patterns: tuple[str, ...] = ()
    """What "always" would save, exactly."""
    display: dict[str, Any] = {}
    state: ApprovalState = "open"
    decision: Decision | None = None
    pattern: tuple[str, ...] = ()
    """What "always" or "session" did save."""
    feedback: str = ""
    answered_by: str | None = None
    created_at: str = ""
    deadline_at: str | None = None
    resolved_at: str | None = None


QuestionKind = Literal["yes_no", "single", "multiple", "text"]


class QuestionItem(Word, frozen=True):
    text: str
    kind: QuestionKind = "text"
    options: tuple[str, ...] = ()


class Question(Word, frozen=True):
    id: str
    workspace_id: str
    session_id: str
    root_session_id: str
    run_id: str
    call_id: str
    items: tuple[QuestionItem, ...]
    state: ApprovalState = "open"
    answers: tuple[tuple[str, ...], ...] | None = None
    """One tuple per item; ``None`` while open or when dismissed."""
    dismissed: bool = False
    answered_by: str | None = None
    created_at: str = ""
    deadline_at: str | None = None
    resolved_at: str | None = None
