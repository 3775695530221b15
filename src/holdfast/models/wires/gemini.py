"""Gemini: `streamGenerateContent` as server-sent events, with thought signatures."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import msgspec

from holdfast.errors import ModelMalformed
from holdfast.models.protocol import CallArguments, CallEnd, ModelDelta, ModelRequest, StopReason, UsageReport
from holdfast.models.wires.json_values import JsonReader, arguments_json, count_in, object_in, text_in
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
from holdfast.models.wires.stream_reader import StreamedPart, StreamReader
from holdfast.schema.base import repair_text
from holdfast.schema.messages import File, Message, Reasoning, Text, ToolCall, ToolResult
from holdfast.schema.sse_parser import SseEvent
from holdfast.schema.usage import Usage

_BUDGETS = {"none": 0, "minimal": 512, "low": 2048, "medium": 8192, "high": 24_576}
_LEVELS = {"none": "minimal", "xhigh": "high", "max": "high"}
_FOREIGN_SIGNATURE = "skip_thought_signature_validator"
"""Sent for a call that another model made. The provider documents it for this use."""


class Gemini:
    name = "gemini"
    shares_reasoning = False

    def path(self, target: Target) -> str:
        return f"/models/{quote(target.model, safe='/-._~')}:streamGenerateContent?alt=sse"

    def headers(self, key: str | None, target: Target) -> dict[str, str]:
        return {"x-goog-api-key": key} if key else {}

    def body(self, request: ModelRequest, target: Target, cache: RequestCache | None = None) -> dict[str, Any]:
        body: dict[str, Any] = {}
        if system := [{"text": text} for text in request.system if text.strip()]:
            body["systemInstruction"] = {"parts": system}
        if request.tools:
            functions = [
                {"name": tool.name, "description": tool.description, "parametersJsonSchema": tool.parameters}
                for tool in request.tools
            ]
            body["tools"] = [{"functionDeclarations": functions}]
            if not request.may_call:
                body["toolConfig"] = {"functionCallingConfig": {"mode": "NONE"}}
        body["contents"] = build_items(request.messages, cache, lambda: _Contents(target)).items
        if config := _generation_config(request, target):
            body["generationConfig"] = config
        return body

    def reader(self, target: Target) -> GeminiReader:
        return GeminiReader(target)


def _generation_config(request: ModelRequest, target: Target) -> dict[str, Any]:
    config: dict[str, Any] = {}
    if request.max_output:
        config["maxOutputTokens"] = request.max_output
    if request.effort or target.info.reasoning:
        config["thinkingConfig"] = {"includeThoughts": True, **_effort(request.effort, target)}
    if request.output_schema is not None:
        config |= {"responseMimeType": "application/json", "responseJsonSchema": request.output_schema}
    return config


def _effort(effort: str | None, target: Target) -> dict[str, Any]:
    if not effort:
        return {}
    if _takes_budget(target):
        return {"thinkingBudget": _BUDGETS.get(effort, _BUDGETS["high"])}
    return {"thinkingLevel": _LEVELS.get(effort, effort)}


def _takes_budget(target: Target) -> bool:
    """Models before the third generation take a number of tokens instead of a level."""
    return "gemini-2" in target.model or "gemini-1" in target.model


class _Contents(MessageItems):
    @property
    def settled(self) -> int:
        return len(self.items) - 1

    def add(self, message: Message) -> None:
        if message.role == "assistant":
            self._ids.add(message)
            self._append("model", "parts", self._model_parts(message))
        else:
            self._append("user", "parts", self._user_parts(message))

    def _model_parts(self, message: Message) -> list[dict[str, Any]]:
        parts: list[dict[str, Any]] = []
        calls: list[dict[str, Any]] = []
        for part in message.parts:
            match part:
                case Text(text=text) if text.strip():
                    parts.append({"text": text})
                case Reasoning(opaque=dict(opaque), wire=wire) if wire == self._target.origin:
                    parts.append({"text": "", "thoughtSignature": opaque["signature"]})
                case ToolCall():
                    function = {**self._id(part.id), "name": call_name(part), "args": call_arguments(part)}
                    call: dict[str, Any] = {"functionCall": function}
                    if part.opaque and part.wire == self._target.origin:
                        call["thoughtSignature"] = part.opaque["signature"]
                    parts.append(call)
                    calls.append(call)
                case _:
                    pass
        if calls and not any("thoughtSignature" in call for call in calls) and not _takes_budget(self._target):
            calls[0]["thoughtSignature"] = _FOREIGN_SIGNATURE
        return parts

    def _user_parts(self, message: Message) -> list[dict[str, Any]]:
        parts: list[dict[str, Any]] = []
        for part in message.parts:
            if isinstance(part, ToolResult):
                text, files = result_pieces(part, images=self._images)
                content = {"output" if part.status == "ok" else "error": text}
                response = {**self._id(part.call_id), "name": call_name(part), "response": content}
                parts += [{"functionResponse": response}, *(_part(file) for file in files)]
        return parts + [_part(piece) for piece in user_pieces(message.parts, images=self._images)]

    def _id(self, call_id: str) -> dict[str, str]:
        """Calls and results are matched by name and order. An id is sent only if the provider gave one."""
        sent = self._ids[call_id]
        return {"id": sent} if sent != call_id else {}


def _part(piece: Piece) -> dict[str, Any]:
    match piece:
        case str():
            return {"text": piece}
        case File():
            return {"inlineData": {"mimeType": piece.media_type, "data": piece.data}}


_REFUSALS = frozenset(
    {
        *{"SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII"},
        *{"IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION"},
    }
)
_UNREADABLE = frozenset({"MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "MALFORMED_RESPONSE"})


class _FunctionCall(msgspec.Struct):
    name: str | None = None
    id: str | None = None
    args: object = None


class _Part(msgspec.Struct, rename="camel"):
    text: str | None = None
    thought: bool | None = None
    thought_signature: str | None = None
    function_call: _FunctionCall | None = None


class _Content(msgspec.Struct):
    parts: list[_Part] | None = None


class _Candidate(msgspec.Struct, rename="camel"):
    content: _Content | None = None
    finish_reason: str | None = None
    finish_message: str | None = None
    index: int | None = None


class _Chunk(msgspec.Struct, rename="camel"):
    candidates: list[_Candidate] | None = None
    usage_metadata: object = None
    prompt_feedback: object = None
    error: object = None


_chunks = JsonReader(_Chunk)


class GeminiReader(StreamReader):
    def __init__(self, target: Target) -> None:
        super().__init__(target)
        self._text = StreamedPart("text")
        self._reasoning = StreamedPart("reasoning")
        self._reasoning_open = False
        self._finish_reason: str | None = None
        self._detail = ""
        self._blocked = False

    def feed(self, event: SseEvent) -> list[ModelDelta]:
        if self.done:
            return []
        chunk = _chunks.read(event.data)
        if chunk.error:
            raise self._error(chunk.error)
        deltas: list[ModelDelta] = []
        for candidate in chunk.candidates or ():
            if not candidate.index:
                deltas += self._on_candidate(candidate)
        if reason := text_in(chunk.prompt_feedback, "blockReason"):
            self._blocked = True
            self._detail = reason
        if usage := object_in(chunk.usage_metadata):
            deltas.append(UsageReport(_usage(usage)))
        return deltas

    def end(self) -> list[ModelDelta]:
        """The wire has no last event. An answer is complete if it has a finish reason."""
        if self.done:
            return []
        reason = self._finish_reason
        if reason is None and not self._blocked:
            raise self._incomplete()
        if reason in _UNREADABLE:
            raise ModelMalformed(f"{self._target.host} could not read its model's answer ({reason})")
        deltas = self._end_reasoning() if self._reasoning_open else []
        deltas += self._text.end(self._target.origin)
        return [*deltas, self._stop(self._stop_reason(reason), self._detail)]

    def _stop_reason(self, reason: str | None) -> StopReason:
        if self._blocked or reason in _REFUSALS:
            return "refused"
        if reason == "MAX_TOKENS":
            return "max_tokens"
        return "tool_use" if self._calls else "end_turn"

    def _on_candidate(self, candidate: _Candidate) -> list[ModelDelta]:
        deltas: list[ModelDelta] = []
        for part in (candidate.content.parts if candidate.content else None) or ():
            deltas += self._on_part(part)
        if candidate.finish_reason:
            self._finish_reason = candidate.finish_reason
            if candidate.finish_reason not in {"STOP", "MAX_TOKENS"}:
                self._detail = f"{candidate.finish_reason} {candidate.finish_message or ''}".strip()
        return deltas

    def _on_part(self, part: _Part) -> list[ModelDelta]:
        if part.function_call is not None:
            return self._on_call(part.function_call, part.thought_signature)
        deltas: list[ModelDelta] = []
        if part.thought:
            self._reasoning_open = True
            deltas = self._reasoning.add(part.text or "")
        elif part.text:
            deltas = self._end_reasoning() if self._reasoning_open else []
            deltas += self._text.add(part.text)
        if part.thought_signature:
            deltas += self._end_reasoning(part.thought_signature)
        return deltas

    def _end_reasoning(self, signature: str | None = None) -> list[ModelDelta]:
        """End the open reasoning. The signature of text becomes reasoning without text."""
        self._reasoning_open = False
        return self._reasoning.end(self._target.origin, _opaque(signature))

    def _on_call(self, call: _FunctionCall, signature: str | None) -> list[ModelDelta]:
        """A call arrives whole."""
        deltas = self._end_reasoning() if self._reasoning_open else []
        start = self._start_call(call.name, call.id)
        deltas.append(start)
        if call.args:
            deltas.append(CallArguments(start.index, arguments_json(call.args)))
        opaque = _opaque(signature)
        return [*deltas, CallEnd(start.index, opaque, self._target.origin if opaque else "")]


def _opaque(signature: str | None) -> dict[str, Any] | None:
    return {"signature": repair_text(signature)} if signature else None


def _usage(usage: dict[str, object]) -> Usage:
    read = count_in(usage, "cachedContentTokenCount")
    prompt = count_in(usage, "promptTokenCount") + count_in(usage, "toolUsePromptTokenCount")
    output = count_in(usage, "candidatesTokenCount") + count_in(usage, "thoughtsTokenCount")
    return Usage(input=max(0, prompt - read), output=output, cache_read=read)
