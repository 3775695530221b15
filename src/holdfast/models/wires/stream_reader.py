"""What the readers of all wires share: open parts with split surrogate pairs, call numbers, errors and the stop."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias, assert_never

from holdfast.errors import ModelError, ModelNetwork
from holdfast.models.error_mapping import error_from_event, sanitize_message
from holdfast.models.protocol import (
    CallArguments,
    CallEnd,
    CallStart,
    ModelDelta,
    ReasoningDelta,
    ReasoningEnd,
    Stop,
    StopReason,
    TextDelta,
)
from holdfast.models.wires.protocol import Target
from holdfast.schema.base import repair_text

PartKind: TypeAlias = Literal["text", "reasoning", "call", "ignored"]


class StreamedPart:
    """A part of an answer while it is streamed: text, reasoning, or the arguments of a call.

    A surrogate pair that is split over two pieces is joined. A lone surrogate is replaced.
    """

    __slots__ = ("_held", "call", "kind", "size")

    def __init__(self, kind: PartKind, *, call: int = 0) -> None:
        self.kind = kind
        self.call = call
        """The index of the call whose arguments this part is."""
        self.size = 0
        """Characters returned so far."""
        self._held = ""

    def add(self, piece: str) -> list[ModelDelta]:
        if self.kind == "text" and piece and piece.isascii() and not self._held:  # most pieces; the same as below
            self.size += len(piece)
            return [TextDelta(piece)]
        return self.deltas(self.join(piece))

    def join(self, piece: str) -> str:
        """Return the text that is complete. A high surrogate at the end is held until its other half arrives."""
        if piece.isascii() and not self._held:
            return piece
        piece = self._held + piece
        self._held = ""
        if piece and "\ud800" <= piece[-1] <= "\udbff":
            self._held = piece[-1]
            piece = piece[:-1]
        return repair_text(piece)

    def flush(self) -> str:
        """Return the held text, repaired."""
        held, self._held = self._held, ""
        return repair_text(held)

    def deltas(self, text: str, *, kind: PartKind | None = None) -> list[ModelDelta]:
        """Return complete text as deltas of the part's kind, or of another one."""
        if not text:
            return []
        self.size += len(text)
        kind = kind or self.kind
        match kind:
            case "text":
                return [TextDelta(text)]
            case "reasoning":
                return [ReasoningDelta(text)]
            case "call":
                return [CallArguments(self.call, text)]
            case "ignored":
                return []
            case _:
                assert_never(kind)

    def end(self, origin: str, opaque: dict[str, Any] | None = None) -> list[ModelDelta]:
        """Return the held text and the delta that ends the part. ``origin`` can read ``opaque`` again."""
        deltas = self.deltas(self.flush())
        if self.kind == "reasoning":
            deltas.append(ReasoningEnd(opaque, origin))
        elif self.kind == "call":
            deltas.append(CallEnd(self.call, opaque, origin if opaque else ""))
        return deltas


class StreamReader:
    """Base of the wires' `AnswerReader`s."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._calls = 0
        self.done = False

    def _start_call(self, name: str | None, provider_id: str | None) -> CallStart:
        index, self._calls = self._calls, self._calls + 1
        return CallStart(index, repair_text(name or ""), repair_text(provider_id) if provider_id else None)

    def _stop(self, reason: StopReason, detail: str = "") -> Stop:
        self.done = True
        return Stop(reason, sanitize_message(detail, self._target.redact))

    def _error(self, error: object) -> ModelError:
        return error_from_event(error, host=self._target.host, redact=self._target.redact)

    def _incomplete(self) -> ModelNetwork:
        return incomplete_answer(self._target.host)


def incomplete_answer(host: str) -> ModelNetwork:
    """The error for a stream that ended before its answer did."""
    return ModelNetwork(f"the connection to {host} ended before the answer was complete")
