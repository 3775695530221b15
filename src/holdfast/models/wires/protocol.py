"""The interface of a wire: a builder of request bodies and an incremental reader of answers, both without I/O."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import msgspec

from holdfast.models.protocol import ModelDelta, ModelInfo, ModelRequest
from holdfast.models.wires.request_cache import RequestCache
from holdfast.schema.sse_parser import SseEvent


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """The model that receives a request."""

    model: str
    """The provider's id of the model."""
    info: ModelInfo
    host: str
    """The server's name and port. Compatible servers differ in what they accept."""
    origin: str
    """Marks opaque data (signatures, encrypted reasoning) with the provider or model that can read it."""
    redact: Callable[[str], str] = str
    """Removes the provider's key from text that the provider sends."""


class AnswerReader(Protocol):
    """Turns the events of one answer into deltas. Raises leaves of `errors.ModelError` and nothing else."""

    @property
    def done(self) -> bool:
        """Whether `Stop` was returned. No delta follows it."""

    def feed(self, event: SseEvent) -> list[ModelDelta]: ...

    def end(self) -> list[ModelDelta]:
        """Return the last deltas at the end of the stream. Raises `ModelNetwork` if the answer is incomplete."""


class Wire(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def shares_reasoning(self) -> bool:
        """Whether all models of a provider can read each other's opaque reasoning."""

    def path(self, target: Target) -> str:
        """The path below the base URL, with its query."""

    def headers(self, key: str | None, target: Target) -> dict[str, str]: ...

    def body(self, request: ModelRequest, target: Target, cache: RequestCache | None = None) -> dict[str, Any]:
        """Build the request body. With a ``cache`` of the conversation, only new messages are converted."""

    def reader(self, target: Target) -> AnswerReader: ...
