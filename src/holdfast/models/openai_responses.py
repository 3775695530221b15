"""OpenAI Responses, without state on the provider's side: reasoning comes back encrypted and is replayed."""

from __future__ import annotations

from typing import Any

from holdfast.models.openai_responses_reader import ResponsesReader
from holdfast.models.parts import Piece, arguments, call_ids, data_url, pieces, result_pieces
from holdfast.models.protocol import Request
from holdfast.models.reading import as_json
from holdfast.models.strict import is_strict
from holdfast.models.wire import Target
from holdfast.schema.messages import File, Message, Reasoning, Text, ToolCall, ToolResult
from holdfast.schema.tools import ToolSpec


class OpenAIResponses:
    name = "openai-responses"
    shares_thoughts = False

    def path(self, target: Target) -> str:
        return "/responses"

    def headers(self, key: str | None, target: Target) -> dict[str, str]:
        return {"authorization": f"Bearer {key}"} if key else {}

    def body(self, request: Request, target: Target) -> dict[str, Any]:
        body: dict[str, Any] = {"model": target.model, "stream": True, "store": False}
        if instructions := "\n\n".join(block for block in request.system if block.strip()):
            body["instructions"] = instructions
        body["input"] = _input(request, target)
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

    def reader(self, target: Target) -> ResponsesReader:
        return ResponsesReader(target)


def _tool(tool: ToolSpec) -> dict[str, Any]:
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters,
        "strict": False,
    }


def _input(request: Request, target: Target) -> list[dict[str, Any]]:
    images = target.info.images
    ids = call_ids(request.messages)
    items: list[dict[str, Any]] = []
    for message in request.messages:
        match message.role:
            case "assistant":
                items += _assistant(message, ids, target)
            case "user" | "tool":
                items += [_result(part, ids, images=images) for part in message.parts if isinstance(part, ToolResult)]
                if found := pieces(message.parts, images=images):
                    items.append({"role": "user", "content": [_content(piece) for piece in found]})
    return items


def _assistant(message: Message, ids: dict[str, str], target: Target) -> list[dict[str, Any]]:
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


def _result(result: ToolResult, ids: dict[str, str], *, images: bool) -> dict[str, Any]:
    text, files = result_pieces(result, images=images)
    output: str | list[dict[str, Any]] = text
    if files:
        output = [_content(text), *(_content(file) for file in files)]
    return {"type": "function_call_output", "call_id": ids.get(result.call_id, result.call_id), "output": output}


def _content(piece: Piece) -> dict[str, Any]:
    match piece:
        case str():
            return {"type": "input_text", "text": piece}
        case File():
            return {"type": "input_image", "image_url": data_url(piece), "detail": "auto"}
