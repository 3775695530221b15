"""A scripted model provider on loopback, for tests and for trials without a key.

::

    async with TestProvider([text("hello"), calls(Call("bash", {"command": "ls"}))]) as provider:
        base_url = provider.url("anthropic")

It speaks OpenAI Chat Completions, OpenAI Responses, Anthropic Messages and Gemini. A script can make it slow, split its
bytes, hang, drop the connection, and send invalid data or the errors of the vendors. It shares no code with the wires
in `models/`, which it tests.
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
