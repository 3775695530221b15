"""Reads a stream of OpenAI Chat Completions as compatible servers really send it.

Known habits: calls without an index or an id, whole calls in one chunk, several calls under one index, arguments as an
object, reasoning under three names, usage in a chunk of its own or in the choice, errors in mid-stream, an answer that
ends without a finish reason.
"""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.errors import ModelMalformed, ModelOverloaded
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
    objects_in,
    text_in,
)
from holdfast.schema.base import repair_text
from holdfast.schema.sse_parser import SseEvent
from holdfast.schema.usage import Usage

_STOPS: dict[str, StopReason] = {
    "stop": "end_turn",
    "eos": "end_turn",
    "tool_calls": "tool_use",
    "function_call": "tool_use",
    "length": "max_tokens",
    "model_length": "max_tokens",
    "content_filter": "refused",
}


class _Function(msgspec.Struct):
    name: str | None = None
    arguments: object = None


class _Call(msgspec.Struct):
    index: int | None = None
    id: str | None = None
    function: _Function | None = None
    extra_content: object = None


class _Delta(msgspec.Struct):
    content: object = None
    reasoning_content: object = None
    reasoning: object = None
    reasoning_details: object = None
    refusal: str | None = None
    tool_calls: list[_Call] | None = None
    function_call: _Function | None = None


class _Choice(msgspec.Struct):
    index: int | None = None
    delta: _Delta | None = None
    message: _Delta | None = None
    finish_reason: str | None = None
    usage: object = None


class _Chunk(msgspec.Struct):
    choices: list[_Choice] | None = None
    usage: object = None
    x_groq: object = None
    error: object = None


_chunks = JsonReader(_Chunk)
_objects = JsonReader(dict[str, Any])


class _Slot:
    """One call while it is being streamed."""

    __slots__ = ("extra", "held", "id", "index", "mender", "named")

    def __init__(self, index: int, call_id: str | None) -> None:
        self.index = index
        self.id = call_id
        self.named = False
        self.held = ""
        """Arguments that came before the name."""
        self.mender = SurrogateJoiner()
        self.extra: object = None


