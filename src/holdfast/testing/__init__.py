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
    Call,
    Fail,
    Gate,
    Hang,
    Piece,
    RawBytes,
    Refuse,
    Say,
    Think,
    TokenCounts,
    WireName,
    calls,
    text,
)
from holdfast.testing.provider_server import ReceivedRequest, TestProvider

__all__ = [
    "WIRES",
    "Answer",
    "Call",
    "Fail",
    "Gate",
    "Hang",
    "Piece",
    "RawBytes",
    "ReceivedRequest",
    "Refuse",
    "Say",
    "TestProvider",
    "Think",
    "TokenCounts",
    "WireName",
    "calls",
    "text",
]
