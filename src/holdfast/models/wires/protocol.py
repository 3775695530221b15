"""What a wire is: a pure body for a request, a pure incremental reader for its answer. Both know nothing of I/O."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import msgspec

from holdfast.models.protocol import ModelDelta, ModelInfo, ModelRequest
from holdfast.models.request_cache import RequestCache
from holdfast.schema.sse_parser import SseEvent


class Target(msgspec.Struct, frozen=True):
    """The model that is asked, as its wire needs to know it."""

    model: str
    """The provider's own name for it."""
    info: ModelInfo
    host: str = ""
    """Whose server it is; compatible servers differ in small ways."""
    origin: str = ""
    """Marks what only this provider, or only this model, can read again (signatures, encrypted reasoning)."""
    redact: Callable[[str], str] = str
    """Takes the provider's key out of what the provider says."""


class AnswerReader(Protocol):
    """Turns one answer's events into deltas. Raises leaves of `errors.ModelError` and nothing else."""

    @property
    def done(self) -> bool:
        """Whether `Stop` was given out; nothing follows it."""

    def feed(self, event: SseEvent) -> list[ModelDelta]: ...

    def end(self) -> list[ModelDelta]:
        """The stream is over: the last deltas with `Stop`, or `ModelNetwork` if it was cut off."""


class Wire(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def shares_thoughts(self) -> bool:
        """Whether one model of a provider can read another one's reasoning again."""

    def path(self, target: Target) -> str:
        """Below the base URL, with its query."""

    def headers(self, key: str | None, target: Target) -> dict[str, str]: ...

    def body(self, request: ModelRequest, target: Target, memory: RequestCache | None = None) -> dict[str, Any]:
        """With a ``memory`` of the conversation so far, only what is new is made; older messages are JSON already."""

    def reader(self, target: Target) -> AnswerReader: ...
