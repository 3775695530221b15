"""OpenAI Responses without state at the provider: reasoning arrives encrypted and is sent back."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.models.protocol import ModelDelta, ModelRequest, StopReason, UsageReport
from holdfast.models.wires.json_values import (
    JsonReader,
    compact_json,
    count_in,
    json_tree,
    object_in,
    objects_in,
    text_in,
)
from holdfast.models.wires.protocol import Target
from holdfast.models.wires.request_cache import RequestCache, build_items
from holdfast.models.wires.request_parts import (
    MessageItems,
    Piece,
    call_arguments,
    call_name,
    data_url,
    is_strict_schema,
    join_system,
    result_pieces,
    user_pieces,
)
from holdfast.models.wires.stream_reader import PartKind, StreamedPart, StreamReader
from holdfast.schema.messages import File, Message, Reasoning, Text, ToolCall, ToolResult, ToolSpec
from holdfast.schema.sse_parser import SseEvent
from holdfast.schema.usage import Usage


class OpenAIResponses:
    name = "openai-responses"
    shares_reasoning = False

    def path(self, target: Target) -> str:
        return "/responses"

    def headers(self, key: str | None, target: Target) -> dict[str, str]:
        return {"authorization": f"Bearer {key}"} if key else {}

    def body(self, request: ModelRequest, target: Target, cache: RequestCache | None = None) -> dict[str, Any]:
        body: dict[str, Any] = {"model": target.model, "stream": True, "store": False}
        if instructions := join_system(request.system):
            body["instructions"] = instructions
        body["input"] = build_items(request.messages, cache, lambda: _InputItems(target)).items
        if request.tools:
            body["tools"] = [_tool(tool) for tool in request.tools]
            if not request.may_call:
                body["tool_choice"] = "none"
        if request.max_output:
            body["max_output_tokens"] = request.max_output
        if request.effort or target.info.reasoning:
            body["include"] = ["reasoning.encrypted_content"]
            body["reasoning"] = {"summary": "auto"} | ({"effort": request.effort} if request.effort else {})
        if (schema := request.output_schema) is not None:
            output = {"type": "json_schema", "name": "answer", "schema": schema, "strict": is_strict_schema(schema)}
            body["text"] = {"format": output}
        if request.cache_key:
            body["prompt_cache_key"] = request.cache_key
        return body

    def reader(self, target: Target) -> OpenAIResponsesReader:
        return OpenAIResponsesReader(target)


def _tool(tool: ToolSpec) -> dict[str, Any]:
    function = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return {"type": "function", **function, "strict": False}


class _InputItems(MessageItems):
    def add(self, message: Message) -> None:
        match message.role:
            case "assistant":
                self._ids.add(message)
                self.items += self._assistant_items(message)
            case "user" | "tool":
                self.items += [self._result_item(part) for part in message.parts if isinstance(part, ToolResult)]
                if pieces := user_pieces(message.parts, images=self._images):
                    self.items.append({"role": "user", "content": [_content(piece) for piece in pieces]})

    def _assistant_items(self, message: Message) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = []
        for part in message.parts:
            match part:
                case Text(text=text) if text.strip():
                    items.append({"role": "assistant", "content": text})
                case Reasoning(opaque=dict(opaque), wire=wire) if wire == self._target.origin:
                    items.append({"type": "reasoning", **opaque})
                case ToolCall():
                    call = {"type": "function_call", "call_id": self._ids[part.id], "name": call_name(part)}
                    items.append({**call, "arguments": compact_json(call_arguments(part))})
                case _:
                    pass
        while items and items[-1].get("type") == "reasoning":
            items.pop()  # the provider rejects reasoning that nothing follows, as after a cancel
        return items

    def _result_item(self, result: ToolResult) -> dict[str, Any]:
        text, files = result_pieces(result, images=self._images)
        output: str | list[dict[str, Any]] = text
        if files:
            output = [_content(text), *(_content(file) for file in files)]
        return {"type": "function_call_output", "call_id": self._ids[result.call_id], "output": output}


def _content(piece: Piece) -> dict[str, Any]:
    match piece:
        case str():
            return {"type": "input_text", "text": piece}
        case File():
            return {"type": "input_image", "image_url": data_url(piece), "detail": "auto"}


_PART_KINDS: dict[str, PartKind] = {"message": "text", "reasoning": "reasoning", "function_call": "call"}


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
    item: _Item | None = None
    response: _Response | None = None
    error: object = None
    code: object = None
    message: object = None


_events = JsonReader(_Event)


class _OpenItem(StreamedPart):
    __slots__ = ("summary_index",)

    def __init__(self, kind: PartKind) -> None:
        super().__init__(kind)
        self.summary_index = 0


class OpenAIResponsesReader(StreamReader):
    def __init__(self, target: Target) -> None:
        super().__init__(target)
        self._open: dict[int, _OpenItem] = {}
        self._refused = False

    def feed(self, event: SseEvent) -> list[ModelDelta]:
        if self.done or event.data.startswith(b"[DONE]"):
            return []
        found = _events.read(event.data)
        match found.type or event.event:
            case "response.output_text.delta":
                return self._on_text(found.output_index, text_in(found.delta))
            case "response.refusal.delta":
                self._refused = True
                return self._on_text(found.output_index, text_in(found.delta))
            case "response.function_call_arguments.delta":
                return self._on_arguments(found.output_index, text_in(found.delta))
            case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta":
                return self._on_reasoning(found.output_index, text_in(found.delta), found.summary_index)
            case "response.output_item.added":
                return self._on_added(found.output_index, found.item) if found.item else []
            case "response.output_item.done":
                return self._on_done(found.output_index, found.item) if found.item else []
            case "response.completed" | "response.done":
                return self._finish(found.response, "tool_use" if self._calls else "end_turn")
            case "response.incomplete":
                return self._on_incomplete(found.response)
            case "response.failed":
                raise self._error(found.response.error if found.response else None)
            case "error":
                raise self._error(found.error or {"code": found.code, "message": found.message})
        return []

    def end(self) -> list[ModelDelta]:
        if not self.done:
            raise self._incomplete()
        return []

    def _item(self, index: int, kind: PartKind) -> _OpenItem:
        """The item at an index. Servers may send deltas of an item that was not added."""
        opened = self._open.get(index)
        if opened is None:
            opened = self._open[index] = _OpenItem(kind)
        return opened

    def _on_added(self, index: int, item: _Item) -> list[ModelDelta]:
        deltas = self._end_item(index)
        opened = self._item(index, _PART_KINDS.get(item.type, "ignored"))
        if opened.kind == "call":
            start = self._start_call(item.name, item.call_id or item.id)
            opened.call = start.index
            deltas.append(start)
        return deltas

    def _on_text(self, index: int, piece: str) -> list[ModelDelta]:
        opened = self._item(index, "text")
        return opened.deltas(opened.join(piece), kind="text")

    def _on_reasoning(self, index: int, piece: str, summary_index: int) -> list[ModelDelta]:
        opened = self._item(index, "reasoning")
        text = opened.join(piece)
        if summary_index > opened.summary_index and opened.size:
            text = f"\n\n{text}"
        opened.summary_index = summary_index
        return opened.deltas(text, kind="reasoning")

    def _on_arguments(self, index: int, piece: str) -> list[ModelDelta]:
        opened = self._open.get(index)
        return opened.add(piece) if opened is not None and opened.kind == "call" else []

    def _on_done(self, index: int, item: _Item) -> list[ModelDelta]:
        """The item is repeated as a whole. If nothing of it was streamed, its content is used."""
        deltas = [] if index in self._open else self._on_added(index, item)
        opened = self._open[index]
        if not opened.size:
            match opened.kind:
                case "call":
                    deltas += self._on_arguments(index, item.arguments or "")
                case "text":
                    refusals = _texts(item.content, "refusal")
                    self._refused = self._refused or bool(refusals)
                    for text in _texts(item.content, "text") + refusals:
                        deltas += self._on_text(index, text)
                case "reasoning":
                    whole = "\n\n".join(_texts(item.summary, "text") or _texts(item.content, "text"))
                    deltas += self._on_reasoning(index, whole, 0)
        return deltas + self._end_item(index, item)

    def _end_item(self, index: int, item: _Item | None = None) -> list[ModelDelta]:
        opened = self._open.pop(index, None)
        if opened is None:
            return []
        opaque = _opaque(item) if item and opened.kind == "reasoning" else None
        return opened.end(self._target.origin, opaque)

    def _on_incomplete(self, response: _Response | None) -> list[ModelDelta]:
        reason = text_in(response.incomplete_details, "reason") if response else ""
        return self._finish(response, "refused" if reason == "content_filter" else "max_tokens", detail=reason)

    def _finish(self, response: _Response | None, reason: StopReason, *, detail: str = "") -> list[ModelDelta]:
        deltas: list[ModelDelta] = []
        for index in list(self._open):
            deltas += self._end_item(index)
        if response and (usage := object_in(response.usage)):
            deltas.append(UsageReport(_usage(usage)))
        return [*deltas, self._stop("refused" if self._refused else reason, detail)]


def _opaque(item: _Item) -> dict[str, Any] | None:
    """The data to send back. The provider cannot use it without the encrypted content."""
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
