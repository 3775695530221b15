"""A scripted model provider on loopback, for tests and for trying things out without a key.

::

    async with TestProvider([text("hello"), calls(Call("bash", {"command": "ls"}))]) as provider:
        base_url = provider.url("anthropic")

It speaks OpenAI Chat Completions, OpenAI Responses, Anthropic Messages and Gemini, and misbehaves on request: pace,
split points, hangs, drops, garbage, vendors' errors. It knows nothing of Holdfast's own reading of those wires.
"""

from holdfast.testing.provider_script import (
    WIRES,
    Answer,
    Bytes,
    Call,
    Fail,
    Gate,
    Hang,
    Piece,
    Refuse,
    Say,
    Think,
    Tokens,
    Wire,
    calls,
    text,
)
from holdfast.testing.provider_server import Received, TestProvider

__all__ = [
    "WIRES",
    "Answer",
    "Bytes",
    "Call",
    "Fail",
    "Gate",
    "Hang",
    "Piece",
    "Received",
    "Refuse",
    "Say",
    "TestProvider",
    "Think",
    "Tokens",
    "Wire",
    "calls",
    "text",
]
