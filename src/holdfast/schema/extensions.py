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


class AgentView(Value, frozen=True, kw_only=True):
    """An agent that can be chosen for a session, or started as a sub-agent; or one that cannot be used, and why."""

    name: str
    description: str = ""
    source: str = ""
    """Its file, the place in the configuration, or ``built in``."""
    state: Literal["ready", "failed", "disabled"] = "ready"
    problem: str = ""
    """Why it cannot be used."""
    model: str | None = None
    read_only: bool = False
    """Its prompts are in plan mode."""
    tools: tuple[str, ...] | None = None
    """Patterns of its tools, and with ``!`` of those that it may not use. Null: all, or all that read."""
    max_steps: int | None = None
    is_subagent: bool = True
    """Whether the `agent` tool may start it."""


class McpToolView(Value, frozen=True):
    name: str
    """The name for models and approval rules: ``server__tool``."""
    description: str = ""
    read_only: bool = False
    """What the server says. It is a hint."""


class SessionMcpServer(Value, frozen=True):
    """An MCP server that a client passes for one session: a command, or an address."""

    name: str
    command: tuple[str, ...] = ()
    env: dict[str, str] = {}
    url: str | None = None
    headers: dict[str, str] = {}
    transport: Literal["http", "sse"] | None = None


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
