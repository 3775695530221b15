"""`agent`: a sub-agent with its own session and fewer tools. The child run itself belongs to the engine."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

import msgspec
from msgspec import Meta

from holdfast.config import Settings
from holdfast.errors import ToolError
from holdfast.schema.approvals import Effect, Subject
from holdfast.schema.base import repair_text
from holdfast.tools.protocol import ToolContext, ToolOutput, ToolPlan

_LONGEST_DESCRIPTION = 200


class AgentArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    title: Annotated[str, Meta(description="Its task in a few words.", min_length=1, max_length=200)]
    prompt: Annotated[
        str,
        Meta(description="The whole task: it knows nothing of this conversation. Say what to answer.", min_length=1),
    ]
    agent: Annotated[str, Meta(description="Which agent; empty: one that only reads.")] = ""


class AgentTool:
    """Starts a sub-agent and waits for its answer."""

    name: ClassVar[str] = "agent"
    description: ClassVar[str] = (
        "Give a task to a sub-agent with a context of its own, and get its final answer. By default it can only read:"
        " use it for wide searches. Several calls in one step run side by side."
    )
    arguments: ClassVar[type[Any]] = AgentArguments
    effect: ClassVar[Effect] = "none"
    parallel: ClassVar[bool] = True

    def describe(self, settings: Settings) -> str:
        """The description with the configured agents."""
        lines = [
            f"- {name}: {agent.description[:_LONGEST_DESCRIPTION] or 'no description'}"
            for name, agent in settings.agents.items()
        ]
        return "\n".join([self.description, *(["Agents:", *lines] if lines else [])])

    async def plan(self, arguments: AgentArguments, context: ToolContext) -> ToolPlan:
        known = context.settings.agents
        if arguments.agent and arguments.agent not in known:
            names = ", ".join(map(repr, known)) or "none is configured"
            raise ToolError(f"there is no agent {arguments.agent!r}; agents: {names}. Leave it empty for the default.")
        return ToolPlan(Subject(tool=self.name, effect="none", title=context.redact(repair_text(arguments.title))))

    async def run(self, arguments: AgentArguments, context: ToolContext, plan: ToolPlan) -> ToolOutput:
        outcome = await context.subagents.run(
            agent=arguments.agent, prompt=repair_text(arguments.prompt), title=plan.subject.title
        )
        text = outcome.text
        if outcome.state != "completed":
            problem = f": {outcome.error.message}" if outcome.error else ""
            text = f"{text}\n[the sub-agent did not finish: {outcome.state}, {outcome.reason}{problem}]".lstrip()
        return ToolOutput(
            context.redact(text or "(the sub-agent answered nothing)"),
            status="ok" if outcome.state == "completed" else "error",
            left_running=outcome.left_running,
        )