class OpenAIChatReader:
    def __init__(self, target: Target) -> None:
        self._target = target
        self._text = SurrogateJoiner()
        self._thought = SurrogateJoiner()
        self._thinking = False
        self._field: str | None = None
        self._details: list[dict[str, Any]] = []
        self._slots: list[_Slot] = []
        self._by_index: dict[int, _Slot] = {}
        self._finish_reason: str | None = None
        self._refused = False
        self._answered = False
        """Whether any chunk of an answer came."""
        self.done = False

    def feed(self, event: SseEvent) -> list[ModelDelta]:
        if self.done:
            return []
        if event.data.startswith(b"[DONE]"):
            return self._finish()
        chunk = _chunks.read(event.data)
        if chunk.error or event.event == "error":
            error = chunk.error or _objects.read(event.data)
            raise error_mapping.from_event(error, host=self._target.host, redact=self._target.redact)
        deltas: list[ModelDelta] = []
        usage = object_in(chunk.usage)
        for choice in chunk.choices or ():
            if choice.index:
                continue  # we ask for one answer
            self._answered = True
            if delta := choice.delta or choice.message:
                deltas = self._on_delta(delta)
            if choice.finish_reason:
                self._finish_reason = choice.finish_reason
            usage = usage or object_in(choice.usage)
        if usage := usage or object_in(chunk.x_groq, "usage"):
            deltas.append(UsageReport(_usage(usage)))
        return deltas

    def end(self) -> list[ModelDelta]:
        if self.done:
            return []
        if self._finish_reason is None:
            raise cut_off(self._target.host)
        return self._finish()

    def _on_delta(self, delta: _Delta) -> list[ModelDelta]:
        deltas: list[ModelDelta] = []
        if delta.reasoning_content or delta.reasoning or delta.reasoning_details:
            deltas += self._on_thought(delta)
        content = delta.content
        if content:
            deltas += self._on_text(content) if isinstance(content, str) else self._on_content(content)
        if delta.refusal:
            self._refused = True
            deltas += self._on_text(delta.refusal)
        for call in delta.tool_calls or ():
            deltas += self._on_call(call)
        if delta.function_call:
            deltas += self._on_call(_Call(index=0, function=delta.function_call))
        return deltas

    def _on_text(self, text: str) -> list[ModelDelta]:
        text = self._text.mend(text)
        if self._thinking:
            return [*self._end_thought(), *_text(text)]
        return _text(text)

    def _on_content(self, content: object) -> list[ModelDelta]:
        """Content as a list of typed parts, some of them thoughts."""
        deltas: list[ModelDelta] = []
        for part in objects_in(content):
            if text_in(part, "type") == "thinking":
                text = "".join(text_in(item, "text") for item in objects_in(part, "thinking"))
                deltas += self._on_thought(_Delta(reasoning=text))
            else:
                deltas += self._on_text(text_in(part, "text"))
        return deltas

    def _on_thought(self, delta: _Delta) -> list[ModelDelta]:
        details = objects_in(delta.reasoning_details)
        for detail in details:
            _add_detail(self._details, json_tree(detail))
        self._thinking = self._thinking or bool(details)
        for field, text in (
            ("reasoning_content", text_in(delta.reasoning_content)),
            ("reasoning", text_in(delta.reasoning)),
        ):
            if text:
                self._thinking = True
                self._field = field
                text = self._thought.mend(text)
                return [ReasoningDelta(text)] if text else []
        return []

    def _end_thought(self) -> list[ModelDelta]:
        self._thinking = False
        opaque: dict[str, Any] | None = {"field": self._field} if self._field else None
        if self._details:
            opaque, self._details = {"details": self._details}, []
        rest = self._thought.flush()
        return [*([ReasoningDelta(rest)] if rest else ()), ReasoningEnd(opaque, self._target.origin)]

    def _on_call(self, call: _Call) -> list[ModelDelta]:
        deltas: list[ModelDelta] = self._end_thought() if self._thinking else []
        function = call.function or _Function()
        slot = self._slot(call, function)
        if call.extra_content is not None:
            slot.extra = call.extra_content
        if function.name and not slot.named:
            slot.named = True
            deltas.append(CallStart(slot.index, repair_text(function.name), slot.id))
        given = function.arguments
        if given is not None and not isinstance(given, str):
            given = as_json(json_tree(given))
        text = slot.held + slot.mender.mend(given or "")
        slot.held = "" if slot.named else text
        if text and slot.named:
            deltas.append(CallArguments(slot.index, text))
        return deltas

    def _slot(self, call: _Call, function: _Function) -> _Slot:
        """Which call a piece belongs to: by index, by id where the index is missing or lies, else the last one."""
        found: _Slot | None
        if call.index is not None:
            found = self._by_index.get(call.index)
        elif call.id:
            found = next((slot for slot in self._slots if slot.id == call.id), None)
        else:
            found = self._slots[-1] if self._slots and not function.name else None
        another = found is not None and call.id and found.id and call.id != found.id and function.name
        if found is None or another:
            found = _Slot(len(self._slots), repair_text(call.id) if call.id else None)
            self._slots.append(found)
            if call.index is not None:
                self._by_index[call.index] = found
        elif call.id and not found.id:
            found.id = repair_text(call.id)
        return found

    def _finish(self) -> list[ModelDelta]:
        if not self._answered:
            raise ModelMalformed(f"{self._target.host or 'the provider'} ended its stream without an answer")
        reason = self._finish_reason or ""
        if reason in {"insufficient_system_resource", "error"}:
            raise ModelOverloaded(f"{self._target.host or 'the provider'} broke off its answer ({reason})")
        deltas: list[ModelDelta] = self._end_thought() if self._thinking else []
        deltas += _text(self._text.flush())
        for slot in self._slots:
            deltas += self._end_call(slot)
        stop = _STOPS.get(reason, "end_turn")
        if self._refused:
            stop = "refused"
        elif self._slots and stop == "end_turn":
            stop = "tool_use"
        self.done = True
        detail = (
            "" if reason in {"", "stop", "tool_calls", "length"} else error_mapping.shown(reason, self._target.redact)
        )
        return [*deltas, Stop(stop, detail)]

    def _end_call(self, slot: _Slot) -> list[ModelDelta]:
        deltas: list[ModelDelta] = [] if slot.named else [CallStart(slot.index, "", slot.id)]
        if rest := slot.held + slot.mender.flush():
            deltas.append(CallArguments(slot.index, rest))
        if slot.extra is None:
            return [*deltas, CallEnd(slot.index)]
        return [*deltas, CallEnd(slot.index, {"extra_content": json_tree(slot.extra)}, self._target.origin)]


def _text(text: str) -> list[ModelDelta]:
    return [TextDelta(text)] if text else []


def _add_detail(details: list[dict[str, Any]], detail: dict[str, Any]) -> None:
    """Pieces of one detail are joined, as the provider wants them back."""
    last = details[-1] if details else None
    if last is None or any(last.get(key) != detail.get(key) for key in ("type", "index")) or detail.get("id"):
        details.append(detail)
        return
    for key, value in detail.items():
        if key in {"text", "summary", "data"} and isinstance(value, str) and isinstance(last.get(key), str):
            last[key] += value
        elif value is not None:
            last[key] = value


def _usage(usage: dict[str, object]) -> Usage:
    prompt = count_in(usage, "prompt_tokens")
    output = count_in(usage, "completion_tokens")
    thought = count_in(usage, "completion_tokens_details", "reasoning_tokens")
    if thought and count_in(usage, "total_tokens") == prompt + output + thought:
        output += thought  # some count reasoning beside the completion, not in it
    read = (
        count_in(usage, "prompt_tokens_details", "cached_tokens")
        or count_in(usage, "prompt_cache_hit_tokens")
        or count_in(usage, "cached_tokens")
    )
    write = count_in(usage, "prompt_tokens_details", "cache_write_tokens")
    return Usage(input=max(0, prompt - read - write), output=output, cache_read=read, cache_write=write)
