"""OpenAI Chat Completions, and the many servers that are compatible with it to a degree."""

from __future__ import annotations

from typing import Any, Literal

from holdfast.models.protocol import ModelRequest
from holdfast.models.request_cache import RequestCache, request_items
from holdfast.models.wires.message_parts import CallIds, Piece, arguments, data_url, joined, pieces, result_pieces
from holdfast.models.wires.openai_chat_reader import OpenAIChatReader
from holdfast.models.wires.protocol import Target
from holdfast.models.wires.stream_json import as_json
from holdfast.models.wires.strict_schema import is_strict
from holdfast.schema.base import Value
from holdfast.schema.messages import File, Message, Reasoning, Text, ToolCall, ToolResult, ToolSpec

_MARK = {"type": "ephemeral"}


class Quirks(Value, frozen=True):
    """Where a compatible server differs in what it accepts."""

    max_tokens: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    usage_option: bool = True
    """Whether it has to be asked for usage (and lets itself be asked)."""
    effort: Literal["reasoning_effort", "reasoning"] = "reasoning_effort"
    cache_key: bool = False
    short_ids: bool = False
    markers: bool = False
    """Whether it passes cache markers on to models that want them."""
    thoughts: Literal["with calls", "always", "never"] = "with calls"
    """When its models' plain reasoning goes back: some refuse it, some refuse any answer that comes without it."""


_OPENAI = Quirks(max_tokens="max_completion_tokens", cache_key=True)
_BY_HOST = {
    "api.openai.com": _OPENAI,
    "openai.azure.com": _OPENAI,
    "services.ai.azure.com": _OPENAI,
    "openrouter.ai": Quirks(effort="reasoning", markers=True),
    "mistral.ai": Quirks(usage_option=False, short_ids=True),
    "groq.com": Quirks(max_tokens="max_completion_tokens", thoughts="never"),
    "deepseek.com": Quirks(thoughts="always"),
    "moonshot.ai": Quirks(thoughts="always"),
    "moonshot.cn": Quirks(thoughts="always"),
}


def quirks_of(host: str) -> Quirks:
    """By the server's name; what is unknown gets what nearly all accept."""
    name = host.partition(":")[0]
    return next((quirks for end, quirks in _BY_HOST.items() if name == end or name.endswith(f".{end}")), Quirks())


class OpenAIChat:
    name = "openai-chat"
    shares_thoughts = True

    def path(self, target: Target) -> str:
        return "/chat/completions"

    def headers(self, key: str | None, target: Target) -> dict[str, str]:
        return {"authorization": f"Bearer {key}"} if key else {}

    def body(self, request: ModelRequest, target: Target, memory: RequestCache | None = None) -> dict[str, Any]:
        quirks = quirks_of(target.host)
        markers = quirks.markers and target.model.startswith("anthropic/")
        spoken = request_items(request.messages, memory, lambda: _Spoken(target, quirks, markers=markers))
        body: dict[str, Any] = {"model": target.model, "stream": True}
        body["messages"] = _system(request, markers=markers) + spoken.messages()
        if request.tools:
            body["tools"] = [_tool(tool) for tool in request.tools]
        if quirks.usage_option:
            body["stream_options"] = {"include_usage": True}
        if request.max_output:
            body[quirks.max_tokens] = request.max_output
        if request.effort:
            body |= _effort(request.effort, quirks)
        if request.output_schema is not None:
            body["response_format"] = {"type": "json_schema", "json_schema": _format(request.output_schema)}
        if request.cache_key and quirks.cache_key:
            body["prompt_cache_key"] = request.cache_key
        return body

    def reader(self, target: Target) -> OpenAIChatReader:
        return OpenAIChatReader(target)


def _effort(effort: str, quirks: Quirks) -> dict[str, Any]:
    if quirks.effort == "reasoning":
        return {"reasoning": {"enabled": False} if effort == "none" else {"effort": effort}}
    return {"reasoning_effort": effort}


def _tool(tool: ToolSpec) -> dict[str, Any]:
    function = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return {"type": "function", "function": function}


def _format(schema: dict[str, Any]) -> dict[str, Any]:
    return {"name": "answer", "schema": schema, "strict": is_strict(schema)}


