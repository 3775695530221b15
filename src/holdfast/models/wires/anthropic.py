"""Anthropic Messages: signed thinking, cache markers on the stable prefix, tools and images."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from holdfast.models.protocol import ModelDelta, ModelRequest, StopReason, UsageReport
from holdfast.models.wires.json_values import JsonReader, compact_json, count_in, json_tree, object_in, text_in
from holdfast.models.wires.protocol import Target
from holdfast.models.wires.request_cache import RequestCache, build_items
from holdfast.models.wires.request_parts import (
    MessageItems,
    Piece,
    call_arguments,
    call_name,
    result_pieces,
    user_pieces,
)
from holdfast.models.wires.stream_reader import PartKind, StreamedPart, StreamReader
from holdfast.schema.base import repair_text
from holdfast.schema.messages import File, Message, Reasoning, Text, ToolCall, ToolResult
from holdfast.schema.sse_parser import SseEvent
from holdfast.schema.usage import Usage

_FALLBACK_MAX_TOKENS = 8192
"""The wire requires a number. Used if neither the request nor the catalogue has one."""
_MIN_BUDGET = 1024
_BUDGETS = {"minimal": 1024, "low": 4096, "medium": 12_000, "high": 24_000, "xhigh": 32_000, "max": 48_000}
_EFFORTS = frozenset({"low", "medium", "high", "xhigh", "max"})
_BUDGET_MODELS = re.compile(r"claude-(?:[23]|(?:opus|sonnet|haiku)-4(?:-[015])?(?:-\d{8}|-latest)?$)")
"""Models that take a number of thinking tokens. Later ones take an effort."""
_CACHE_MARKER = {"type": "ephemeral"}
_MARKED_RANGE = 4
"""The last two user messages, which carry cache markers, are among the last four."""


class Anthropic:
    name = "anthropic"
    shares_reasoning = False

    def path(self, target: Target) -> str:
        return "/messages"

    def headers(self, key: str | None, target: Target) -> dict[str, str]:
        headers = {"anthropic-version": "2023-06-01"}
        if key:
            headers["x-api-key"] = key
        if _BUDGET_MODELS.match(target.model) and target.info.reasoning:
            headers["anthropic-beta"] = "interleaved-thinking-2025-05-14"
        return headers

    def body(self, request: ModelRequest, target: Target, cache: RequestCache | None = None) -> dict[str, Any]:
        max_tokens = request.max_output or target.info.max_output or _FALLBACK_MAX_TOKENS
        body: dict[str, Any] = {"model": target.model, "max_tokens": max_tokens, "stream": True}
        if system := [{"type": "text", "text": text} for text in request.system if text.strip()]:
            body["system"] = _mark_last(system)
        if request.tools:
            body["tools"] = _mark_last(
                [
                    {"name": tool.name, "description": tool.description, "input_schema": tool.parameters}
                    for tool in request.tools
                ]
            )
            if not request.may_call:
                body["tool_choice"] = {"type": "none"}
        body["messages"] = build_items(request.messages, cache, lambda: _Messages(target)).marked()
        body |= _thinking(request.effort, target, max_tokens=max_tokens)
        if request.output_schema is not None:
            output_config = body.setdefault("output_config", {})
            output_config["format"] = {"type": "json_schema", "schema": request.output_schema}
        return body

    def reader(self, target: Target) -> AnthropicReader:
        return AnthropicReader(target)


def _thinking(effort: str | None, target: Target, *, max_tokens: int) -> dict[str, Any]:
    if not effort or effort == "none":
        return {}
    if target.model.startswith("claude-") and not _BUDGET_MODELS.match(target.model):
        level = effort if effort in _EFFORTS else "low"
        return {"thinking": {"type": "adaptive", "display": "summarized"}, "output_config": {"effort": level}}
    budget = min(_BUDGETS.get(effort, _BUDGETS["medium"]), max_tokens - _MIN_BUDGET)
    return {"thinking": {"type": "enabled", "budget_tokens": budget}} if budget >= _MIN_BUDGET else {}


class _Messages(MessageItems):
    @property
    def settled(self) -> int:
        return len(self.items) - _MARKED_RANGE

    def add(self, message: Message) -> None:
        if message.role == "assistant":
            self._ids.add(message)
            self._append("assistant", "content", self._assistant_blocks(message))
        else:
            results = [self._result_block(part) for part in message.parts if isinstance(part, ToolResult)]
            pieces = user_pieces(message.parts, images=self._images)
            self._append("user", "content", results + [_block(piece) for piece in pieces])

    def marked(self) -> list[dict[str, Any]]:
        """The messages, with cache markers on the last two of the user."""
        messages = list(self.items)
        recent = range(max(0, len(messages) - _MARKED_RANGE), len(messages))
        for index in [index for index in recent if messages[index]["role"] == "user"][-2:]:
            messages[index] = {**messages[index], "content": _mark_last(messages[index]["content"])}
        return messages

    def _assistant_blocks(self, message: Message) -> list[dict[str, Any]]:
        blocks: list[dict[str, Any]] = []
        for part in message.parts:
            match part:
                case Text(text=text) if text.strip():
                    blocks.append({"type": "text", "text": text})
                case Reasoning(opaque=dict(opaque), wire=wire) if wire == self._target.origin:
                    blocks.append(_thinking_block(part.text, opaque))
                case ToolCall():
                    block = {"type": "tool_use", "id": self._ids[part.id], "name": call_name(part)}
                    blocks.append({**block, "input": call_arguments(part)})
                case _:
                    pass
        return blocks

    def _result_block(self, result: ToolResult) -> dict[str, Any]:
        text, files = result_pieces(result, images=self._images)
        block: dict[str, Any] = {"type": "tool_result", "tool_use_id": self._ids[result.call_id]}
        block["content"] = [_block(text), *(_block(file) for file in files)]
        if result.status != "ok":
            block["is_error"] = True
        return block


def _thinking_block(text: str, opaque: dict[str, Any]) -> dict[str, Any]:
    if "redacted" in opaque:
        return {"type": "redacted_thinking", "data": opaque["redacted"]}
    return {"type": "thinking", "thinking": text, "signature": opaque.get("signature", "")}


def _block(piece: Piece) -> dict[str, Any]:
    match piece:
        case str():
            return {"type": "text", "text": piece}
        case File():
            source = {"type": "base64", "media_type": piece.media_type, "data": piece.data}
            return {"type": "image", "source": source}


def _mark_last(blocks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the blocks with a cache marker on the last one."""
    return [*blocks[:-1], {**blocks[-1], "cache_control": _CACHE_MARKER}]


