"""The interface of a model: a request, and a stream of typed deltas that can be closed at any time.

A stream raises leaves of `errors.ModelError` and nothing else. A model knows nothing of runs, sessions, stores or
retries; the turn asks `retry.retry_wait` whether and when to try again.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any, Literal, Protocol, TypeAlias

from holdfast.models.wires.request_cache import RequestCache
from holdfast.schema.base import Value
from holdfast.schema.messages import Message, ToolSpec
from holdfast.schema.usage import Usage

StopReason = Literal["end_turn", "tool_use", "max_tokens", "refused"]


class ModelRequest(Value, frozen=True):
    """The request of one step. The prefix (system, tools, earlier messages) is byte-stable, so that caches hit."""

    system: tuple[str, ...] = ()
    """Fixed blocks in a fixed order. The wire marks the end of the stable prefix for caching."""
    messages: tuple[Message, ...] = ()
    """Valid for every wire (`agent.request_messages`): each call has one result, and each result has a call."""
    tools: tuple[ToolSpec, ...] = ()
    may_call: bool = True
    """False: the answer must be text. The tools stay in the request, because providers require the tools of earlier
    calls, and their cache stays valid."""
    max_output: int | None = None
    effort: str | None = None
    output_schema: dict[str, Any] | None = None
    """The JSON Schema of the final answer, if the wire supports one."""
    cache_key: str | None = None
    """The same for all requests of a session. Some providers route by it."""
    converted: RequestCache | None = None
    """What earlier requests of the conversation were converted to. It saves time and changes nothing."""


class TextDelta(Value, frozen=True):
    text: str


class ReasoningDelta(Value, frozen=True):
    text: str


class ReasoningEnd(Value, frozen=True):
    """Ends the open reasoning part, with the data that must be sent back to the same wire.

    With opaque data but without an open part, it is reasoning without text (redacted, or only encrypted).
    """

    opaque: dict[str, Any] | None = None
    wire: str = ""
    """``wire:provider`` or ``wire:provider/model``: the provider or model that can read ``opaque``."""


class CallStart(Value, frozen=True):
    index: int
    """The number of the call in this answer. Calls may be interleaved."""
    name: str
    provider_id: str | None = None


class CallArguments(Value, frozen=True):
    index: int
    text: str


class CallEnd(Value, frozen=True):
    """The call's arguments are complete, but not necessarily well formed."""

    index: int
    opaque: dict[str, Any] | None = None
    wire: str = ""


class UsageReport(Value, frozen=True):
    """Replaces earlier reports of the same answer. It has no cost; see `pricing.add_cost`."""

    usage: Usage


class Stop(Value, frozen=True):
    """The answer is complete. Always the last delta; a stream that ends without it raises `ModelNetwork`."""

    reason: StopReason
    detail: str = ""


ModelDelta: TypeAlias = (
    TextDelta | ReasoningDelta | ReasoningEnd | CallStart | CallArguments | CallEnd | UsageReport | Stop
)


class Price(Value, frozen=True):
    """US dollars per million tokens."""

    input: float = 0.0
    output: float = 0.0
    cache_read: float = 0.0
    cache_write: float = 0.0
    above: int = 0
    """Prompt tokens above which ``long`` applies to the whole request."""
    long: Price | None = None


class ModelInfo(Value, frozen=True):
    name: str
    """``provider/model``."""
    context_window: int = 0
    """0: unknown."""
    max_output: int = 0
    images: bool = False
    reasoning: tuple[str, ...] = ()
    price: Price | None = None


class Model(Protocol):
    @property
    def info(self) -> ModelInfo: ...

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta, None]:
        """Send one request. Closing the generator, or cancelling the task that reads it, closes the connection."""
