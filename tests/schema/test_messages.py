"""Messages are decoded as they were encoded, and parts of a newer version are kept."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.schema.base import Unknown, encode, to_builtins
from holdfast.schema.messages import (
    Context,
    Finish,
    KnownPart,
    Message,
    Reasoning,
    Text,
    ToolCall,
    public_parts,
    read_message,
    read_parts,
    text_of,
)
from tests.schema.strategies import json_values, known_parts, messages, texts, unknown_parts

_MESSAGE = {"id": "msg_1", "session_id": "ses_1", "run_id": "run_1", "role": "assistant", "seq": 3, "created_at": "t"}


def _json(*parts: Any, **fields: Any) -> bytes:
    return msgspec.json.encode({**_MESSAGE, "parts": parts, **fields})


@given(message=messages)
def test_a_message_is_decoded_as_it_was_encoded(message: Message) -> None:
    assert read_message(encode(message)) == message


@given(parts=st.lists(known_parts.map(to_builtins) | unknown_parts, max_size=6))
def test_parts_of_a_newer_version_are_encoded_unchanged_and_in_place(parts: list[Any]) -> None:
    message = read_message(_json(*parts))
    assert to_builtins(message)["parts"] == parts
    assert read_message(encode(message)) == message


def test_an_unknown_part_keeps_its_bytes() -> None:
    raw = b'{ "type": "hologram",  "size": 1.50, "of": {"a": null} }'
    (part,) = read_parts(b"[" + raw + b"]")
    assert part == Unknown("hologram", raw)
    assert repr(part) == "Unknown('hologram')"
    assert encode((part,)) == b"[" + raw + b"]"


@pytest.mark.parametrize(
    "part",
    [
        {"type": "finish", "reason": "a reason of tomorrow"},
        {"type": "text"},
        {"type": "text", "text": 7},
        {"text": "no type"},
        {"type": None},
        "not an object",
        ["neither"],
        3,
        None,
    ],
)
def test_a_part_of_another_shape_is_kept_and_the_other_parts_are_decoded(part: Any) -> None:
    message = read_message(_json({"type": "text", "text": "before"}, part, {"type": "text", "text": "after"}))
    assert isinstance(message.parts[1], Unknown)
    assert text_of(message.parts) == "beforeafter"
    assert to_builtins(message)["parts"][1] == part


@given(name=texts.map(lambda text: f"new_{text}"), value=json_values)
def test_unknown_fields_are_ignored(name: str, value: Any) -> None:
    message = read_message(_json({"type": "text", "text": "a", name: value}, **{name: value}))
    assert message.parts == (Text("a"),)
    with_unknown_part = read_message(_json({"type": "hologram", name: value}, **{name: value}))
    assert with_unknown_part.id == "msg_1"


def test_a_message_without_parts_is_decoded() -> None:
    assert read_message(msgspec.json.encode(_MESSAGE)).parts == ()


def test_an_invalid_message_is_rejected() -> None:
    with pytest.raises(msgspec.ValidationError):
        read_message(b'{"id": "msg_1"}')
    with pytest.raises(msgspec.DecodeError):
        read_message(b'{"id": "msg_')


def test_defaults_are_omitted_from_parts() -> None:
    assert to_builtins(ToolCall(id="call_1", name="bash")) == {"type": "tool_call", "id": "call_1", "name": "bash"}


def test_clients_see_neither_opaque_data_nor_the_system_prompt() -> None:
    kept: list[KnownPart] = [Text("a"), Finish("end_turn")]
    secret: list[KnownPart] = [
        Reasoning(text="hm", wire="w", opaque={"signature": "s"}),
        ToolCall(id="call_1", name="bash", opaque={"thought": "t"}),
        Context(blocks=("the prompt",), changed="the date"),
    ]
    shown = public_parts((*kept, *secret, Unknown("hologram", b"{}")))
    assert shown == (
        *kept,
        Reasoning(text="hm", wire="w"),
        ToolCall(id="call_1", name="bash"),
        Context(changed="the date"),
        Unknown("hologram", b"{}"),
    )


def test_values_are_frozen() -> None:
    with pytest.raises(AttributeError):
        Text("a").text = "b"  # type: ignore[misc]


def test_other_objects_cannot_be_encoded() -> None:
    with pytest.raises(NotImplementedError, match="object"):
        encode(object())
