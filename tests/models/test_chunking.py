"""However a stream's bytes arrive, its deltas are the same; whatever its bytes are, only our errors come out."""

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
from tests.models.quirks import QUIRKS
from tests.models.support import WIRES, read, reading, streams

GOOD = [
    *((wire, name, stream.body) for wire in WIRES for name, stream in streams(wire).items() if stream.status == 200),
    *(("openai-chat", name, body) for name, (body, _) in QUIRKS.items()),
]
IDS = [f"{wire}: {name}" for wire, name, _ in GOOD]


def outcome(wire: str, body: bytes, cuts: list[int]) -> list[Any]:
    """The deltas up to the end, and the error if there was one."""
    found: list[Any] = []
    try:
        for delta in reading(wire, body, cuts=cuts):
            found.append(delta)  # noqa: PERF402 - what came before the error counts too
    except ModelError as error:
        found.append((type(error), error.message))
    return found


@pytest.mark.parametrize(("wire", "name", "body"), GOOD, ids=IDS)
def test_any_chunking_of_a_stream_gives_the_same_deltas(wire: str, name: str, body: bytes) -> None:
    whole = outcome(wire, body, [])
    assert outcome(wire, body, list(range(1, len(body)))) == whole
    chance = random.Random(name)
    for _ in range(20):
        assert outcome(wire, body, [chance.randrange(len(body)) for _ in range(chance.randrange(1, 12))]) == whole


@given(st.sampled_from(GOOD), st.data())
def test_any_chunking_that_can_be_thought_of_gives_the_same_deltas(stream: Any, data: st.DataObject) -> None:
    wire, _, body = stream
    cuts = data.draw(st.lists(st.integers(0, len(body)), max_size=16))
    assert outcome(wire, body, cuts) == outcome(wire, body, [])


def check(wire: str, body: bytes) -> None:
    """Only our errors, only deltas that can be stored, nothing after the stop."""
    try:
        deltas: list[ModelDelta] = read(wire, body)
    except ModelError as error:
        encode(error.message)
        return
    assert isinstance(deltas[-1], Stop)
    assert sum(isinstance(delta, Stop) for delta in deltas) == 1
    encode(deltas)


@settings(max_examples=400)
@given(st.sampled_from(GOOD), st.data())
def test_a_damaged_stream_raises_only_our_errors(stream: Any, data: st.DataObject) -> None:
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
@given(st.sampled_from(GOOD), st.data())
def test_a_stream_with_values_of_another_kind_raises_only_our_errors(stream: Any, data: st.DataObject) -> None:
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
def test_a_stream_of_any_json_raises_only_our_errors(wire: str, values: list[Any]) -> None:
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
def test_many_damaged_streams_raise_only_our_errors() -> None:
    chance = random.Random()
    seed = chance.randrange(2**32)
    chance.seed(seed)
    rounds = 100_000
    for _ in range(rounds):
        wire, _, body = chance.choice(GOOD)
        damaged = bytearray(body)
        for _ in range(chance.randrange(1, 5)):
            at = chance.randrange(len(damaged) + 1)
            damaged[at : at + chance.choice((0, 0, 1, 20))] = chance.randbytes(chance.randrange(6))
        check(wire, bytes(damaged))
    print(f"{rounds} damaged streams of {len(GOOD)}, seed {seed}")
