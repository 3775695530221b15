"""OpenAI Chat Completions, and the many servers that are partly compatible with it.

Answers are read as these servers send them: calls without an index or an id, whole calls in one chunk, several calls
under one index, arguments as an object, reasoning under three names, usage in a chunk of its own or in the choice,
errors in mid-stream, an answer that ends without a finish reason.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from holdfast.errors import ModelMalformed, ModelOverloaded
from holdfast.models.protocol import CallStart, ModelDelta, ModelRequest, StopReason, UsageReport
from holdfast.models.wires.json_values import (
    JsonReader,
    arguments_json,
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
from holdfast.models.wires.stream_reader import StreamedPart, StreamReader
from holdfast.schema.base import Value, repair_text
from holdfast.schema.messages import File, Message, Reasoning, Text, ToolCall, ToolResult, ToolSpec
from holdfast.schema.sse_parser import SseEvent
from holdfast.schema.usage import Usage

_CACHE_MARKER = {"type": "ephemeral"}


class _Dialect(Value, frozen=True):
    """What a compatible server accepts."""

    max_tokens: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    usage_option: bool = True
    """Whether usage must be requested. Some servers always send it and reject the option."""
    effort: Literal["reasoning_effort", "reasoning"] = "reasoning_effort"
    cache_key: bool = False
    short_ids: bool = False
    cache_markers: bool = False
    """Whether the server forwards cache markers to models that use them."""
    reasoning: Literal["with calls", "always", "never"] = "with calls"
    """When plain reasoning is sent back. Some servers reject it, others reject messages without it."""


_OPENAI = _Dialect(max_tokens="max_completion_tokens", cache_key=True)
_DIALECTS = {
    "api.openai.com": _OPENAI,
    "openai.azure.com": _OPENAI,
    "services.ai.azure.com": _OPENAI,
    "openrouter.ai": _Dialect(effort="reasoning", cache_markers=True),
    "mistral.ai": _Dialect(usage_option=False, short_ids=True),
    "groq.com": _Dialect(max_tokens="max_completion_tokens", reasoning="never"),
    "deepseek.com": _Dialect(reasoning="always"),
    "moonshot.ai": _Dialect(reasoning="always"),
    "moonshot.cn": _Dialect(reasoning="always"),
}


def _dialect(host: str) -> _Dialect:
    """Choose by the host name. An unknown server gets what nearly all servers accept."""
    name = host.partition(":")[0]
    return next((found for end, found in _DIALECTS.items() if name == end or name.endswith(f".{end}")), _Dialect())


class OpenAIChat:
    name = "openai-chat"
    shares_reasoning = True

    def path(self, target: Target) -> str:
        return "/chat/completions"

    def headers(self, key: str | None, target: Target) -> dict[str, str]:
        return {"authorization": f"Bearer {key}"} if key else {}

    def body(self, request: ModelRequest, target: Target, cache: RequestCache | None = None) -> dict[str, Any]:
        dialect = _dialect(target.host)
        markers = dialect.cache_markers and target.model.startswith("anthropic/")
        built = build_items(request.messages, cache, lambda: _Messages(target, dialect, markers=markers))
        body: dict[str, Any] = {"model": target.model, "stream": True}
        body["messages"] = _system(request, markers=markers) + built.messages()
        if request.tools:
            body["tools"] = [_tool(tool) for tool in request.tools]
            if not request.may_call:
                body["tool_choice"] = "none"
        if dialect.usage_option:
            body["stream_options"] = {"include_usage": True}
        if request.max_output:
            body[dialect.max_tokens] = request.max_output
        if request.effort:
            body |= _effort(request.effort, dialect)
        if (schema := request.output_schema) is not None:
            output = {"name": "answer", "schema": schema, "strict": is_strict_schema(schema)}
            body["response_format"] = {"type": "json_schema", "json_schema": output}
        if request.cache_key and dialect.cache_key:
            body["prompt_cache_key"] = request.cache_key
        return body

    def reader(self, target: Target) -> OpenAIChatReader:
        return OpenAIChatReader(target)


def _effort(effort: str, dialect: _Dialect) -> dict[str, Any]:
    if dialect.effort == "reasoning":
        return {"reasoning": {"enabled": False} if effort == "none" else {"effort": effort}}
    return {"reasoning_effort": effort}


def _tool(tool: ToolSpec) -> dict[str, Any]:
    function = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return {"type": "function", "function": function}


def _system(request: ModelRequest, *, markers: bool) -> list[dict[str, Any]]:
    """The system prompt as one message, because the templates of local models allow no second one."""
    text = join_system(request.system)
    if not text:
        return []
    content = [{"type": "text", "text": text, "cache_control": _CACHE_MARKER}] if markers else text
    return [{"role": "system", "content": content}]


class _Messages(MessageItems):
    """A tool message can only be text, so the images of a step's tools follow its results in a user message."""

    def __init__(self, target: Target, dialect: _Dialect, *, markers: bool) -> None:
        super().__init__(target, short_ids=dialect.short_ids)
        self._dialect = dialect
        self._markers = markers
        self._tool_images: list[Piece] = []
        self._last_user = 0

    @property
    def settled(self) -> int:
        return self._last_user if self._markers else len(self.items)

    def add(self, message: Message) -> None:
        if message.role == "tool":
            for part in message.parts:
                if isinstance(part, ToolResult):
                    text, files = result_pieces(part, images=self._images)
                    self.items.append({"role": "tool", "tool_call_id": self._ids[part.call_id], "content": text})
                    self._tool_images += [f"What {part.name} returned:", *files] if files else []
            return
        self._add_user(self._tool_images)
        self._tool_images = []
        if message.role == "assistant":
            self._ids.add(message)
            self.items += self._assistant(message)
        else:
            self._add_user(user_pieces(message.parts, images=self._images))

    def messages(self) -> list[dict[str, Any]]:
        messages = self.items + _user(self._tool_images)
        if self._markers:
            _mark_last_user(messages)
        return messages

    def _add_user(self, pieces: list[Piece]) -> None:
        if pieces:
            self._last_user = len(self.items)
            self.items += _user(pieces)

    def _assistant(self, message: Message) -> list[dict[str, Any]]:
        text = "".join(part.text for part in message.parts if isinstance(part, Text))
        calls = [self._call(part) for part in message.parts if isinstance(part, ToolCall)]
        if not text.strip() and not calls:
            return []
        item: dict[str, Any] = {"role": "assistant", "content": text if text.strip() else None}
        if calls:
            item["tool_calls"] = calls
        return [item | self._reasoning(message, has_calls=bool(calls))]

    def _call(self, call: ToolCall) -> dict[str, Any]:
        function = {"name": call_name(call), "arguments": compact_json(call_arguments(call))}
        item: dict[str, Any] = {"id": self._ids[call.id], "type": "function", "function": function}
        if call.opaque and call.wire == self._target.origin:
            item["extra_content"] = call.opaque["extra_content"]
        return item

    def _reasoning(self, message: Message, *, has_calls: bool) -> dict[str, Any]:
        """The reasoning of a message, in the form in which the same provider sent it."""
        own: list[tuple[str, dict[str, Any]]] = [
            (part.text, part.opaque)
            for part in message.parts
            if isinstance(part, Reasoning) and part.opaque and part.wire == self._target.origin
        ]
        if details := [detail for _, opaque in own for detail in opaque.get("details", ())]:
            return {"reasoning_details": details}
        field = next((opaque["field"] for _, opaque in own if "field" in opaque), None)
        text = "".join(text for text, _ in own)
        match self._dialect.reasoning:
            case "with calls" if field and has_calls:
                return {field: text}
            case "always":
                return {field or "reasoning_content": text}
        return {}


