"""`agent`: run a sub-agent in its own session and return its answer. Its run belongs to the engine."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

import msgspec
from msgspec import Meta

from holdfast.config import Settings
from holdfast.config.agent_types import agent_types, find_agent
from holdfast.errors import ToolError
from holdfast.schema.approvals import Effect, Subject
from holdfast.schema.base import repair_text
from holdfast.tools.dialects.call_translation import own_agent
from holdfast.tools.protocol import ToolContext, ToolOutput, ToolPlan

_MAX_DESCRIPTION_CHARS = 200


class AgentArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    title: Annotated[str, Meta(description="The task in a few words.", min_length=1, max_length=200)]
    prompt: Annotated[
        str,
        Meta(
            description="The complete task. The sub-agent does not see this conversation. Say what it should answer.",
            min_length=1,
        ),
    ]
    agent: Annotated[str, Meta(description="Which agent, by its name in the list; 'explore' by default.")] = ""


class AgentTool:
    name: ClassVar[str] = "agent"
    description: ClassVar[str] = (
        "Give a task to a sub-agent with its own context and get its final answer. Several calls in one step run in"
        " parallel; agents that change files must not work on the same ones."
    )
    arguments: ClassVar[type[Any]] = AgentArguments
    effect: ClassVar[Effect] = "none"
    parallel: ClassVar[bool] = True

    def describe(self, settings: Settings) -> str:
        """Return the description with the agents."""
        lines = [
            f"- {agent.name}: {agent.description[:_MAX_DESCRIPTION_CHARS]}" for agent in agent_types(settings).values()
        ]
        return "\n".join([self.description, "Agents:", *lines])

    async def plan(self, arguments: AgentArguments, context: ToolContext) -> ToolPlan:
        if find_agent(context.settings, _own_name(arguments, context)) is None:
            names = ", ".join(map(repr, agent_types(context.settings)))
            raise ToolError(f"agent {arguments.agent!r} does not exist; agents: {names}")
        return ToolPlan(Subject(tool=self.name, effect="none", title=context.redact(repair_text(arguments.title))))

    async def run(self, arguments: AgentArguments, context: ToolContext, plan: ToolPlan) -> ToolOutput:
        outcome = await context.subagents.run(
            agent=_own_name(arguments, context), prompt=repair_text(arguments.prompt), title=plan.subject.title
        )
        text = outcome.text
        if outcome.state != "completed":
            problem = f": {outcome.error.message}" if outcome.error else ""
            text = f"{text}\n[the sub-agent did not finish: {outcome.state}, {outcome.reason}{problem}]".lstrip()
        return ToolOutput(
            context.redact(text or "(the sub-agent returned no answer)"),
            status="ok" if outcome.state == "completed" else "error",
            left_running=outcome.left_running,
        )


def _own_name(arguments: AgentArguments, context: ToolContext) -> str:
    """Return the agent that a call names, also if it names it as another product does."""
    return own_agent(arguments.agent, agent_types(context.settings)) if arguments.agent else ""
