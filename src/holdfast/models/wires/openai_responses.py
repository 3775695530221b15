"""OpenAI Responses, without state on the provider's side: reasoning comes back encrypted and is replayed."""

from __future__ import annotations

from typing import Any

from holdfast.models.protocol import ModelRequest
from holdfast.models.request_cache import RequestCache, request_items
from holdfast.models.wires.message_parts import CallIds, Piece, arguments, data_url, pieces, result_pieces
from holdfast.models.wires.openai_responses_reader import OpenAIResponsesReader
from holdfast.models.wires.protocol import Target
from holdfast.models.wires.stream_json import as_json
from holdfast.models.wires.strict_schema import is_strict
from holdfast.schema.messages import File, Message, Reasoning, Text, ToolCall, ToolResult, ToolSpec


class OpenAIResponses:
    name = "openai-responses"
    shares_thoughts = False

    def path(self, target: Target) -> str:
        return "/responses"

    def headers(self, key: str | None, target: Target) -> dict[str, str]:
        return {"authorization": f"Bearer {key}"} if key else {}

    def body(self, request: ModelRequest, target: Target, memory: RequestCache | None = None) -> dict[str, Any]:
        body: dict[str, Any] = {"model": target.model, "stream": True, "store": False}
        if instructions := "\n\n".join(block for block in request.system if block.strip()):
            body["instructions"] = instructions
        body["input"] = request_items(request.messages, memory, lambda: _Spoken(target)).said
        if request.tools:
            body["tools"] = [_tool(tool) for tool in request.tools]
        if request.max_output:
            body["max_output_tokens"] = request.max_output
        if request.effort or target.info.reasoning:
            body["include"] = ["reasoning.encrypted_content"]
            body["reasoning"] = {"summary": "auto"} | ({"effort": request.effort} if request.effort else {})
        if (schema := request.output_schema) is not None:
            body["text"] = {
                "format": {"type": "json_schema", "name": "answer", "schema": schema, "strict": is_strict(schema)}
            }
        if request.cache_key:
            body["prompt_cache_key"] = request.cache_key
        return body

    def reader(self, target: Target) -> OpenAIResponsesReader:
        return OpenAIResponsesReader(target)


def _tool(tool: ToolSpec) -> dict[str, Any]:
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters,
        "strict": False,
    }


class _Spoken:
    def __init__(self, target: Target) -> None:
        self.said: list[dict[str, Any]] = []
        self._target = target
        self._ids = CallIds()

    @property
    def settled(self) -> int:
        return len(self.said)

    def add(self, message: Message) -> None:
        match message.role:
            case "assistant":
                self._ids.learn(message)
                self.said += _assistant(message, self._ids, self._target)
            case "user" | "tool":
                images = self._target.info.images
                results = [part for part in message.parts if isinstance(part, ToolResult)]
                self.said += [_result(result, self._ids, images=images) for result in results]
                if found := pieces(message.parts, images=images):
                    self.said.append({"role": "user", "content": [_content(piece) for piece in found]})


def _assistant(message: Message, ids: CallIds, target: Target) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    for part in message.parts:
        match part:
            case Text(text=text) if text.strip():
                items.append({"role": "assistant", "content": text})
            case Reasoning(opaque=dict(opaque), wire=wire) if wire == target.origin:
                items.append({"type": "reasoning", **opaque})
            case ToolCall():
                call = {"type": "function_call", "call_id": ids[part.id], "name": part.name}
                items.append({**call, "arguments": as_json(arguments(part))})
            case _:
                pass
    while items and items[-1].get("type") == "reasoning":
        items.pop()  # the provider refuses reasoning that nothing follows, as after a cancel
    return items


def _result(result: ToolResult, ids: CallIds, *, images: bool) -> dict[str, Any]:
    text, files = result_pieces(result, images=images)
    output: str | list[dict[str, Any]] = text
    if files:
        output = [_content(text), *(_content(file) for file in files)]
    return {"type": "function_call_output", "call_id": ids[result.call_id], "output": output}


def _content(piece: Piece) -> dict[str, Any]:
    match piece:
        case str():
            return {"type": "input_text", "text": piece}
        case File():
            return {"type": "input_image", "image_url": data_url(piece), "detail": "auto"}