def _user(pieces: list[Piece]) -> list[dict[str, Any]]:
    if not pieces:
        return []
    texts = [piece for piece in pieces if isinstance(piece, str)]
    if len(texts) == len(pieces):
        return [{"role": "user", "content": "\n\n".join(texts)}]
    return [{"role": "user", "content": [_part(piece) for piece in pieces]}]


def _part(piece: Piece) -> dict[str, Any]:
    match piece:
        case str():
            return {"type": "text", "text": piece}
        case File():
            return {"type": "image_url", "image_url": {"url": data_url(piece)}}


def _mark_last_user(messages: list[dict[str, Any]]) -> None:
    """Put a cache marker at the end of the last user message."""
    for index in range(len(messages) - 1, -1, -1):
        message = messages[index]
        if message["role"] == "user":
            content = message["content"]
            parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
            messages[index] = {**message, "content": [*parts[:-1], {**parts[-1], "cache_control": _CACHE_MARKER}]}
            return


_STOP_REASONS: dict[str, StopReason] = {
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


class _OpenCall(StreamedPart):
    __slots__ = ("early_arguments", "extra", "id", "named")

    def __init__(self, index: int, call_id: str | None) -> None:
        super().__init__("call", call=index)
        self.id = call_id
        self.named = False
        self.early_arguments = ""
        """Arguments that came before the name."""
        self.extra: object = None


class OpenAIChatReader(StreamReader):
    def __init__(self, target: Target) -> None:
        super().__init__(target)
        self._text = StreamedPart("text")
        self._reasoning = StreamedPart("reasoning")
        self._reasoning_open = False
        self._reasoning_field: str | None = None
        self._details: list[dict[str, Any]] = []
        self._open_calls: list[_OpenCall] = []
        self._by_index: dict[int, _OpenCall] = {}
        self._finish_reason: str | None = None
        self._refused = False
        self._answered = False
        """Whether a chunk of an answer came."""

    def feed(self, event: SseEvent) -> list[ModelDelta]:
        if self.done:
            return []
        if event.data.startswith(b"[DONE]"):
            return self._finish()
        chunk = _chunks.read(event.data)
        if chunk.error or event.event == "error":
            raise self._error(chunk.error or _objects.read(event.data))
        deltas: list[ModelDelta] = []
        usage = object_in(chunk.usage) if chunk.usage else None
        for choice in chunk.choices or ():
            if choice.index:
                continue  # one answer was requested
            self._answered = True
            if delta := choice.delta or choice.message:
                deltas = self._on_delta(delta)
            if choice.finish_reason:
                self._finish_reason = choice.finish_reason
            if choice.usage:
                usage = usage or object_in(choice.usage)
        if chunk.x_groq:
            usage = usage or object_in(chunk.x_groq, "usage")
        if usage:
            deltas.append(UsageReport(_usage(usage)))
        return deltas

    def end(self) -> list[ModelDelta]:
        if self.done:
            return []
        if self._finish_reason is None:
            raise self._incomplete()
        return self._finish()

    def _on_delta(self, delta: _Delta) -> list[ModelDelta]:
        deltas: list[ModelDelta] = []
        if delta.reasoning_content or delta.reasoning or delta.reasoning_details:
            deltas += self._on_reasoning(delta)
        content = delta.content
        if content:
            deltas += self._on_text(content) if isinstance(content, str) else self._on_typed_parts(content)
        if delta.refusal:
            self._refused = True
            deltas += self._on_text(delta.refusal)
        for call in delta.tool_calls or ():
            deltas += self._on_call(call)
        if delta.function_call:
            deltas += self._on_call(_Call(index=0, function=delta.function_call))
        return deltas

    def _on_text(self, text: str) -> list[ModelDelta]:
        deltas = self._text.add(text)
        return [*self._end_reasoning(), *deltas] if self._reasoning_open else deltas

    def _on_typed_parts(self, content: object) -> list[ModelDelta]:
        """Content as a list of parts, some of them reasoning."""
        deltas: list[ModelDelta] = []
        for part in objects_in(content):
            if text_in(part, "type") == "thinking":
                text = "".join(text_in(item, "text") for item in objects_in(part, "thinking"))
                deltas += self._on_reasoning(_Delta(reasoning=text))
            else:
                deltas += self._on_text(text_in(part, "text"))
        return deltas

    def _on_reasoning(self, delta: _Delta) -> list[ModelDelta]:
        for detail in objects_in(delta.reasoning_details):
            _add_detail(self._details, json_tree(detail))
            self._reasoning_open = True
        for field, value in (("reasoning_content", delta.reasoning_content), ("reasoning", delta.reasoning)):
            if text := text_in(value):
                self._reasoning_open = True
                self._reasoning_field = field
                return self._reasoning.add(text)
        return []

    def _end_reasoning(self) -> list[ModelDelta]:
        self._reasoning_open = False
        opaque: dict[str, Any] | None = {"field": self._reasoning_field} if self._reasoning_field else None
        if self._details:
            opaque, self._details = {"details": self._details}, []
        return self._reasoning.end(self._target.origin, opaque)

    def _on_call(self, call: _Call) -> list[ModelDelta]:
        deltas = self._end_reasoning() if self._reasoning_open else []
        function = call.function or _Function()
        opened = self._find_call(call, function)
        if call.extra_content is not None:
            opened.extra = call.extra_content
        if function.name and not opened.named:
            opened.named = True
            deltas.append(CallStart(opened.call, repair_text(function.name), opened.id))
        given = function.arguments
        if given is not None and not isinstance(given, str):
            given = arguments_json(given)
        text = opened.early_arguments + opened.join(given or "")
        opened.early_arguments = "" if opened.named else text
        return deltas + opened.deltas(text) if opened.named else deltas

    def _find_call(self, call: _Call, function: _Function) -> _OpenCall:
        """The call that a piece belongs to: by index, by id if the index is missing or wrong, else the last one."""
        found: _OpenCall | None
        if call.index is not None:
            found = self._by_index.get(call.index)
        elif call.id:
            found = next((opened for opened in self._open_calls if opened.id == call.id), None)
        else:
            found = self._open_calls[-1] if self._open_calls and not function.name else None
        is_another = found is not None and call.id and found.id and call.id != found.id and function.name
        if found is None or is_another:
            found = _OpenCall(len(self._open_calls), repair_text(call.id) if call.id else None)
            self._open_calls.append(found)
            if call.index is not None:
                self._by_index[call.index] = found
        elif call.id and not found.id:
            found.id = repair_text(call.id)
        return found

    def _finish(self) -> list[ModelDelta]:
        if not self._answered:
            raise ModelMalformed(f"{self._target.host} ended the stream without an answer")
        reason = self._finish_reason or ""
        if reason in {"insufficient_system_resource", "error"}:
            raise ModelOverloaded(f"{self._target.host} aborted the answer ({reason})")
        deltas = self._end_reasoning() if self._reasoning_open else []
        deltas += self._text.end(self._target.origin)
        for opened in self._open_calls:
            deltas += self._end_call(opened)
        stop = _STOP_REASONS.get(reason, "end_turn")
        if self._refused:
            stop = "refused"
        elif self._open_calls and stop == "end_turn":
            stop = "tool_use"
        return [*deltas, self._stop(stop, "" if reason in {"stop", "tool_calls", "length"} else reason)]

    def _end_call(self, opened: _OpenCall) -> list[ModelDelta]:
        deltas: list[ModelDelta] = [] if opened.named else [CallStart(opened.call, "", opened.id)]
        deltas += opened.deltas(opened.early_arguments + opened.flush())
        opaque = None if opened.extra is None else {"extra_content": json_tree(opened.extra)}
        return deltas + opened.end(self._target.origin, opaque)


def _add_detail(details: list[dict[str, Any]], detail: dict[str, Any]) -> None:
    """Join the pieces of one detail, because the provider expects it back as a whole."""
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
    reasoning = count_in(usage, "completion_tokens_details", "reasoning_tokens")
    if reasoning and count_in(usage, "total_tokens") == prompt + output + reasoning:
        output += reasoning  # some servers do not include reasoning in the completion
    read = (
        count_in(usage, "prompt_tokens_details", "cached_tokens")
        or count_in(usage, "prompt_cache_hit_tokens")
        or count_in(usage, "cached_tokens")
    )
    write = count_in(usage, "prompt_tokens_details", "cache_write_tokens")
    return Usage(input=max(0, prompt - read - write), output=output, cache_read=read, cache_write=write)
