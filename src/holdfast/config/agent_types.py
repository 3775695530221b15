"""The kinds of sub-agents as data: the built-in ones and the configured ones, in one table by name.

The `agent` tool offers this table; the tool registry and the workspace follow it. Agents from other sources only have
to become an `AgentType`.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from holdfast.config.settings import AgentSettings, Settings


class AgentType(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    description: str
    """When to use it; the model reads this."""
    instructions: str = ""
    """Its own system prompt. Empty: the prompt of the built-in agent that reads or works."""
    read_only: bool = False
    """It only reads: its run is in plan mode, so that only commands that change nothing run."""
    tools: tuple[str, ...] | None = None
    """Patterns of the tools that it may use, and with ``!`` of those that it may not. None: all, or all that read."""
    model: str | None = None
    """``provider/model``. None: the model of its parent."""
    max_steps: int | None = None


MAIN_AGENT = "main"
"""The name of no agent, to choose none again in a session that has one."""

DEFAULT_AGENT = "explore"
"""The agent of a call that names none: the one that can do the least."""

BUILT_IN_AGENTS: tuple[AgentType, ...] = (
    AgentType(
        name="explore",
        description="Only reads: searches and reads files, runs commands that change nothing, reports what it found.",
        read_only=True,
    ),
    AgentType(
        name="general",
        description="Has all tools, also those that change files and run commands; for a separate piece of work.",
    ),
)


def agent_types(settings: Settings) -> Mapping[str, AgentType]:
    """Return all kinds of sub-agents by name. A configured one replaces a built-in one of the same name."""
    configured = {name: _configured(name, agent) for name, agent in settings.agents.items()}
    return {agent.name: agent for agent in BUILT_IN_AGENTS} | configured


def find_agent(settings: Settings, name: str) -> AgentType | None:
    """Return a kind of sub-agent; the default one for an empty name."""
    return agent_types(settings).get(name or DEFAULT_AGENT)


def agent_of_run(settings: Settings, name: str | None) -> AgentType:
    """Return the kind of a sub-agent that runs; the default one if its own is not configured any more."""
    return find_agent(settings, name or "") or BUILT_IN_AGENTS[0]


def _configured(name: str, agent: AgentSettings) -> AgentType:
    return AgentType(
        name=name,
        description=agent.description or "no description",
        instructions=agent.prompt,
        read_only=agent.read_only or agent.tools is None,
        tools=agent.tools,
        model=agent.model,
        max_steps=agent.max_steps,
    )
