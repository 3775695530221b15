"""A value of any JSON kind in any field is read or raises one of our errors."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module

import msgspec
import pytest

from holdfast.errors import ModelError
from holdfast.models.protocol import ModelDelta, Stop
from holdfast.schema.base import Value, encode
from tests.models.compatible_servers import COMPATIBLE_STREAMS
from tests.models.json_kinds import KINDS, replacements, shape, with_kind
from tests.models.streams import Stream, gemini, sse
from tests.models.streams.openai_chat import START, STOP, chunk
from tests.models.support import WIRES, answer, streams
from tests.support.stress import StressShare

_ALL_FIELDS = chunk(
    {
        "content": [{"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}, {"type": "text", "text": "a"}],
        "reasoning_details": [{"type": "reasoning.text", "index": 0, "id": "r", "text": "Hm.", "signature": "s"}],
        "tool_calls": [
            {"index": 0, "id": "a", "function": {"name": "ls", "arguments": {"path": "/"}}, "extra_content": {"x": "y"}}
        ],
    }
)


def recorded(wire: str) -> Iterator[Stream]:
    yield from streams(wire).values()
    if wire == "openai-chat":
        yield from (Stream(body) for body, _ in COMPATIBLE_STREAMS.values())
        yield Stream(sse(START, _ALL_FIELDS, _ALL_FIELDS, STOP))
    if wire == "gemini":
        yield Stream(sse(gemini.chunk(finish="SAFETY", finishMessage="unsafe")))


def check(wire: str, stream: Stream) -> bool:
    """Return whether the stream is read. Fails on other errors than ours, and on deltas with values of wrong types."""
    try:
        deltas: list[ModelDelta] = answer(wire, stream)
    except ModelError as error:
        encode([error.message, error.detail])
        return False
    assert [delta for delta in deltas if isinstance(delta, Stop)] == deltas[-1:]
    for delta in deltas:
        msgspec.convert(msgspec.to_builtins(delta), type(delta), strict=True)
    encode(deltas)
    return True


def places(wire: str) -> Iterator[tuple[tuple[int, str, str], Stream]]:
    """Each value of each recorded stream, as a stream with a placeholder for the value."""
    for stream in recorded(wire):
        for event, path, body in replacements(stream):
            yield (stream.status, event, shape(path)), Stream(body, stream.status, stream.headers)


def check_kinds(wire: str, found: Stream) -> dict[bool, int]:
    counts = {True: 0, False: 0}
    for kind in KINDS:
        try:
            counts[check(wire, Stream(with_kind(found.body, kind), found.status, found.headers))] += 1
        except BaseException as error:
            error.add_note(f"{wire}, {kind}: {found.body!r}")
            raise
    return counts


@pytest.mark.parametrize("wire", WIRES)
def test_field_of_any_kind_is_read_or_raises_our_error(wire: str) -> None:
    """One place for each field of each type of event."""
    sample = dict(reversed(list(places(wire))))
    counts = [check_kinds(wire, found) for found in sample.values()]
    assert len(counts) >= 60
    assert sum(count[True] for count in counts) > len(counts)
    assert sum(count[False] for count in counts) > len(counts)


@pytest.mark.parametrize("wire", WIRES)
def test_recorded_streams_contain_every_field_that_the_wire_reads(wire: str) -> None:
    module = import_module(f"holdfast.models.wires.{wire.replace('-', '_')}")
    classes = [
        value for value in vars(module).values() if isinstance(value, type) and value.__module__ == module.__name__
    ]
    structs = [value for value in classes if issubclass(value, msgspec.Struct) and not issubclass(value, Value)]
    read = {field for struct in structs for field in struct.__struct_encode_fields__}
    sent = {name for (_, _, path), _ in places(wire) for name in path.split(".")}
    assert read - sent == set()


@pytest.mark.stress
@pytest.mark.parametrize("wire", WIRES)
def test_every_value_of_every_stream_is_read_or_raises_our_error(wire: str, share: StressShare) -> None:
    for _, found in share.sample(places(wire), what="values of all JSON kinds"):
        counts = check_kinds(wire, found)
        share.count("streams read", counts[True])
        share.count("refused", counts[False])


@pytest.mark.parametrize("text", ["5", "1.5", "true", "null", "[]", "{}", "[5]"])
def test_reasoning_part_without_a_string_is_left_out(text: str) -> None:
    """Raised a TypeError."""
    part = b'{"type": "thinking", "thinking": [{"text": ' + text.encode() + b"}]}"
    body = b'data: {"choices": [{"delta": {"content": [' + part + b"]}}]}\n\n" + sse(STOP)
    assert answer("openai-chat", Stream(body)) == [Stop("end_turn")]
