"""What a model is: a request in, a stream of typed deltas out, closed at once when its task is cancelled.

A failure is raised from the stream as one of `errors.ModelError`'s leaves. A model knows nothing of runs, sessions,
stores or retries; `retry.py` decides, purely, whether and when the turn asks again.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any, Literal, Protocol, TypeAlias

from holdfast.schema.base import Value
from holdfast.schema.messages import Message, ToolSpec
from holdfast.schema.usage import Usage

StopReason = Literal["end_turn", "tool_use", "max_tokens", "refused"]


class ModelRequest(Value, frozen=True):
    """One step's question. The prefix (system, tools, earlier messages) is byte-stable, so that caches hold."""

    system: tuple[str, ...] = ()
    """Fixed blocks in a fixed order; the wire marks the end of the stable prefix for caching."""
    messages: tuple[Message, ...] = ()
    """Already valid (`agent.history`): every call answered, no result without a call, nothing unsent."""
    tools: tuple[ToolSpec, ...] = ()
    max_output: int | None = None
    effort: str | None = None
    output_schema: dict[str, Any] | None = None
    """JSON Schema the final answer must have, where the wire can."""
    cache_key: str | None = None
    """Stable per session; a hint for providers that route by it."""


class TextDelta(Value, frozen=True):
    text: str


class ReasoningDelta(Value, frozen=True):
    text: str


class ReasoningEnd(Value, frozen=True):
    """Closes the open reasoning part, with what must go back to the same wire.

    Without an open part and with opaque data it is reasoning that has no words (redacted, or only encrypted).
    """

    opaque: dict[str, Any] | None = None
    wire: str = ""
    """``wire:provider`` or ``wire:provider/model``: whoever can read ``opaque`` again."""


class CallStart(Value, frozen=True):
    index: int
    """Which call of this answer; calls may be interleaved."""
    name: str
    provider_id: str | None = None


class CallArguments(Value, frozen=True):
    index: int
    text: str


class CallEnd(Value, frozen=True):
    """The call's arguments are complete (not necessarily well formed)."""

    index: int
    opaque: dict[str, Any] | None = None
    wire: str = ""


class UsageReport(Value, frozen=True):
    """Replaces earlier reports of the same answer. Cost is not the wire's business."""

    usage: Usage


class Stop(Value, frozen=True):
    """The answer is complete. Always the last delta; a stream that ends without it was cut off (`ModelNetwork`)."""

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
    """Prompt tokens above which ``long`` holds for the whole request."""
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
        """Ask once. Closing the generator, or cancelling the task that reads it, closes the connection at once."""
