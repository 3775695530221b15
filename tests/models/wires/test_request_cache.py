"""A cached conversation gives the same bytes as a new one, and only new messages are converted."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from holdfast.models.model_factory import load_wire
from holdfast.models.protocol import ModelRequest
from holdfast.models.wires import request_cache
from holdfast.models.wires.request_cache import RequestCache, encode_body
from holdfast.schema.messages import File, Message, Reasoning, Text, ToolCall, ToolResult
from holdfast.testing import WIRES
from tests.models.requests import OPAQUE, PIXEL, TOOLS, message, target


def conversation(wire: str) -> list[Message]:
    """Long enough that its beginning is encoded: prompts, reasoning, parallel calls, images, repeated ids."""
    messages: list[Message] = []
    image = File("a.png", "image/png", data=PIXEL)
    for turn in range(0, 60, 6):
        first, second = f"call_{turn}_a", f"call_{turn}_b"
        reasoning = Reasoning("Hm.", wire=wire, opaque=OPAQUE[wire])
        calls = (ToolCall(first, "view", {"n": turn}, provider_id="same"), ToolCall(second, "view"))
        results = (ToolResult(first, "view", text="ż"), ToolResult(second, "view", "error", files=(image,)))
        messages += [
            message(turn + 1, "user", Text(f"prompt {turn}")),
            message(turn + 2, "assistant", reasoning, Text("I look."), *calls),
            message(turn + 3, "tool", *results),
            message(turn + 4, "assistant", Text("Seen.")),
            message(turn + 5, "user", Text("a steer"), image),
            message(turn + 6, "assistant", Text("Done.")),
        ]
    return messages


@pytest.mark.parametrize("model", ["m", "anthropic/m"])
@pytest.mark.parametrize("host", ["api.example", "openrouter.ai"])
@pytest.mark.parametrize("wire", WIRES)
def test_request_is_the_same_with_and_without_a_cache(wire: Any, host: str, model: str) -> None:
    to, cache, messages = target(wire, host=host, model=model), RequestCache(), conversation(wire)
    for end in range(1, len(messages) + 1):
        request = ModelRequest(system=("head",), messages=tuple(messages[:end]), tools=TOOLS)
        plain = load_wire(wire).body(request, to)
        assert encode_body(load_wire(wire).body(request, to, cache)) == encode_body(plain)


@pytest.mark.parametrize("wire", WIRES)
def test_different_conversation_is_converted_again(wire: Any) -> None:
    to, cache, messages = target(wire), RequestCache(), conversation(wire)
    load_wire(wire).body(ModelRequest(messages=tuple(messages)), to, cache)
    summary = message(99, "user", Text("a summary"))
    for different in (tuple(messages[:7]), tuple(messages[3:]), (summary,), tuple(messages)):
        request = ModelRequest(messages=different)
        expected = encode_body(load_wire(wire).body(request, to))
        assert encode_body(load_wire(wire).body(request, to, cache)) == expected


@pytest.mark.parametrize("wire", WIRES)
def test_earlier_messages_are_not_encoded_again(wire: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    encoded: list[Any] = []

    def count(body: Any) -> bytes:
        encoded.append(body)
        return encode_body(body)

    monkeypatch.setattr(request_cache, "encode_body", count)
    to, cache, messages = target(wire), RequestCache(), conversation(wire)
    for end in range(1, len(messages) + 1):
        body = load_wire(wire).body(ModelRequest(messages=tuple(messages[:end])), to, cache)
    items = next(body[name] for name in ("messages", "input", "contents") if name in body)
    assert sum(isinstance(item, msgspec.Raw) for item in items) == len(encoded) > len(messages) // 2


def test_lone_surrogate_is_replaced_also_beside_encoded_items() -> None:
    body = {"messages": [msgspec.Raw(b'{"a":1}'), {"text": "half \ud83d"}]}
    assert msgspec.json.decode(encode_body(body)) == {"messages": [{"a": 1}, {"text": "half \ufffd"}]}
