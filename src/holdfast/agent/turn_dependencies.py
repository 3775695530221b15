"""What a turn works with, made for one run by its workspace. Roles, so that the turn knows no more than it needs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

import msgspec

from holdfast.agent.protocol import Child, TurnHandle
from holdfast.agent.system_prompt import Gathered
from holdfast.models.protocol import Model
from holdfast.schema.base import Value
from holdfast.schema.messages import ToolCall, ToolSpec
from holdfast.schema.runs import Phase
from holdfast.store import Store
from holdfast.tools.protocol import Tool, ToolContext, ToolPlan


class TurnLimits(Value, frozen=True, kw_only=True):
    """When a run ends by itself (`R12`); the run's own limits, else the configured ones. 0: no limit."""

    max_steps: int
    max_seconds: float = 0.0
    max_cost: float = 0.0
    tool_parallel: int = 5


class Permitted(Value, frozen=True):
    pass


class Denied(Value, frozen=True):
    """What the model is told, the person's feedback included."""

    text: str


class Toolbox(Protocol):
    """The tools that this run is offered."""

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """In a fixed order, so that caches hold."""
        ...

    def find(self, name: str) -> Tool[Any]:
        """`ToolError` for a name that is not offered; it says which are."""
        ...

    def arguments(self, tool: Tool[Any], call: ToolCall) -> Any:
        """Validated; `ToolError` tells the model what is wrong."""
        ...


class CallApprover(Protocol):
    """Decides about a call, asking a person where the rules say so."""

    async def permit(
        self, handle: TurnHandle, call: ToolCall, plan: ToolPlan, *, waiting: Callable[[], None]
    ) -> Permitted | Denied:
        """``waiting`` is called when a person has to answer first."""
        ...


class ToolContexts(Protocol):
    """Makes what one call may touch."""

    def context(
        self,
        handle: TurnHandle,
        call: ToolCall,
        *,
        emit: Callable[[str], None],
        progress: Callable[[Phase], None],
        adopted: Callable[[Child], Awaitable[None]],
    ) -> ToolContext:
        """``adopted`` is given a child run as soon as there is one."""
        ...

    def redact(self, text: str) -> str: ...


class ContextGatherer(Protocol):
    async def gather(self) -> Gathered:
        """The surroundings, instructions and skills as they are now."""
        ...


class Titler(Protocol):
    def suggest(self, session_id: str, prompt: str) -> None:
        """Find a title in the background; the run does not wait for it."""
        ...


class TurnDependencies(msgspec.Struct, frozen=True, kw_only=True):
    store: Store
    model: Model
    toolbox: Toolbox
    gate: CallApprover
    bench: ToolContexts
    surveyor: ContextGatherer
    titler: Titler
    bounds: TurnLimits
    agent_prompt: str | None = None
    """Instead of our rules, for a named agent."""
    effort: str | None = None
    pause: Callable[[float], Awaitable[object]] = asyncio.sleep
    """Waits before a retry."""
    deadline: Callable[[float | None], asyncio.Timeout] = asyncio.timeout
    """Ends what runs inside it after so many seconds."""
