"""What the context of a session consists of, estimated from its messages. Pure.

The total is known from the last request. The messages are estimated by their length; the rest of the total is what is
sent before them: instructions and the descriptions of tools.
"""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.schema.base import Value
from holdfast.schema.messages import File, Message, Reasoning, Shell, Summary, Text, ToolCall, ToolResult

_CHARACTERS_PER_TOKEN = 3.6
_TOKENS_PER_IMAGE = 1_500


class ContextShare(Value, frozen=True):
    name: str
    tokens: int


def context_shares(messages: Iterable[Message], *, total: int) -> tuple[ContextShare, ...]:
    """The shares of the total, in the order in which they are sent. Empty if the total is not known."""
    if total <= 0:
        return ()
    found = {"summary": 0.0, "prompts": 0.0, "answers": 0.0, "tool output": 0.0}
    for message in sorted(messages, key=lambda message: message.seq):
        if message.unsent:
            continue
        if any(isinstance(part, Summary) for part in message.parts):
            found = dict.fromkeys(found, 0.0)  # the messages before a summary are not sent any more
        for part in message.parts:
            match part:
                case Summary():
                    found["summary"] += len(part.text)
                case Text():
                    found["prompts" if message.role == "user" else "answers"] += len(part.expanded or part.text)
                case Reasoning():
                    found["answers"] += len(part.text) if part.opaque is not None else 0
                case ToolCall():
                    found["answers"] += len(part.name) + len(str(part.arguments))
                case ToolResult():
                    images = _TOKENS_PER_IMAGE * _CHARACTERS_PER_TOKEN * len(part.files)
                    found["tool output"] += len(part.text) + images
                case File():
                    found["prompts"] += _TOKENS_PER_IMAGE * _CHARACTERS_PER_TOKEN if part.data else len(part.text or "")
                case Shell():
                    found["prompts"] += len(part.command) + len(part.output)
                case _:
                    pass
    tokens = {name: characters / _CHARACTERS_PER_TOKEN for name, characters in found.items()}
    scale = min(1.0, total / sum(tokens.values())) if any(tokens.values()) else 1.0
    shares = {name: int(count * scale) for name, count in tokens.items()}
    shares = {"instructions and tools": total - sum(shares.values()), **shares}
    return tuple(ContextShare(name, count) for name, count in shares.items() if count > 0)
