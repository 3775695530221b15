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
