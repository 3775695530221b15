"""Anthropic Messages: thinking with its signatures, cache markers on the stable prefix, tools and images."""

from __future__ import annotations

import re
from typing import Any

from holdfast.models.protocol import ModelRequest
from holdfast.models.request_cache import RequestCache, request_items
from holdfast.models.wires.anthropic_reader import AnthropicReader
from holdfast.models.wires.message_parts import CallIds, Piece, arguments, pieces, result_pieces
from holdfast.models.wires.protocol import Target
from holdfast.schema.messages import File, Message, Reasoning, Text, ToolCall, ToolResult

_DEFAULT_MAX_TOKENS = 8192
"""The wire demands a number; used where neither the request nor the catalogue has one."""
_LEAST_BUDGET = 1024
_BUDGETS = {"minimal": 1024, "low": 4096, "medium": 12_000, "high": 24_000, "xhigh": 32_000, "max": 48_000}
_EFFORTS = frozenset({"low", "medium", "high", "xhigh", "max"})
_WITH_BUDGET = re.compile(r"claude-(?:[23]|(?:opus|sonnet|haiku)-4(?:-[015])?(?:-\d{8}|-latest)?$)")
"""Models that are told how many tokens to think; later ones decide themselves and are told an effort."""
_MARK = {"type": "ephemeral"}


class Anthropic:
    name = "anthropic"
    shares_thoughts = False

    def path(self, target: Target) -> str:
        return "/messages"

    def headers(self, key: str | None, target: Target) -> dict[str, str]:
        headers = {"anthropic-version": "2023-06-01"}
        if key:
            headers["x-api-key"] = key
        if _WITH_BUDGET.match(target.model) and target.info.reasoning:
            headers["anthropic-beta"] = "interleaved-thinking-2025-05-14"
        return headers

    def body(self, request: ModelRequest, target: Target, memory: RequestCache | None = None) -> dict[str, Any]:
        max_tokens = request.max_output or target.info.max_output or _DEFAULT_MAX_TOKENS
        body: dict[str, Any] = {"model": target.model, "max_tokens": max_tokens, "stream": True}
        if system := [{"type": "text", "text": text} for text in request.system if text.strip()]:
            body["system"] = _marked(system)
        if request.tools:
            body["tools"] = _marked(
                [
                    {"name": tool.name, "description": tool.description, "input_schema": tool.parameters}
                    for tool in request.tools
                ]
            )
        body["messages"] = request_items(request.messages, memory, lambda: _Spoken(target)).messages()
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
    if target.model.startswith("claude-") and not _WITH_BUDGET.match(target.model):
        level = effort if effort in _EFFORTS else "low"
        return {"thinking": {"type": "adaptive", "display": "summarized"}, "output_config": {"effort": level}}
    budget = min(_BUDGETS.get(effort, _BUDGETS["medium"]), max_tokens - _LEAST_BUDGET)
    return {"thinking": {"type": "enabled", "budget_tokens": budget}} if budget >= _LEAST_BUDGET else {}


class _Spoken:
    """Neighbours of one role become one message; the last two of the user's carry cache markers."""

    def __init__(self, target: Target) -> None:
        self.said: list[dict[str, Any]] = []
        self._target = target
        self._ids = CallIds()

    @property
    def settled(self) -> int:
        return len(self.said) - 4

    def add(self, message: Message) -> None:
        if message.role == "assistant":
            self._ids.learn(message)
            role, blocks = "assistant", _assistant(message, self._ids, self._target)
        else:
            role, blocks = "user", _user(message, self._ids, images=self._target.info.images)
        if not blocks:
            return
        if self.said and self.said[-1]["role"] == role:
            self.said[-1]["content"] += blocks
        else:
            self.said.append({"role": role, "content": blocks})

    def messages(self) -> list[dict[str, Any]]:
        said = list(self.said)
        for place in [place for place in range(max(0, len(said) - 4), len(said)) if said[place]["role"] == "user"][-2:]:
            said[place] = {**said[place], "content": _marked(said[place]["content"])}
        return said


def _assistant(message: Message, ids: CallIds, target: Target) -> list[dict[str, Any]]:
    blocks: list[dict[str, Any]] = []
    for part in message.parts:
        match part:
            case Text(text=text) if text.strip():
                blocks.append({"type": "text", "text": text})
            case Reasoning(opaque=dict(opaque), wire=wire) if wire == target.origin:
                blocks.append(_thought(part.text, opaque))
            case ToolCall():
                use = {"type": "tool_use", "id": ids[part.id], "name": part.name, "input": arguments(part)}
                blocks.append(use)
            case _:
                pass
    return blocks


def _thought(text: str, opaque: dict[str, Any]) -> dict[str, Any]:
    if "redacted" in opaque:
        return {"type": "redacted_thinking", "data": opaque["redacted"]}
    return {"type": "thinking", "thinking": text, "signature": opaque.get("signature", "")}


def _user(message: Message, ids: CallIds, *, images: bool) -> list[dict[str, Any]]:
    results = [_result(part, ids, images=images) for part in message.parts if isinstance(part, ToolResult)]
    return results + [_block(piece) for piece in pieces(message.parts, images=images)]


def _result(result: ToolResult, ids: CallIds, *, images: bool) -> dict[str, Any]:
    text, files = result_pieces(result, images=images)
    block: dict[str, Any] = {"type": "tool_result", "tool_use_id": ids[result.call_id]}
    block["content"] = [_block(text), *(_block(file) for file in files)]
    if result.status != "ok":
        block["is_error"] = True
    return block


def _block(piece: Piece) -> dict[str, Any]:
    match piece:
        case str():
            return {"type": "text", "text": piece}
        case File():
            source = {"type": "base64", "media_type": piece.media_type, "data": piece.data}
            return {"type": "image", "source": source}


def _marked(blocks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same blocks, the end of the last one marked as worth caching up to here."""
    return [*blocks[:-1], {**blocks[-1], "cache_control": _MARK}]
