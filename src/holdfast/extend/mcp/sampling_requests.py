"""Requests of MCP servers to a model (sampling). Pure, except for the call of the sampler.

The setting `sampling` of a server allows them. Each one needs an approval, and their number and size are limited.
"""

from __future__ import annotations

from typing import Any, Literal

from holdfast.errors import ToolError
from holdfast.extend.mcp.server_config import McpServerConfig
from holdfast.extend.mcp.tool_definitions import tool_name
from holdfast.schema.approvals import Subject
from holdfast.schema.base import repair_text
from holdfast.schema.messages import File, Part, Text
from holdfast.tools.protocol import SampledAnswer, SamplingMessage, SamplingRequest, ToolContext, ToolPlan

NOT_ALLOWED = "sampling is not allowed for this server; the user can allow it with mcp.{name}.sampling"
_DEFINITION = "sampling"
"""Stands for the definition of a tool in rules: `mcp: server__sampling`."""
_MAX_CHARACTERS = 200_000
_MAX_MESSAGES = 100
_MAX_SHOWN = 4_000
_MAX_TITLE = 300
_MAX_STOPS = 16
_STOP_REASONS = {"end_turn": "endTurn", "tool_use": "endTurn", "max_tokens": "maxTokens", "refused": "endTurn"}


async def answer_sampling(params: dict[str, Any], *, config: McpServerConfig, context: ToolContext) -> dict[str, Any]:
    """Ask a model, if the rules or the person allow it, and return its answer as the protocol's JSON."""
    if context.sampler is None:
        raise ToolError("a model cannot be asked here")
    request = read_request(params, config)
    answer = await context.sampler.sample(request, ToolPlan(_subject(request), display=_display(request)))
    text, is_cut = _cut_at(context.redact(answer.text), params.get("stopSequences"))
    return sampling_result(text, answer, is_cut=is_cut)


def read_request(params: dict[str, Any], config: McpServerConfig) -> SamplingRequest:
    """Raises `ToolError` for what is not supported or too large."""
    if params.get("tools"):
        raise ToolError("tools in sampling requests are not supported")
    messages = params.get("messages")
    if not isinstance(messages, list) or not messages or len(messages) > _MAX_MESSAGES:
        raise ToolError(f"a sampling request needs 1 to {_MAX_MESSAGES} messages")
    read = tuple(_message(message) for message in messages)
    system = repair_text(str(params.get("systemPrompt") or ""))
    texts = [part.text for message in read for part in message.parts if isinstance(part, Text)]
    if sum(map(len, texts)) + len(system) > _MAX_CHARACTERS:
        raise ToolError(f"a sampling request can have {_MAX_CHARACTERS:,} characters")
    asked = params.get("maxTokens")
    tokens = min(asked, config.sampling_tokens) if isinstance(asked, int) and asked > 0 else config.sampling_tokens
    return SamplingRequest(
        server=config.name,
        system=system,
        messages=read,
        max_tokens=tokens,
        model=config.sampling_model,
        max_requests=config.sampling_requests,
    )


def _message(message: object) -> SamplingMessage:
    given = message if isinstance(message, dict) else {}
    content = given.get("content")
    parts = tuple(_part(block) for block in (content if isinstance(content, list) else [content]))
    role: Literal["user", "assistant"] = "assistant" if given.get("role") == "assistant" else "user"
    return SamplingMessage(role, parts)


def _part(block: object) -> Part:
    match block:
        case {"type": "text", "text": str(text)}:
            return Text(repair_text(text))
        case {"type": "image", "data": str(data), "mimeType": str(media_type)} if media_type.startswith("image/"):
            return File("image", media_type, data=data)
        case {"type": kind}:
            raise ToolError(f"content of the type {str(kind)[:40]!r} is not supported in sampling requests")
        case _:
            raise ToolError("a message of the sampling request has no content")


def _subject(request: SamplingRequest) -> Subject:
    shown = " ".join(_text(request).split())
    title = f"let the MCP server {request.server} ask a model: {shown}"
    return Subject(
        tool=tool_name(request.server, "sampling"),
        effect="network",
        title=title if len(title) <= _MAX_TITLE else f"{title[:_MAX_TITLE]}…",
        definition=_DEFINITION,
    )


def _display(request: SamplingRequest) -> dict[str, Any]:
    return {
        "server": request.server,
        "prompt": _text(request)[:_MAX_SHOWN],
        "system": request.system[:_MAX_SHOWN],
        "max_tokens": request.max_tokens,
    }


def _text(request: SamplingRequest) -> str:
    parts = [part for message in request.messages for part in message.parts]
    return "\n".join(part.text if isinstance(part, Text) else "[image]" for part in parts)


def _cut_at(text: str, stops: object) -> tuple[str, bool]:
    """Cut the text at the first stop sequence, because not every provider can do it."""
    given = stops[:_MAX_STOPS] if isinstance(stops, list) else []
    places = [place for stop in given if isinstance(stop, str) and stop and (place := text.find(stop)) >= 0]
    return (text[: min(places)], True) if places else (text, False)


def sampling_result(text: str, answer: SampledAnswer, *, is_cut: bool) -> dict[str, Any]:
    return {
        "role": "assistant",
        "content": {"type": "text", "text": text},
        "model": answer.model,
        "stopReason": "stopSequence" if is_cut else _STOP_REASONS.get(answer.stop, "endTurn"),
    }
