"""How much of a model's context window a conversation takes, and when to compact it (`R12`). Pure."""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.schema.messages import (
    Context,
    File,
    Part,
    Reasoning,
    Shell,
    Summary,
    Text,
    ToolCall,
    ToolResult,
)

_RESERVED_SHARE = 0.12
_MIN_RESERVED_TOKENS = 8_000
_CHARACTERS_PER_TOKEN = 3.6
_TOKENS_PER_IMAGE = 1_500
_TOKENS_PER_MESSAGE = 4.0


def compaction_threshold(context_window: int, max_output: int) -> int | None:
    """Return the number of tokens from which a conversation is compacted; None if the window is unknown."""
    if context_window <= 0:
        return None
    reserved = max(int(context_window * _RESERVED_SHARE), min(max_output, context_window // 4), _MIN_RESERVED_TOKENS)
    return max(context_window - reserved, context_window // 2)


def is_compaction_due(tokens: int, *, context_window: int, max_output: int) -> bool:
    """Return whether the next request may not fit."""
    threshold = compaction_threshold(context_window, max_output)
    return threshold is not None and tokens >= threshold


def estimate_text(texts: Iterable[str]) -> int:
    """Estimate the tokens of texts, for providers that report no usage."""
    return int(sum(map(len, texts)) / _CHARACTERS_PER_TOKEN)


def estimate_parts(parts: Iterable[Part]) -> int:
    """Estimate the tokens of one message."""
    total = _TOKENS_PER_MESSAGE
    for part in parts:
        match part:
            case Summary():
                total += (len(part.text) + sum(len(file.text or "") for file in part.files)) / _CHARACTERS_PER_TOKEN
            case Text(text, expanded):
                total += len(expanded or text) / _CHARACTERS_PER_TOKEN
            case Reasoning(text=text) | Context(changed=text):
                total += len(text) / _CHARACTERS_PER_TOKEN
            case ToolCall():
                total += (len(part.name) + len(str(part.arguments))) / _CHARACTERS_PER_TOKEN
            case ToolResult():
                total += len(part.text) / _CHARACTERS_PER_TOKEN + _TOKENS_PER_IMAGE * len(part.files)
            case File():
                total += _TOKENS_PER_IMAGE if part.data else len(part.text or "") / _CHARACTERS_PER_TOKEN
            case Shell():
                total += (len(part.command) + len(part.output)) / _CHARACTERS_PER_TOKEN
            case _:
                pass
    return int(total)
