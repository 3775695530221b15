"""The texts of a compaction: the conversation to summarize, a summary without a model, what is kept. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from msgspec.structs import replace

from holdfast.schema.base import encode
from holdfast.schema.messages import (
    File,
    Finish,
    Message,
    Part,
    Reasoning,
    Summary,
    Text,
    ToolCall,
    ToolResult,
    sent_text_of,
    text_of,
)
from holdfast.schema.sessions import Todo

_RESULT_CHARACTERS = (8_000, 2_000, 1_000, 500)
"""How much of a tool result is summarized, by level."""
_MAX_ARGUMENT_CHARACTERS = 2_000
_MAX_PROMPT_CHARACTERS = 8_000
_MAX_EARLIER_PROMPTS = 4
_MAX_EARLIER_CHARACTERS = 4_000
_MAX_OLD_SUMMARY_CHARACTERS = 8_000
_MAX_ANSWER_CHARACTERS = 3_000
_MAX_LISTED_CALLS = 80
_MAX_LINE_CHARACTERS = 160
_MAIN_ARGUMENTS = ("path", "file_path", "command", "pattern", "url", "query", "title", "job")
_PATHS = ("path", "file_path")
_PATCHED_FILE = re.compile(r"^\*\*\* (?:Update|Add) File: (.+)$", re.MULTILINE)
_STOPPED = frozenset({"cancelled", "interrupted"})

MAX_LEVEL = len(_RESULT_CHARACTERS) - 1


def plain_conversation(messages: Sequence[Message], *, level: int) -> tuple[Message, ...]:
    """Return a conversation as text alone, so that it is valid in a request without tools.

    Each level shortens results more; each level after the first also drops the older half.
    """
    kept = tuple(messages)
    for _ in range(level - 1):
        kept = _newer_half(kept)
    limit = _RESULT_CHARACTERS[level]
    plain: list[Message] = []
    for message in kept:
        parts = tuple(_plain_parts(message.parts, limit))
        if parts:
            role = "assistant" if message.role == "assistant" else "user"
            plain.append(replace(message, role=role, parts=parts))
    return tuple(plain)


def _newer_half(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """Return the messages from a prompt near the middle on, so that no result loses its call."""
    starts = [index for index, message in enumerate(messages) if message.role == "user"]
    later = [index for index in starts if index >= len(messages) // 2]
    return messages[later[0] :] if later else messages[starts[-1] :] if starts else messages


def _plain_parts(parts: Iterable[Part], limit: int) -> Iterator[Part]:
    for part in parts:
        match part:
            case Text(text):
                yield Text(cut_text(text, limit * 4))
            case ToolCall():
                arguments = part.malformed or encode(part.arguments).decode()
                yield Text(f"[called {part.name}: {cut_text(arguments, min(limit, _MAX_ARGUMENT_CHARACTERS))}]")
            case ToolResult():
                yield Text(f"[result of {part.name}, {part.status}:\n{cut_text(part.text, limit)}]")
            case File(text=str(text)):
                yield Text(f'<file name="{part.name}">\n{cut_text(text, limit)}\n</file>')
            case File():
                yield Text(f"[the image {part.name}]")
            case Reasoning() | _:
                pass


def cut_text(text: str, limit: int) -> str:
    """Return the text with its middle left out if it is too long."""
    if len(text) <= limit:
        return text
    return f"{text[: limit // 2]}\n[… {len(text) - limit} characters left out …]\n{text[-limit // 2 :]}"


def mechanical_summary(messages: Sequence[Message]) -> str:
    """Return a summary that is made without a model, from stored messages: what was called, and the last answer."""
    blocks = ["(The model gave no summary. This one lists what was done; look at the files for details.)"]
    old = [part.text for message in messages for part in message.parts if isinstance(part, Summary)]
    if old:
        blocks.append(f"## Before\n{cut_text(old[-1], _MAX_OLD_SUMMARY_CHARACTERS)}")
    if calls := list(_listed_calls(messages)):
        left_out = [f"- ({len(calls) - _MAX_LISTED_CALLS} earlier calls)"] * (len(calls) > _MAX_LISTED_CALLS)
        blocks.append("\n".join(["## What was done", *left_out, *calls[-_MAX_LISTED_CALLS:]]))
    answers = [text_of(message.parts) for message in messages if message.role == "assistant"]
    if said := [answer for answer in answers if answer.strip()]:
        blocks.append(f"## Your last answer\n{cut_text(said[-1], _MAX_ANSWER_CHARACTERS)}")
    return "\n\n".join(blocks)


def _listed_calls(messages: Sequence[Message]) -> Iterator[str]:
    statuses = {
        part.call_id: part.status for message in messages for part in message.parts if isinstance(part, ToolResult)
    }
    for message in messages:
        for part in message.parts:
            if isinstance(part, ToolCall):
                found = (part.arguments.get(name) for name in _MAIN_ARGUMENTS)
                what = " ".join(next((value for value in found if isinstance(value, str)), "").split())
                yield f"- {part.name} {what[:_MAX_LINE_CHARACTERS]} ({statuses.get(part.id, 'unknown')})"


def earlier_prompts(messages: Sequence[Message], *, run_id: str) -> list[str]:
    """Return the last prompts before a run, in order. Prompts whose run was stopped are left out: they are not open."""
    stopped = {
        message.run_id
        for message in messages
        for part in message.parts
        if isinstance(part, Finish) and part.reason in _STOPPED
    }
    texts = [
        sent_text_of(message.parts).strip()
        for message in messages
        if message.role == "user" and not message.unsent and message.run_id != run_id and message.run_id not in stopped
    ]
    return [text for text in texts if text][-_MAX_EARLIER_PROMPTS:]


def files_in_use(messages: Sequence[Message]) -> tuple[str, ...]:
    """Return the files that calls named, as they named them, the latest first."""
    calls = [part for message in messages for part in message.parts if isinstance(part, ToolCall)]
    return tuple(dict.fromkeys(path for call in reversed(calls) for path in files_of_call(call)))


def files_of_call(call: ToolCall) -> tuple[str, ...]:
    """Return the files that a call names."""
    named = [call.arguments.get(name) for name in _PATHS]
    patch = call.arguments.get("patch")
    paths = [*named, *(_PATCHED_FILE.findall(patch) if isinstance(patch, str) else ())]
    return tuple(path.strip() for path in paths if isinstance(path, str) and path.strip())


def complete_summary(answer: str, *, prompts: Sequence[str], earlier: Sequence[str] = (), todos: Sequence[Todo]) -> str:
    """Add the prompts and the stored task list, word for word, to a summary."""
    blocks = [answer.strip()]
    if earlier:
        told = "\n\n".join(cut_text(prompt, _MAX_EARLIER_CHARACTERS // len(earlier)) for prompt in earlier)
        blocks.append(f"## The last prompts before, word for word\n{told}")
    if request := "\n\n".join(prompt.strip() for prompt in prompts if prompt.strip()):
        blocks.append(f"## The request you are working on, word for word\n{cut_text(request, _MAX_PROMPT_CHARACTERS)}")
    if todos:
        lines = "\n".join(f"- [{todo.status}] {todo.text}" for todo in todos)
        blocks.append(f"## Task list (as stored)\n{lines}")
    return "\n\n".join(blocks)
