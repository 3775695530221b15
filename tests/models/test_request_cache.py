"""A remembered conversation gives the same bytes as one made anew, and only what is new is made."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from holdfast.models import request_cache
from holdfast.models.http_model import encoded
from holdfast.models.model_factory import wire_named
from holdfast.models.protocol import ModelRequest
from holdfast.models.request_cache import RequestCache
from holdfast.schema.messages import File, Message, Reasoning, Text, ToolCall, ToolResult
from holdfast.testing import WIRES
from tests.models.requests import OPAQUE, PIXEL, TOOLS, message, target


def conversation(wire: str) -> list[Message]:
    """Long enough that its beginning is written down: prompts, thoughts, parallel calls, images, repeated ids."""
    said: list[Message] = []
    image = File("a.png", "image/png", data=PIXEL)
    for turn in range(0, 60, 6):
        first, second = f"call_{turn}_a", f"call_{turn}_b"
        thought = Reasoning("Hm.", wire=wire, opaque=OPAQUE[wire])
        calls = (ToolCall(first, "view", {"n": turn}, provider_id="same"), ToolCall(second, "view"))
        results = (ToolResult(first, "view", text="ż"), ToolResult(second, "view", "error", files=(image,)))
        said += [
            message(turn + 1, "user", Text(f"prompt {turn}")),
            message(turn + 2, "assistant", thought, Text("I look."), *calls),
            message(turn + 3, "tool", *results),
            message(turn + 4, "assistant", Text("Seen.")),
            message(turn + 5, "user", Text("a steer"), image),
            message(turn + 6, "assistant", Text("Done.")),
        ]
    return said


@pytest.mark.parametrize("model", ["m", "anthropic/m"])
@pytest.mark.parametrize("host", ["api.example", "openrouter.ai"])
@pytest.mark.parametrize("wire", WIRES)
def test_every_request_is_the_same_with_and_without_a_memory(wire: Any, host: str, model: str) -> None:
    asked, remembered, said = target(wire, host=host, model=model), RequestCache(), conversation(wire)
    for end in range(1, len(said) + 1):
        request = ModelRequest(system=("head",), messages=tuple(said[:end]), tools=TOOLS)
        plain = wire_named(wire).body(request, asked)
        assert encoded(wire_named(wire).body(request, asked, remembered)) == encoded(plain)


@pytest.mark.parametrize("wire", WIRES)
def test_a_conversation_that_goes_on_differently_is_made_anew(wire: Any) -> None:
    asked, remembered, said = target(wire), RequestCache(), conversation(wire)
    wire_named(wire).body(ModelRequest(messages=tuple(said)), asked, remembered)
    for messages in (tuple(said[:7]), tuple(said[3:]), (message(99, "user", Text("a summary")),), tuple(said)):
        request = ModelRequest(messages=messages)
        expected = encoded(wire_named(wire).body(request, asked))
        assert encoded(wire_named(wire).body(request, asked, remembered)) == expected


@pytest.mark.parametrize("wire", WIRES)
def test_what_was_said_before_is_not_made_again(wire: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []

    def counted(body: Any) -> bytes:
        made.append(body)
        return encoded(body)

    monkeypatch.setattr(request_cache, "encoded", counted)
    asked, remembered, said = target(wire), RequestCache(), conversation(wire)
    for end in range(1, len(said) + 1):
        body = wire_named(wire).body(ModelRequest(messages=tuple(said[:end])), asked, remembered)
    items = next(body[name] for name in ("messages", "input", "contents") if name in body)
    assert sum(isinstance(item, msgspec.Raw) for item in items) == len(made) > len(said) // 2


def test_text_that_cannot_be_encoded_is_repaired_also_beside_written_json() -> None:
    body = {"messages": [msgspec.Raw(b'{"a":1}'), {"text": "half \ud83d"}]}
    assert msgspec.json.decode(encoded(body)) == {"messages": [{"a": 1}, {"text": "half \ufffd"}]}
