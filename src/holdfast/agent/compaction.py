"""Compaction: when to make a summary, and what is asked for. Pure; the turn makes the request (`R12`)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from holdfast.schema.messages import (
    Context,
    File,
    Message,
    Part,
    Reasoning,
    Shell,
    Summary,
    Text,
    ToolCall,
    ToolResult,
)
from holdfast.schema.sessions import Todo

SUMMARY_REQUEST = """\
The conversation is about to outgrow your window. Write the summary that will stand in its place, for yourself: you \
will see nothing else of it. Plain Markdown, no preamble, with these headings:

## Task
What the person asked for, in their own words where they matter, and every later wish or correction.
## Decisions
What was decided and why; what was tried and did not work.
## Files
Each file that was read or changed and matters still: its path, what is in it, what was changed.
## State
What is done and verified, what is broken, commands and their results that matter.
## Next
What remains to be done, in order, starting with what you were about to do.

Call no tools."""

_RESERVE = 0.12
_MIN_RESERVE = 8_000
_CHARS_PER_TOKEN = 3.6
_TOKENS_PER_IMAGE = 1_500
_TOKENS_PER_MESSAGE = 4.0
_RESULT_CHARACTERS = 2_000
_PROMPT_CHARACTERS = 8_000


def threshold(context_window: int, max_output: int) -> int | None:
    """The number of tokens from which a summary is made; None when the window is unknown."""
    if context_window <= 0:
        return None
    reserve = max(int(context_window * _RESERVE), min(max_output, context_window // 4), _MIN_RESERVE)
    return max(context_window - reserve, context_window // 2)


def is_due(tokens: int, *, context_window: int, max_output: int) -> bool:
    """Whether the next request might not fit any more."""
    limit = threshold(context_window, max_output)
    return limit is not None and tokens >= limit


def estimated_text(texts: Iterable[str]) -> int:
    """A rough count of tokens, for models that tell no usage."""
    return int(sum(map(len, texts)) / _CHARS_PER_TOKEN)


def estimated_parts(parts: Iterable[Part]) -> int:
    """The same for the parts of one message."""
    total = _TOKENS_PER_MESSAGE
    for part in parts:
        match part:
            case Text(text) | Reasoning(text=text) | Summary(text) | Context(changed=text):
                total += len(text) / _CHARS_PER_TOKEN
            case ToolCall():
                total += (len(part.name) + len(str(part.arguments))) / _CHARS_PER_TOKEN
            case ToolResult():
                total += len(part.text) / _CHARS_PER_TOKEN + _TOKENS_PER_IMAGE * len(part.files)
            case File():
                total += _TOKENS_PER_IMAGE if part.data else len(part.text or "") / _CHARS_PER_TOKEN
            case Shell():
                total += (len(part.command) + len(part.output)) / _CHARS_PER_TOKEN
            case _:
                pass
    return int(total)


def shortened(messages: Sequence[Message], *, level: int) -> tuple[Message, ...]:
    """The same conversation with less in it: long results cut, then the older half left out, and again."""
    if level == 0:
        return tuple(messages)
    kept = tuple(messages)
    for _ in range(level - 1):
        kept = _newer_half(kept)
    limit = _RESULT_CHARACTERS // level
    return tuple(replace(message, parts=tuple(_cut(part, limit) for part in message.parts)) for message in kept)


def _newer_half(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """From a prompt on, so that no result loses its call."""
    starts = [place for place, message in enumerate(messages) if message.role == "user"]
    later = [place for place in starts if place >= len(messages) // 2]
    return messages[later[0] :] if later else messages[starts[-1] :] if starts else messages


def _cut(part: Part, limit: int) -> Part:
    if isinstance(part, ToolResult):
        return replace(part, text=_shorter(part.text, limit), files=())
    if isinstance(part, Text):
        return replace(part, text=_shorter(part.text, limit * 4))
    return part


def _shorter(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    return f"{text[: limit // 2]}\n[… {len(text) - limit} characters left out …]\n{text[-limit // 2 :]}"


def summary_of(said: str, *, prompts: Sequence[str], todos: Sequence[Todo]) -> str:
    """What the model said, with what it must not have to remember: the request as it was made, the stored task list."""
    blocks = [said.strip()]
    if any(prompt.strip() for prompt in prompts):
        asked = "\n\n".join(prompt.strip() for prompt in prompts if prompt.strip())
        blocks.append(f"## The request you are working on, word for word\n{_shorter(asked, _PROMPT_CHARACTERS)}")
    if todos:
        lines = "\n".join(f"- [{todo.status}] {todo.text}" for todo in todos)
        blocks.append(f"## Task list (as stored)\n{lines}")
    return "\n\n".join(blocks)
