"""Messages and sessions as Crush's client reads them. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

import msgspec

from holdfast.crush.tool_translation import result_metadata, tool_input, tool_name
from holdfast.schema.events import OpenPart
from holdfast.schema.messages import (
    File,
    Finish,
    Message,
    Notice,
    Part,
    Reasoning,
    Shell,
    Summary,
    Text,
    ToolCall,
    ToolResult,
)
from holdfast.schema.sessions import Session, Todo
from holdfast.schema.usage import Usage

_FINISH_REASONS: Mapping[str, str] = {
    "end_turn": "end_turn",
    "tool_use": "tool_use",
    "max_tokens": "max_tokens",
    "cancelled": "canceled",
    "refused": "content_filter",
    "error": "error",
    "interrupted": "error",
    "limit": "error",
}
_FINISH_TITLES = {"error": "The request failed", "interrupted": "Interrupted", "limit": "Stopped at a limit"}


def seconds_of(timestamp: str) -> int:
    """Whole seconds since the epoch; 0 if there is no time."""
    return int(datetime.fromisoformat(timestamp).timestamp()) if timestamp else 0


def message_body(message: Message, *, open_parts: Iterable[OpenPart] = (), session_id: str | None = None) -> Any:
    """A message with all its parts, also those that are still being written.

    Crush's client shows one text and one reasoning of a message, so texts are joined. ``session_id`` replaces the
    session of the message.
    """
    created_at = seconds_of(message.created_at)
    provider, _, model = (message.model or "").partition("/")
    return {
        "id": message.id,
        "role": message.role,
        "session_id": session_id or message.session_id,
        "parts": _parts(message, tuple(open_parts), created_at),
        "model": model,
        "provider": provider,
        "created_at": created_at,
        "updated_at": created_at,
        **({"is_summary_message": True} if any(isinstance(part, Summary) for part in message.parts) else {}),
    }


def _parts(message: Message, open_parts: tuple[OpenPart, ...], created_at: int) -> list[Any]:
    parts: dict[int, Part | OpenPart] = dict(enumerate(message.parts))
    parts.update((part.part, part) for part in open_parts if part.of != "output")
    texts: list[str] = []
    reasoning: list[str] = []
    thought_seconds: float | None = 0.0
    others: list[Any] = []
    finish: Any = None
    for _, part in sorted(parts.items(), key=lambda pair: pair[0]):
        match part:
            case Text(text) | Summary(text):
                texts.append(text)
            case Reasoning(text, duration=duration):
                reasoning.append(text)
                thought_seconds = None if thought_seconds is None else thought_seconds + (duration or 0.0)
            case OpenPart(of="text", text=text):
                texts.append(text)
            case OpenPart(of="reasoning", text=text):
                reasoning.append(text)
                thought_seconds = None
            case OpenPart(of="arguments", text=text, call_id=call_id, name=name):
                others.append(_part("tool_call", id=call_id or "", name=tool_name(name or ""), input=text))
            case Notice(text=text) if message.role == "assistant":
                texts.append(text)
            case Finish():
                finish = _finish(part, created_at)
            case _:
                others.extend(_other_parts(part, created_at))
    if message.role != "assistant":
        finish = _part("finish", reason="stop", time=created_at)
    return [
        *_reasoning_part(reasoning, thought_seconds, created_at),
        *([_part("text", text="\n\n".join(texts) if message.role == "user" else "".join(texts))] if texts else []),
        *others,
        *([finish] if finish is not None else []),
    ]


def _reasoning_part(texts: list[str], thought_seconds: float | None, created_at: int) -> list[Any]:
    if not any(texts):
        return []
    finished = {} if thought_seconds is None else {"finished_at": created_at + round(thought_seconds)}
    return [_part("reasoning", thinking="\n\n".join(texts), signature="", started_at=created_at, **finished)]


def _other_parts(part: object, created_at: int) -> list[Any]:
    match part:
        case ToolCall():
            arguments = json.dumps(tool_input(part.name, part.arguments), ensure_ascii=False)
            return [_part("tool_call", id=part.id, name=tool_name(part.name), input=arguments, finished=True)]
        case ToolResult():
            return [_tool_result(part, created_at)]
        case Shell(command, output, exit_code):
            return [_part("shell_command", command=command, output=output, exit_code=exit_code or 0)]
        case File(name, media_type, text, data):
            content = data if text is None else msgspec.to_builtins(text.encode())
            return [_part("binary", Path=name, MIMEType=media_type, Data=content or "")]
        case _:  # the system prompt, and parts that are notes for the model
            return []


def _tool_result(result: ToolResult, created_at: int) -> Any:
    metadata = result_metadata(result, ended_at=created_at)
    image = next((file for file in result.files if file.data), None)
    return _part(
        "tool_result",
        tool_call_id=result.call_id,
        name=tool_name(result.name),
        content=result.text,
        metadata=json.dumps(metadata, ensure_ascii=False) if metadata else "",
        is_error=result.status != "ok",
        **({"data": image.data, "mime_type": image.media_type} if image is not None else {}),
    )


def _finish(finish: Finish, created_at: int) -> Any:
    reason = _FINISH_REASONS.get(finish.reason, "unknown")
    title = _FINISH_TITLES.get(finish.reason)
    more = {"message": title, "details": finish.detail} if title else {}
    return _part("finish", reason=reason, time=created_at, **more)


def _part(kind: str, **data: Any) -> dict[str, Any]:
    return {"type": kind, "data": data}


def session_body(
    session: Session, *, todos: Iterable[Todo] = (), last_step: Usage | None = None, message_count: int = 0
) -> dict[str, Any]:
    """A session. From ``last_step``, the usage of its last step, the client computes how full the context is."""
    step = last_step or Usage()
    return {
        "id": session.id,
        "parent_session_id": session.parent_id or "",
        "title": session.title,
        "message_count": message_count,
        "prompt_tokens": step.context - step.output,
        "completion_tokens": step.output,
        "summary_message_id": "",
        "cost": session.usage.cost,
        "todos": [{"content": todo.text, "status": todo.status, "active_form": todo.text} for todo in todos],
        "created_at": seconds_of(session.created_at),
        "updated_at": seconds_of(session.updated_at),
        "is_busy": session.busy,
        "attached_clients": session.clients,
    }
