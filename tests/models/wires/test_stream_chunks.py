"""A stream gives the same deltas however its bytes are split, and a damaged one raises only our errors."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.errors import ModelError
from holdfast.models.protocol import ModelDelta, Stop
from holdfast.schema.base import encode
from tests.models.compatible_servers import COMPATIBLE_STREAMS
from tests.models.support import WIRES, iterate, read, streams
from tests.support.stress import StressShare

STREAMS = [
    *((wire, name, stream.body) for wire in WIRES for name, stream in streams(wire).items() if stream.status == 200),
    *(("openai-chat", name, body) for name, (body, _) in COMPATIBLE_STREAMS.items()),
]
IDS = [f"{wire}: {name}" for wire, name, _ in STREAMS]


def read_all(wire: str, body: bytes, cuts: list[int]) -> list[Any]:
    """The deltas, followed by the error if there is one."""
    found: list[Any] = []
    try:
        for delta in iterate(wire, body, cuts=cuts):
            found.append(delta)  # noqa: PERF402 - the deltas before an error count too
    except ModelError as error:
        found.append((type(error), error.message))
    return found


@pytest.mark.parametrize(("wire", "name", "body"), STREAMS, ids=IDS)
def test_deltas_do_not_depend_on_how_bytes_are_split(wire: str, name: str, body: bytes) -> None:
    whole = read_all(wire, body, [])
    assert read_all(wire, body, list(range(1, len(body)))) == whole
    chance = random.Random(name)
    for _ in range(20):
        assert read_all(wire, body, [chance.randrange(len(body)) for _ in range(chance.randrange(1, 12))]) == whole


@given(st.sampled_from(STREAMS), st.data())
def test_deltas_do_not_depend_on_random_splits(stream: Any, data: st.DataObject) -> None:
    wire, _, body = stream
    cuts = data.draw(st.lists(st.integers(0, len(body)), max_size=16))
    assert read_all(wire, body, cuts) == read_all(wire, body, [])


def check(wire: str, body: bytes) -> None:
    """Only our errors are raised, all deltas can be encoded, and nothing follows the stop."""
    try:
        deltas: list[ModelDelta] = read(wire, body)
    except ModelError as error:
        encode(error.message)
        return
    assert isinstance(deltas[-1], Stop)
    assert sum(isinstance(delta, Stop) for delta in deltas) == 1
    encode(deltas)


@settings(max_examples=400)
@given(st.sampled_from(STREAMS), st.data())
def test_damaged_stream_raises_only_our_errors(stream: Any, data: st.DataObject) -> None:
    wire, _, body = stream
    damaged = bytearray(body)
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(damaged)))
        match data.draw(st.sampled_from(["put", "cut", "flip"])):
            case "put":
                damaged[at:at] = data.draw(st.binary(min_size=1, max_size=12))
            case "cut":
                del damaged[at : at + data.draw(st.integers(1, 40))]
            case "flip" if at < len(damaged):
                damaged[at] ^= data.draw(st.integers(1, 255))
    check(wire, bytes(damaged))


_VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["\ud83d", "\ude00", "error", "tool_use"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path] if path else []
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        found += _places(item, (*path, key))
    return found


@settings(max_examples=400)
@given(st.sampled_from(STREAMS), st.data())
def test_values_of_another_kind_raise_only_our_errors(stream: Any, data: st.DataObject) -> None:
    wire, _, body = stream
    events = body.split(b"data: ")
    at = data.draw(st.integers(0, len(events) - 1))
    try:
        found = json.loads(events[at])
    except ValueError:
        found = {}
    places = _places(found)
    if places:
        *path, last = data.draw(st.sampled_from(places))
        inner = found
        for key in path:
            inner = inner[key]
        inner[last] = data.draw(_VALUES)
    events[at] = json.dumps(found).encode() + b"\n\n"
    check(wire, b"data: ".join(events))


@given(st.sampled_from(WIRES), st.lists(st.dictionaries(st.text(max_size=8), _VALUES, max_size=4), max_size=4))
def test_arbitrary_json_raises_only_our_errors(wire: str, values: list[Any]) -> None:
    check(wire, b"".join(b"data: " + json.dumps(value).encode() + b"\n\n" for value in values))


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize(
    "body",
    [
        b"data: " + b"[" * 200_000 + b"\n\n",
        b"data: " + b'{"a":' * 200_000 + b"\n\n",
        b"data: " + b"9" * 200_000 + b"\n\n",
    ],
    ids=["deep lists", "deep objects", "a long number"],
)
def test_json_that_breaks_parsers_raises_only_our_errors(wire: str, body: bytes) -> None:
    with pytest.raises(ModelError):
        read(wire, body)


@pytest.mark.stress
def test_many_damaged_streams_raise_only_our_errors(share: StressShare) -> None:
    for seed in share.seeds():
        chance = random.Random(seed)
        share.count("streams")
        wire, _, body = chance.choice(STREAMS)
        damaged = bytearray(body)
        for _ in range(chance.randrange(1, 5)):
            at = chance.randrange(len(damaged) + 1)
            damaged[at : at + chance.choice((0, 0, 1, 20))] = chance.randbytes(chance.randrange(6))
        check(wire, bytes(damaged))
