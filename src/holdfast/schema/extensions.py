"""The state of an extension: an MCP server, a language server, a hook, or a file that adds something to the agent."""

from __future__ import annotations

from typing import Literal

from holdfast.schema.base import Value

ExtensionKind = Literal["mcp", "lsp", "hook", "skill", "command", "agent", "instructions"]
ExtensionState = Literal["starting", "ready", "failed", "needs_auth", "disabled"]
"""A file is ``ready``, ``failed`` or ``disabled``."""


class ExtensionStatus(Value, frozen=True):
    kind: ExtensionKind
    name: str
    state: ExtensionState
    detail: str = ""
    """A sentence for a person: what it offers, why it failed, what to do."""
    source: str = ""
    """Where it is configured: a file, with the line if it is known."""


class McpToolView(Value, frozen=True):
    name: str
    """The name for models and approval rules: ``server__tool``."""
    description: str = ""
    read_only: bool = False
    """What the server says. It is a hint."""


class McpServerView(Value, frozen=True, kw_only=True):
    """An MCP server with what it offers and the end of its log."""

    status: ExtensionStatus
    tools: tuple[McpToolView, ...] = ()
    prompts: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    instructions: str = ""
    log: tuple[str, ...] = ()
    """What it wrote to stderr, and what happened to its connection."""


class McpLoginView(Value, frozen=True):
    """A login that has begun, or is not needed."""

    status: ExtensionStatus
    url: str = ""
    """The address to open in a browser. Empty: the server is ready without a login, or failed."""