_STOP_REASONS: dict[str, StopReason] = {
    "end_turn": "end_turn",
    "stop_sequence": "end_turn",
    "pause_turn": "end_turn",
    "tool_use": "tool_use",
    "max_tokens": "max_tokens",
    "model_context_window_exceeded": "max_tokens",
    "refusal": "refused",
}
_PART_KINDS: dict[str, PartKind] = {
    "text": "text",
    "thinking": "reasoning",
    "redacted_thinking": "reasoning",
    "tool_use": "call",
}
_USAGE_FIELDS = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")


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


class _Start(msgspec.Struct):
    usage: object = None


class _Event(msgspec.Struct):
    type: str = ""
    index: int = 0
    delta: _Delta | None = None
    content_block: _Block | None = None
    message: _Start | None = None
    usage: object = None
    error: object = None


_events = JsonReader(_Event)


class _OpenBlock(StreamedPart):
    __slots__ = ("input", "opaque", "type")

    def __init__(self, type_: str, *, call: int = 0) -> None:
        super().__init__(_PART_KINDS.get(type_, "ignored"), call=call)
        self.type = type_
        self.input: object = None
        """Arguments that came with the block's start. Deltas replace them."""
        self.opaque: dict[str, Any] | None = None


class AnthropicReader(StreamReader):
    def __init__(self, target: Target) -> None:
        super().__init__(target)
        self._open: dict[int, _OpenBlock] = {}
        self._usage: dict[str, int] = {}
        self._stop_reason: str | None = None
        self._explanation = ""

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
                return self._end_block(found.index)
            case "message_start":
                return self._on_usage(found.message.usage if found.message else None)
            case "message_delta":
                if found.delta and found.delta.stop_reason:
                    self._stop_reason = found.delta.stop_reason
                    self._explanation = text_in(found.delta.stop_details, "explanation")
                return self._on_usage(found.usage)
            case "message_stop":
                return self._finish()
            case "error":
                raise self._error(found.error)
        return []

    def end(self) -> list[ModelDelta]:
        if self.done:
            return []
        if self._stop_reason is None:
            raise self._incomplete()
        return self._finish()

    def _on_start(self, index: int, block: _Block) -> list[ModelDelta]:
        deltas = self._end_block(index)
        opened = self._open[index] = _OpenBlock(block.type)
        match block.type:
            case "text":
                deltas += opened.add(block.text or "")
            case "thinking":
                if block.signature:
                    opened.opaque = {"signature": repair_text(block.signature)}
                deltas += opened.add(block.thinking or "")
            case "redacted_thinking":
                opened.opaque = {"redacted": repair_text(block.data or "")}
            case "tool_use":
                start = self._start_call(block.name, block.id)
                opened.call = start.index
                opened.input = block.input
                deltas.append(start)
        return deltas

    def _on_delta(self, index: int, delta: _Delta) -> list[ModelDelta]:
        opened = self._open.get(index)
        if opened is None:
            opened = self._open[index] = _OpenBlock("thinking" if delta.type == "thinking_delta" else "text")
        match delta.type:
            case "text_delta" if opened.type == "text":
                return opened.add(delta.text or "")
            case "input_json_delta" if opened.type == "tool_use":
                if delta.partial_json:
                    opened.input = None
                return opened.add(delta.partial_json or "")
            case "thinking_delta" if opened.type == "thinking":
                return opened.add(delta.thinking or "")
            case "signature_delta" if opened.type == "thinking":
                opened.opaque = {"signature": repair_text(delta.signature or "")}
        return []

    def _end_block(self, index: int) -> list[ModelDelta]:
        opened = self._open.pop(index, None)
        if opened is None:
            return []
        whole = opened.add(compact_json(json_tree(opened.input))) if opened.input else []
        return whole + opened.end(self._target.origin, opened.opaque)

    def _on_usage(self, reported: object) -> list[ModelDelta]:
        """Counts are totals: a later one replaces an earlier one, and a missing one changes nothing."""
        usage = object_in(reported)
        if not usage:
            return []
        for name in _USAGE_FIELDS:
            if usage.get(name) is not None:
                self._usage[name] = count_in(usage, name)
        given, made, read, written = (self._usage.get(name, 0) for name in _USAGE_FIELDS)
        return [UsageReport(Usage(input=given, output=made, cache_read=read, cache_write=written))]

    def _finish(self) -> list[ModelDelta]:
        deltas: list[ModelDelta] = []
        for index in list(self._open):
            deltas += self._end_block(index)
        given = self._stop_reason or ""
        reason = _STOP_REASONS.get(given) or ("tool_use" if self._calls else "end_turn")
        plain = {"end_turn", "tool_use", "max_tokens"}
        return [*deltas, self._stop(reason, self._explanation or ("" if given in plain else given))]
