"""Reads a stream of OpenAI Responses."""

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


class _Item(msgspec.Struct):
    type: str = ""
    id: str | None = None
    call_id: str | None = None
    name: str | None = None
    arguments: str | None = None
    encrypted_content: str | None = None
    summary: object = None
    content: object = None


class _Response(msgspec.Struct):
    usage: object = None
    error: object = None
    incomplete_details: object = None


class _Event(msgspec.Struct):
    type: str = ""
    output_index: int = 0
    delta: object = None
    summary_index: int = 0
    arguments: str | None = None
    item: _Item | None = None
    response: _Response | None = None
    error: object = None
    code: object = None
    message: object = None
    param: object = None


_events = JsonReader(_Event)


class _Open:
    """An output item that is being streamed."""

    __slots__ = ("call", "kind", "mender", "size", "summaries")

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.mender = SurrogateJoiner()
        self.call = 0
        self.size = 0
        """Characters given out, to tell whether the item's end brings more."""
        self.summaries = 0


class OpenAIResponsesReader:
    def __init__(self, target: Target) -> None:
        self._target = target
        self._open: dict[int, _Open] = {}
        self._calls = 0
        self._refused = False
        self.done = False

    def feed(self, event: SseEvent) -> list[ModelDelta]:
        if self.done or event.data.startswith(b"[DONE]"):
            return []
        found = _events.read(event.data)
        match found.type or event.event:
            case "response.output_text.delta":
                return self._on_text(found.output_index, found.delta)
            case "response.refusal.delta":
                self._refused = True
                return self._on_text(found.output_index, found.delta)
            case "response.function_call_arguments.delta":
                return self._on_arguments(found.output_index, found.delta)
            case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta":
                return self._on_thought(found)
            case "response.output_item.added":
                return self._on_added(found.output_index, found.item) if found.item else []
            case "response.output_item.done":
                return self._on_done(found.output_index, found.item) if found.item else []
            case "response.completed" | "response.done":
                return self._finish(found.response, "tool_use" if self._calls else "end_turn")
            case "response.incomplete":
                return self._on_incomplete(found.response)
            case "response.failed":
                raise self._failure(found.response.error if found.response else None)
            case "error":
                raise self._failure(found.error or {"code": found.code, "message": found.message})
        return []

    def end(self) -> list[ModelDelta]:
        if not self.done:
            raise cut_off(self._target.host)
        return []

    def _failure(self, error: object) -> Exception:
        return error_mapping.from_event(error, host=self._target.host, redact=self._target.redact)

    def _item(self, index: int, kind: str) -> _Open:
        opened = self._open.get(index)
        if opened is None:
            opened = self._open[index] = _Open(kind)
        return opened

    def _on_added(self, index: int, item: _Item) -> list[ModelDelta]:
        deltas = self._close(index)
        opened = self._item(index, item.type)
        if item.type == "function_call":
            opened.call = self._calls
            self._calls += 1
            call_id = item.call_id or item.id
            deltas.append(
                CallStart(opened.call, repair_text(item.name or ""), repair_text(call_id) if call_id else None)
            )
        return deltas

    def _on_text(self, index: int, piece: object) -> list[ModelDelta]:
        opened = self._item(index, "message")
        text = opened.mender.mend(text_in(piece))
        opened.size += len(text)
        return [TextDelta(text)] if text else []

    def _on_thought(self, found: _Event) -> list[ModelDelta]:
        opened = self._item(found.output_index, "reasoning")
        text = opened.mender.mend(text_in(found.delta))
        if found.summary_index > opened.summaries and opened.size:
            text = f"\n\n{text}"
        opened.summaries = found.summary_index
        opened.size += len(text)
        return [ReasoningDelta(text)] if text else []

    def _on_arguments(self, index: int, piece: object) -> list[ModelDelta]:
        opened = self._open.get(index)
        if opened is None or opened.kind != "function_call":
            return []
        text = opened.mender.mend(text_in(piece))
        opened.size += len(text)
        return [CallArguments(opened.call, text)] if text else []

    def _on_done(self, index: int, item: _Item) -> list[ModelDelta]:
        """The whole item again: what was not streamed is taken from it."""
        deltas: list[ModelDelta] = [] if index in self._open else self._on_added(index, item)
        opened = self._open[index]
        if not opened.size:
            match opened.kind:
                case "function_call":
                    deltas += self._on_arguments(index, item.arguments or "")
                case "message":
                    self._refused = self._refused or bool(_texts(item.content, "refusal"))
                    for text in _texts(item.content, "text") + _texts(item.content, "refusal"):
                        deltas += self._on_text(index, text)
                case "reasoning":
                    whole = "\n\n".join(_texts(item.summary, "text") or _texts(item.content, "text"))
                    deltas += self._on_thought(_Event(output_index=index, delta=whole))
        return deltas + self._close(index, item)

    def _close(self, index: int, item: _Item | None = None) -> list[ModelDelta]:
        opened = self._open.pop(index, None)
        if opened is None:
            return []
        rest = opened.mender.flush()
        match opened.kind:
            case "message":
                return [TextDelta(rest)] if rest else []
            case "reasoning":
                closing = ReasoningEnd(_opaque(item) if item else None, self._target.origin)
                return [ReasoningDelta(rest), closing] if rest else [closing]
            case "function_call":
                ended = CallEnd(opened.call)
                return [CallArguments(opened.call, rest), ended] if rest else [ended]
        return []

    def _on_incomplete(self, response: _Response | None) -> list[ModelDelta]:
        why = text_in(response.incomplete_details, "reason") if response else ""
        return self._finish(response, "refused" if why == "content_filter" else "max_tokens", detail=why)

    def _finish(self, response: _Response | None, reason: StopReason, *, detail: str = "") -> list[ModelDelta]:
        deltas: list[ModelDelta] = []
        for index in list(self._open):
            deltas += self._close(index)
        if response and (usage := object_in(response.usage)):
            deltas.append(UsageReport(_usage(usage)))
        if self._refused:
            reason = "refused"
        self.done = True
        return [*deltas, Stop(reason, error_mapping.shown(detail, self._target.redact))]


def _opaque(item: _Item) -> dict[str, Any] | None:
    """What goes back unchanged; without the encrypted content the provider could not read it."""
    if not item.encrypted_content:
        return None
    kept = {"id": item.id, "summary": item.summary or [], "encrypted_content": item.encrypted_content}
    opaque: dict[str, Any] = json_tree(kept)
    return opaque


def _texts(parts: object, key: str) -> list[str]:
    return [text for part in objects_in(parts) if (text := text_in(part, key))]


def _usage(usage: dict[str, object]) -> Usage:
    read = count_in(usage, "input_tokens_details", "cached_tokens")
    write = count_in(usage, "input_tokens_details", "cache_write_tokens")
    return Usage(
        input=max(0, count_in(usage, "input_tokens") - read - write),
        output=count_in(usage, "output_tokens"),
        cache_read=read,
        cache_write=write,
    )
