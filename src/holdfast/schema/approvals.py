"""Approvals and questions that the user answers, grants, and what a tool call asks approval for."""

from __future__ import annotations

from typing import Any, Literal

from holdfast.schema.base import Value

ApprovalDecision = Literal["once", "session", "always", "deny"]
RuleScope = Literal["project", "all"]
"""Where the rules of the answer "always" count: in this workspace, or in all."""
ApprovalState = Literal["open", "answered", "expired", "cancelled"]


class Approval(Value, frozen=True):
    id: str
    workspace_id: str
    session_id: str
    """The session of the call; for a sub-agent its own session."""
    root_session_id: str
    """The top-level session it is shown under."""
    run_id: str
    call_id: str
    tool: str
    title: str
    """The exact command, path or URL."""
    why: str = ""
    """Why approval is needed."""
    patterns: tuple[str, ...] = ()
    """The rules that "always" would save."""
    display: dict[str, Any] = {}
    state: ApprovalState = "open"
    decision: ApprovalDecision | None = None
    pattern: tuple[str, ...] = ()
    """The rules that "always" or "session" saved."""
    scope: RuleScope = "project"
    """Where the rules that "always" saved count."""
    feedback: str = ""
    answered_by: str | None = None
    created_at: str = ""
    deadline_at: str | None = None
    resolved_at: str | None = None


class Grant(Value, frozen=True):
    """A saved approval for a session, or for the workspace if ``session_id`` is ``None``."""

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
"""What a tool does: read files, write files, run code, use the network, or none of these."""


Escalation = Literal["network", "unconfined"]
"""What a command is to run with: the network, or without any sandbox."""


class Subject(Value, frozen=True):
    """What a tool call does, in the terms of approval rules."""

    tool: str
    effect: Effect
    title: str
    """The exact command, path or URL, as shown to the user."""
    command: str | None = None
    """The command line, for tools that run code."""
    cwd: str = ""
    search_path: str = ""
    """The directories in which the shell looks for programs (``PATH``); empty: the usual ones of the system."""
    paths: tuple[str, ...] = ()
    """The files it reads or writes: absolute paths with links resolved."""
    url: str | None = None
    definition: str = ""
    """Identifies the definition of an MCP server's tool. A saved rule names it, so that a changed tool asks again."""
    escalation: Escalation | None = None
    """What the command needs beyond the sandbox. It needs an approval or a rule of its own."""
