"""Gemini: `streamGenerateContent` as server-sent events, with thought signatures."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from holdfast.models.protocol import ModelRequest
from holdfast.models.request_cache import RequestCache, request_items
from holdfast.models.wires.gemini_reader import GeminiReader
from holdfast.models.wires.message_parts import CallIds, Piece, arguments, pieces, result_pieces
from holdfast.models.wires.protocol import Target
from holdfast.schema.messages import File, Message, Reasoning, Text, ToolCall, ToolResult

_BUDGETS = {"none": 0, "minimal": 512, "low": 2048, "medium": 8192, "high": 24_576}
_LEVELS = {"none": "minimal", "xhigh": "high", "max": "high"}
_FOREIGN = "skip_thought_signature_validator"
"""Stands in for the signature of a call that another model made; the provider documents it for that."""


class Gemini:
    name = "gemini"
    shares_thoughts = False

    def path(self, target: Target) -> str:
        return f"/models/{quote(target.model, safe='/-._~')}:streamGenerateContent?alt=sse"

    def headers(self, key: str | None, target: Target) -> dict[str, str]:
        return {"x-goog-api-key": key} if key else {}

    def body(self, request: ModelRequest, target: Target, memory: RequestCache | None = None) -> dict[str, Any]:
        body: dict[str, Any] = {}
        if system := [{"text": text} for text in request.system if text.strip()]:
            body["systemInstruction"] = {"parts": system}
        if request.tools:
            declared = [
                {"name": tool.name, "description": tool.description, "parametersJsonSchema": tool.parameters}
                for tool in request.tools
            ]
            body["tools"] = [{"functionDeclarations": declared}]
        body["contents"] = request_items(request.messages, memory, lambda: _Spoken(target)).said
        if settings := _settings(request, target):
            body["generationConfig"] = settings
        return body

    def reader(self, target: Target) -> GeminiReader:
        return GeminiReader(target)


def _settings(request: ModelRequest, target: Target) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    if request.max_output:
        settings["maxOutputTokens"] = request.max_output
    if request.effort or target.info.reasoning:
        settings["thinkingConfig"] = {"includeThoughts": True, **_effort(request.effort, target)}
    if request.output_schema is not None:
        settings |= {"responseMimeType": "application/json", "responseJsonSchema": request.output_schema}
    return settings


def _effort(effort: str | None, target: Target) -> dict[str, Any]:
    if not effort:
        return {}
    if _by_budget(target):
        return {"thinkingBudget": _BUDGETS.get(effort, _BUDGETS["high"])}
    return {"thinkingLevel": _LEVELS.get(effort, effort)}


def _by_budget(target: Target) -> bool:
    """Models before the third generation are told tokens instead of a level."""
    return "gemini-2" in target.model or "gemini-1" in target.model


class _Spoken:
    """Neighbours of one role become one content, so that all results of a step stand together."""

    def __init__(self, target: Target) -> None:
        self.said: list[dict[str, Any]] = []
        self._target = target
        self._ids = CallIds()

    @property
    def settled(self) -> int:
        return len(self.said) - 1

    def add(self, message: Message) -> None:
        if message.role == "assistant":
            self._ids.learn(message)
            role, parts = "model", _model(message, self._ids, self._target)
        else:
            role, parts = "user", _user(message, self._ids, images=self._target.info.images)
        if not parts:
            return
        if self.said and self.said[-1]["role"] == role:
            self.said[-1]["parts"] += parts
        else:
            self.said.append({"role": role, "parts": parts})


def _model(message: Message, ids: CallIds, target: Target) -> list[dict[str, Any]]:
    parts: list[dict[str, Any]] = []
    unsigned: dict[str, Any] | None = None
    for part in message.parts:
        match part:
            case Text(text=text) if text.strip():
                parts.append({"text": text})
            case Reasoning(opaque=dict(opaque), wire=wire) if wire == target.origin:
                parts.append({"text": "", "thoughtSignature": opaque["signature"]})
            case ToolCall():
                call: dict[str, Any] = {
                    "functionCall": {**_id(ids, part.id), "name": part.name, "args": arguments(part)}
                }
                if part.opaque and part.wire == target.origin:
                    call["thoughtSignature"] = part.opaque["signature"]
                elif unsigned is None:
                    unsigned = call
                parts.append(call)
            case _:
                pass
    signed = any("thoughtSignature" in part for part in parts if "functionCall" in part)
    if unsigned is not None and not signed and not _by_budget(target):
        unsigned["thoughtSignature"] = _FOREIGN
    return parts


def _user(message: Message, ids: CallIds, *, images: bool) -> list[dict[str, Any]]:
    parts: list[dict[str, Any]] = []
    for part in message.parts:
        if isinstance(part, ToolResult):
            text, files = result_pieces(part, images=images)
            said = {"output" if part.status == "ok" else "error": text}
            answered = {**_id(ids, part.call_id), "name": part.name, "response": said}
            parts += [{"functionResponse": answered}, *(_part(file) for file in files)]
    return parts + [_part(piece) for piece in pieces(message.parts, images=images)]


def _id(ids: CallIds, call_id: str) -> dict[str, str]:
    """Calls and results are matched by name and order; an id goes back only where the provider gave one."""
    sent = ids[call_id]
    return {"id": sent} if sent != call_id else {}


def _part(piece: Piece) -> dict[str, Any]:
    match piece:
        case str():
            return {"text": piece}
        case File():
            return {"inlineData": {"mimeType": piece.media_type, "data": piece.data}}
