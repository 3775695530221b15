"""What a turn works with. The workspace of a run makes it for each turn.

The dependencies are roles, so that a turn does not know the workspace and tests can replace each of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Literal, Protocol

import msgspec

from holdfast.agent.kept_conversations import KeptConversations
from holdfast.agent.protocol import Subagent, TurnHandle
from holdfast.agent.reminders import Observations
from holdfast.agent.system_prompt import PromptContext
from holdfast.agent.turn_limits import TurnLimits
from holdfast.config import StreamRedactor
from holdfast.config.agent_types import AgentType
from holdfast.models.protocol import Model
from holdfast.schema.approvals import Approval
from holdfast.schema.base import Value
from holdfast.schema.commands import ExpandedPrompt
from holdfast.schema.hooks import HookDecision, HookEvent, HookRecord, HookVerdict
from holdfast.schema.messages import File, Message, ToolCall, ToolSpec
from holdfast.schema.runs import Mode, Phase
from holdfast.store import Store
from holdfast.tools.protocol import PreparedCall, ToolContext, ToolPlan


class CallPermitted(Value, frozen=True):
    """The call may run."""

    read_only: bool = False
    """Whether it may run because it changes nothing. The tool makes sure that it does not."""
    approval: Approval | None = None
    """How it was approved, if someone was asked."""
    hooks: tuple[HookRecord, ...] = ()
    """The hooks that were asked instead of the user, or before."""


DenialCause = Literal["user", "rule", "plan", "unasked", "hook"]
"""Who denied a call: the user, a deny rule, the mode plan, a hook, or nobody, because nobody could be asked."""


class CallDenied(Value, frozen=True):
    """The call may not run. ``text`` tells the model why, with the user's feedback."""

    text: str
    cause: DenialCause = "user"
    why: str = ""
    """The reason for people."""
    approval: Approval | None = None
    """How it was denied, if someone was asked."""
    hooks: tuple[HookRecord, ...] = ()


class Toolbox(Protocol):
    """The tools that a run may use."""

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """Always in the same order, so that the provider's cache is valid."""
        ...

    def update(self) -> None:
        """Add the tools of extensions that became ready. Called between two steps."""
        ...

    def prepare(self, call: ToolCall) -> PreparedCall:
        """Return the tool and the validated arguments. Raises `ToolError`, which tells the model what is wrong."""
        ...


class CallApprover(Protocol):
    """Decides whether a call may run. It asks the user where the rules say so."""

    async def permit(
        self,
        handle: TurnHandle,
        call: ToolCall,
        plan: ToolPlan,
        *,
        on_wait: Callable[[], None],
        hook: HookDecision | None = None,
    ) -> CallPermitted | CallDenied:
        """``on_wait`` is called before waiting for the user. ``hook``: what hooks decided about the call.

        A hook's ``ask`` requires the user's approval. Its ``allow`` allows what the mode ``auto`` would allow, and
        never what a deny rule, the plan mode or the policy forbids.
        """
        ...


class TurnHooks(Protocol):
    """The hooks of one run."""

    def listens(self, event: HookEvent) -> bool:
        """Whether any hook may run on this event."""
        ...

    async def run(self, event: HookEvent, **fields: Any) -> HookVerdict:
        """Run the hooks that the event concerns, in parallel. ``fields`` describe it.

        A failure of a hook is a record of the verdict. Only a cancel is raised, when no hook runs any more.
        """
        ...

    def take_notified(self, call_id: str) -> Sequence[HookRecord]:
        """Return, once, the hooks that ran while a call waited for the user."""
        ...


class ToolContexts(Protocol):
    """Makes the context of each tool call."""

    def context(
        self,
        handle: TurnHandle,
        call: ToolCall,
        *,
        emit: Callable[[str], None],
        progress: Callable[[Phase], None],
        on_subagent: Callable[[Subagent], Awaitable[None]],
    ) -> ToolContext:
        """``on_subagent`` is called when the call has started a sub-agent."""
        ...

    def redact(self, text: str) -> str:
        """Remove secrets from what a tool returns."""
        ...

    def redact_answer(self) -> StreamRedactor:
        """Return a redactor for one part of a streamed answer."""
        ...


class ContextGatherer(Protocol):
    async def gather(self) -> PromptContext:
        """Return the surroundings, instructions and skills: as they were when the turn began, later as they are now."""
        ...


class SessionObserver(Protocol):
    """Looks at what a session works with."""

    async def observe(self, *, calls: Sequence[ToolCall]) -> Observations:
        """Return what happened. Files that ``calls`` of the last step may have changed are no news."""
        ...

    async def read_files(self, paths: Sequence[str], *, characters: int) -> tuple[File, ...]:
        """Return the text of files, in order, as far as they fit.

        Files that the session has not read, that changed since, or that are no text are left out.
        """
        ...


class PromptExpander(Protocol):
    """Knows the commands that a prompt may call as ``/name``, and the resources that it may mention."""

    async def expand(self, prompt: str) -> ExpandedPrompt | None:
        """Return what a prompt becomes; None if nothing is expanded. Raises a `HoldfastError` that ends the run."""
        ...

    @property
    def toolbox(self) -> Toolbox:
        """The tools for the calls that a command makes itself."""
        ...


class Titler(Protocol):
    def suggest(self, session_id: str, prompt: str) -> None:
        """Find a title in the background. The run does not wait for it."""
        ...


class TurnDependencies(msgspec.Struct, frozen=True, kw_only=True):
    store: Store
    model: Model
    toolbox: Toolbox
    approver: CallApprover
    tool_contexts: ToolContexts
    context_gatherer: ContextGatherer
    observer: SessionObserver
    titler: Titler
    limits: TurnLimits
    mode: Mode
    expander: PromptExpander | None = None
    """None: prompts are sent as they are."""
    agent: AgentType | None = None
    """The kind of a sub-agent. None: a run of the user."""
    role: AgentType | None = None
    """The agent that the user chose."""
    effort: str | None = None
    hooks: TurnHooks | None = None
    """None: no hook is configured."""
    kept_conversations: KeptConversations | None = None
    """None: every turn reads its conversation anew."""
    read_messages: Callable[[], Awaitable[tuple[Message, ...]]] | None = None
    """Returns the messages since the last summary, whose read has begun already. None: the store is asked."""
    pause: Callable[[float], Awaitable[object]] = asyncio.sleep
    """Waits before a retry."""
    deadline: Callable[[float | None], asyncio.Timeout] = asyncio.timeout
    """Limits the time of the turn, in seconds."""
