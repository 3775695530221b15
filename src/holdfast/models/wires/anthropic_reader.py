"""Reads a stream of Anthropic Messages."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.models import error_mapping
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
    UsageReport,
)
from holdfast.models.wires.protocol import Target
from holdfast.models.wires.stream_json import (
    JsonReader,
    SurrogateJoiner,
    as_json,
    count_in,
    cut_off,
    json_tree,
    object_in,
    text_in,
)
from holdfast.schema.base import repair_text
from holdfast.schema.sse_parser import SseEvent
from holdfast.schema.usage import Usage

_STOPS: dict[str, StopReason] = {
    "end_turn": "end_turn",
    "stop_sequence": "end_turn",
    "pause_turn": "end_turn",
    "tool_use": "tool_use",
    "max_tokens": "max_tokens",
    "model_context_window_exceeded": "max_tokens",
    "refusal": "refused",
}


class _Block(msgspec.Struct):
    type: str = ""
    text: str | None = None
    thinking: str | None = None
    signature: str | None = None
    data: str | None = None
    id: str | None = None
    name: str | None = None
    input: object = None


class _Delta(msgspec.Struct):
    type: str = ""
    text: str | None = None
    thinking: str | None = None
    signature: str | None = None
    partial_json: str | None = None
    stop_reason: str | None = None
    stop_details: object = None


class _Opening(msgspec.Struct):
    usage: object = None


class _Event(msgspec.Struct):
    type: str = ""
    index: int = 0
    delta: _Delta | None = None
    content_block: _Block | None = None
    message: _Opening | None = None
    usage: object = None
    error: object = None


_events = JsonReader(_Event)


class _Open:
    """A content block that is being streamed."""

    __slots__ = ("call", "input", "kind", "mender", "opaque")

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.mender = SurrogateJoiner()
        self.call = 0
        self.input: object = None
        """Arguments that came whole with the block's start; deltas replace them."""
        self.opaque: dict[str, Any] | None = None


class AnthropicReader:
    def __init__(self, target: Target) -> None:
        self._target = target
        self._open: dict[int, _Open] = {}
        self._calls = 0
        self._usage: dict[str, int] = {}
        self._stop: str | None = None
        self._detail = ""
        self.done = False

    def feed(self, event: SseEvent) -> list[ModelDelta]:
        if self.done:
            return []
        found = _events.read(event.data)
        match found.type or event.event:
            case "content_block_delta":
                return self._on_delta(found.index, found.delta) if found.delta else []
            case "content_block_start":
                return self._on_start(found.index, found.content_block) if found.content_block else []
            case "content_block_stop":
                return self._close(found.index)
            case "message_start":
                return self._on_usage(found.message.usage if found.message else None)
            case "message_delta":
                if found.delta and found.delta.stop_reason:
                    self._stop = found.delta.stop_reason
                    self._detail = error_mapping.shown(text_in(found.delta.stop_details, "explanation"))
                return self._on_usage(found.usage)
            case "message_stop":
                return self._finish()
            case "error":
                raise error_mapping.from_event(found.error, host=self._target.host, redact=self._target.redact)
        return []

    def end(self) -> list[ModelDelta]:
        if self.done:
            return []
        if self._stop is None:
            raise cut_off(self._target.host)
        return self._finish()

    def _on_start(self, index: int, block: _Block) -> list[ModelDelta]:
        deltas = self._close(index)
        opened = self._open[index] = _Open(block.type)
        match block.type:
            case "text" if block.text:
                deltas += _text(opened.mender.mend(block.text))
            case "thinking":
                if block.signature:
                    opened.opaque = {"signature": repair_text(block.signature)}
                deltas += _thought(opened.mender.mend(block.thinking or ""))
            case "redacted_thinking":
                opened.opaque = {"redacted": repair_text(block.data or "")}
            case "tool_use":
                opened.call = self._calls
                opened.input = block.input
                self._calls += 1
                provider_id = repair_text(block.id) if block.id else None
                deltas.append(CallStart(opened.call, repair_text(block.name or ""), provider_id))
        return deltas

    def _on_delta(self, index: int, delta: _Delta) -> list[ModelDelta]:
        opened = self._open.get(index)
        if opened is None:
            opened = self._open[index] = _Open({"thinking_delta": "thinking"}.get(delta.type, "text"))
        match delta.type:
            case "text_delta" if opened.kind == "text":
                return _text(opened.mender.mend(delta.text or ""))
            case "input_json_delta" if opened.kind == "tool_use":
                if delta.partial_json:
                    opened.input = None
                text = opened.mender.mend(delta.partial_json or "")
                return [CallArguments(opened.call, text)] if text else []
            case "thinking_delta" if opened.kind == "thinking":
                return _thought(opened.mender.mend(delta.thinking or ""))
            case "signature_delta" if opened.kind == "thinking":
                opened.opaque = {"signature": repair_text(delta.signature or "")}
        return []

    def _close(self, index: int) -> list[ModelDelta]:
        opened = self._open.pop(index, None)
        if opened is None:
            return []
        rest = opened.mender.flush()
        match opened.kind:
            case "text":
                return _text(rest)
            case "thinking" | "redacted_thinking":
                return [*_thought(rest), ReasoningEnd(opened.opaque, self._target.origin)]
            case "tool_use":
                if not rest and opened.input:
                    rest = as_json(json_tree(opened.input))
                ended = CallEnd(opened.call)
                return [CallArguments(opened.call, rest), ended] if rest else [ended]
        return []

    def _on_usage(self, reported: object) -> list[ModelDelta]:
        """Counts are totals: a later one replaces an earlier one, a missing one leaves it."""
        usage = object_in(reported)
        if not usage:
            return []
        for name in ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"):
            if usage.get(name) is not None:
                self._usage[name] = count_in(usage, name)
        return [
            UsageReport(
                Usage(
                    input=self._usage.get("input_tokens", 0),
                    output=self._usage.get("output_tokens", 0),
                    cache_read=self._usage.get("cache_read_input_tokens", 0),
                    cache_write=self._usage.get("cache_creation_input_tokens", 0),
                )
            )
        ]

    def _finish(self) -> list[ModelDelta]:
        deltas: list[ModelDelta] = []
        for index in list(self._open):
            deltas += self._close(index)
        given = self._stop or ""
        reason = _STOPS.get(given) or ("tool_use" if self._calls else "end_turn")
        told = {"end_turn", "tool_use", "max_tokens"}
        detail = self._detail or ("" if given in told else error_mapping.shown(given, self._target.redact))
        self.done = True
        return [*deltas, Stop(reason, detail)]


def _text(text: str) -> list[ModelDelta]:
    return [TextDelta(text)] if text else []


def _thought(text: str) -> list[ModelDelta]:
    return [ReasoningDelta(text)] if text else []
