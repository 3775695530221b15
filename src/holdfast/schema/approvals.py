"""What a person is asked: approvals and questions."""

from __future__ import annotations

from typing import Any, Literal

from holdfast.schema.base import Value

ApprovalDecision = Literal["once", "session", "always", "deny"]
ApprovalState = Literal["open", "answered", "expired", "cancelled"]


class Approval(Value, frozen=True):
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
    decision: ApprovalDecision | None = None
    pattern: tuple[str, ...] = ()
    """What "always" or "session" did save."""
    feedback: str = ""
    answered_by: str | None = None
    created_at: str = ""
    deadline_at: str | None = None
    resolved_at: str | None = None


class Grant(Value, frozen=True):
    """A remembered approval: for a session, or (``session_id`` is ``None``) for the workspace."""

    id: str
    workspace_id: str = ""
    rule: str = ""
    session_id: str | None = None
    created_at: str = ""
    created_by: str = ""


QuestionKind = Literal["yes_no", "single", "multiple", "text"]


class QuestionItem(Value, frozen=True):
    text: str
    kind: QuestionKind = "text"
    options: tuple[str, ...] = ()


class Question(Value, frozen=True):
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


Effect = Literal["reads", "writes", "runs", "network", "none"]
"""What a tool does to the world: reads files, writes files, runs code, reaches the network, or none of these."""


class Subject(Value, frozen=True):
    """What a tool call wants to do, in the terms that approval rules speak of."""

    tool: str
    effect: Effect
    title: str
    """The exact command, path or URL, as a person is shown it."""
    command: str | None = None
    """The shell line, for tools that run code."""
    cwd: str = ""
    paths: tuple[str, ...] = ()
    """Absolute, symlinks resolved: the files it reads or writes."""
    url: str | None = None