def _system(request: ModelRequest, *, markers: bool) -> list[dict[str, Any]]:
    """One message: the templates of local models know no second."""
    text = "\n\n".join(block for block in request.system if block.strip())
    if not text:
        return []
    content = [{"type": "text", "text": text, "cache_control": _MARK}] if markers else text
    return [{"role": "system", "content": content}]


class _Spoken:
    """Images of tools follow their results as a message of the user: a result can only be text on this wire."""

    def __init__(self, target: Target, quirks: Quirks, *, markers: bool) -> None:
        self.said: list[dict[str, Any]] = []
        self._target = target
        self._quirks = quirks
        self._markers = markers
        self._ids = CallIds(short=quirks.short_ids)
        self._seen: list[Piece] = []
        self._last_user = 0

    @property
    def settled(self) -> int:
        return self._last_user if self._markers else len(self.said)

    def add(self, message: Message) -> None:
        images = self._target.info.images
        if message.role == "tool":
            for part in message.parts:
                if isinstance(part, ToolResult):
                    text, files = result_pieces(part, images=images)
                    self.said.append({"role": "tool", "tool_call_id": self._ids[part.call_id], "content": text})
                    self._seen += [f"What {part.name} returned:", *files] if files else []
            return
        self._hear(self._seen)
        self._seen = []
        if message.role == "assistant":
            self._ids.learn(message)
            self.said += _assistant(message, self._ids, self._target, self._quirks)
        else:
            self._hear(pieces(message.parts, images=images))

    def messages(self) -> list[dict[str, Any]]:
        said = self.said + _user(self._seen)
        if self._markers:
            _mark_last(said)
        return said

    def _hear(self, found: list[Piece]) -> None:
        if found:
            self._last_user = len(self.said)
            self.said += _user(found)


def _user(found: list[Piece]) -> list[dict[str, Any]]:
    if not found:
        return []
    if all(isinstance(piece, str) for piece in found):
        return [{"role": "user", "content": joined(found)}]
    return [{"role": "user", "content": [_part(piece) for piece in found]}]


def _part(piece: Piece) -> dict[str, Any]:
    match piece:
        case str():
            return {"type": "text", "text": piece}
        case File():
            return {"type": "image_url", "image_url": {"url": data_url(piece)}}


def _assistant(message: Message, ids: CallIds, target: Target, quirks: Quirks) -> list[dict[str, Any]]:
    text = "".join(part.text for part in message.parts if isinstance(part, Text))
    calls = [_call(part, ids, target) for part in message.parts if isinstance(part, ToolCall)]
    if not text.strip() and not calls:
        return []
    made: dict[str, Any] = {"role": "assistant", "content": text if text.strip() else None}
    if calls:
        made["tool_calls"] = calls
    return [made | _thoughts(message, target, quirks, called=bool(calls))]


def _call(call: ToolCall, ids: CallIds, target: Target) -> dict[str, Any]:
    function = {"name": call.name, "arguments": as_json(arguments(call))}
    made: dict[str, Any] = {"id": ids[call.id], "type": "function", "function": function}
    if call.opaque and call.wire == target.origin:
        made["extra_content"] = call.opaque["extra_content"]
    return made


def _thoughts(message: Message, target: Target, quirks: Quirks, *, called: bool) -> dict[str, Any]:
    """Reasoning as the same provider sent it."""
    own = [part for part in message.parts if isinstance(part, Reasoning) and part.opaque and part.wire == target.origin]
    details = [detail for part in own for detail in (part.opaque or {}).get("details", ())]
    if details:
        return {"reasoning_details": details}
    field = next((part.opaque["field"] for part in own if part.opaque and "field" in part.opaque), None)
    match quirks.thoughts:
        case "with calls" if field and called:
            return {field: "".join(part.text for part in own)}
        case "always":
            return {field or "reasoning_content": "".join(part.text for part in own)}
    return {}


def _mark_last(messages: list[dict[str, Any]]) -> None:
    """Cache marker at the end of the last message of the user."""
    for place in range(len(messages) - 1, -1, -1):
        message = messages[place]
        if message["role"] == "user":
            content = message["content"]
            parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
            messages[place] = {**message, "content": [*parts[:-1], {**parts[-1], "cache_control": _MARK}]}
            return
