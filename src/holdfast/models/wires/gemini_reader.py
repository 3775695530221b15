"""Reads a stream of Gemini's `GenerateContentResponse`s."""

from __future__ import annotations

import msgspec

from holdfast.errors import ModelMalformed
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


class GeminiReader:
    def __init__(self, target: Target) -> None:
        self._target = target
        self._text = SurrogateJoiner()
        self._thought = SurrogateJoiner()
        self._thinking = False
        self._calls = 0
        self._finish_reason: str | None = None
        self._detail = ""
        self._blocked = False
        self.done = False

    def feed(self, event: SseEvent) -> list[ModelDelta]:
        if self.done:
            return []
        chunk = _chunks.read(event.data)
        if chunk.error:
            raise error_mapping.from_event(chunk.error, host=self._target.host, redact=self._target.redact)
        deltas: list[ModelDelta] = []
        for candidate in chunk.candidates or ():
            if not candidate.index:
                deltas += self._on_candidate(candidate)
        if blocked := text_in(chunk.prompt_feedback, "blockReason"):
            self._blocked = True
            self._detail = error_mapping.shown(blocked, self._target.redact)
        if usage := object_in(chunk.usage_metadata):
            deltas.append(UsageReport(_usage(usage)))
        return deltas

    def end(self) -> list[ModelDelta]:
        """This wire has no last event: an answer is complete if it told why it ended."""
        if self.done:
            return []
        reason = self._finish_reason
        if reason is None and not self._blocked:
            raise cut_off(self._target.host)
        if reason in _UNREADABLE:
            raise ModelMalformed(f"{self._target.host or 'the provider'} could not read its model's answer ({reason})")
        deltas: list[ModelDelta] = self._end_thought() if self._thinking else []
        if rest := self._text.flush():
            deltas.append(TextDelta(rest))
        self.done = True
        return [*deltas, Stop(self._stop(reason), self._detail)]

    def _stop(self, reason: str | None) -> StopReason:
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
                words = f"{candidate.finish_reason} {candidate.finish_message or ''}".strip()
                self._detail = error_mapping.shown(words, self._target.redact)
        return deltas

    def _on_part(self, part: _Part) -> list[ModelDelta]:
        if part.function_call is not None:
            return self._on_call(part.function_call, part.thought_signature)
        if part.thought:
            self._thinking = True
            text = self._thought.mend(part.text or "")
            deltas: list[ModelDelta] = [ReasoningDelta(text)] if text else []
            return deltas + (self._end_thought(part.thought_signature) if part.thought_signature else [])
        deltas = []
        if part.text:
            if self._thinking:
                deltas += self._end_thought()
            text = self._text.mend(part.text)
            deltas += [TextDelta(text)] if text else []
        if part.thought_signature:
            deltas += self._end_thought(part.thought_signature)
        return deltas

    def _end_thought(self, signature: str | None = None) -> list[ModelDelta]:
        """Closes the open reasoning; a signature that belongs to text becomes reasoning without words."""
        self._thinking = False
        rest = self._thought.flush()
        opaque = {"signature": repair_text(signature)} if signature else None
        return [*([ReasoningDelta(rest)] if rest else ()), ReasoningEnd(opaque, self._target.origin)]

    def _on_call(self, call: _FunctionCall, signature: str | None) -> list[ModelDelta]:
        """Calls come whole on this wire."""
        deltas: list[ModelDelta] = self._end_thought() if self._thinking else []
        index = self._calls
        self._calls += 1
        deltas.append(CallStart(index, repair_text(call.name or ""), repair_text(call.id) if call.id else None))
        if call.args:
            deltas.append(CallArguments(index, as_json(json_tree(call.args))))
        opaque = {"signature": repair_text(signature)} if signature else None
        return [*deltas, CallEnd(index, opaque, self._target.origin if opaque else "")]


def _usage(usage: dict[str, object]) -> Usage:
    read = count_in(usage, "cachedContentTokenCount")
    prompt = count_in(usage, "promptTokenCount") + count_in(usage, "toolUsePromptTokenCount")
    output = count_in(usage, "candidatesTokenCount") + count_in(usage, "thoughtsTokenCount")
    return Usage(input=max(0, prompt - read), output=output, cache_read=read)
