"""Schemas that would keep a validator busy for ever, or make it read something, do no harm."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdfast.agent.schema_check import validate_answer, validate_schema
from holdfast.agent.schema_size import MAX_NODES, unfolded_size
from holdfast.errors import BadRequest

TREE = {"type": "object", "properties": {"below": {"type": "array", "items": {"$ref": "#"}}}, "required": ["below"]}


def multiplying(levels: int) -> dict[str, Any]:
    """A schema of a few lines that is 2**levels schemas."""
    steps: dict[str, Any] = {
        f"a{number}": {"anyOf": [{"$ref": f"#/$defs/a{number + 1}"}] * 2} for number in range(levels)
    }
    return {"$defs": {**steps, f"a{levels}": {"type": "string"}}, "$ref": "#/$defs/a0"}


async def test_a_schema_whose_references_multiply_does_not_stop_the_server() -> None:
    schema = multiplying(50)
    await validate_schema(schema)  # reading it takes no time
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0)
            ticks += 1

    ticking = asyncio.create_task(tick())
    checked = await validate_answer(schema, "1", seconds=1)
    ticking.cancel()
    assert checked.problem == "it cannot be compared with the schema within 1 s; it is too complex"
    assert ticks > 100  # the validator holds the lock of its process, not of this one


async def test_a_comparison_ends_with_its_run() -> None:
    comparing = asyncio.create_task(validate_answer(multiplying(50), "1", seconds=600))
    await asyncio.sleep(0)
    comparing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await comparing  # after its process has been killed


async def test_a_schema_that_cannot_be_read_in_time_is_refused() -> None:
    steps = {f"a{number}": {"$ref": f"#/$defs/a{number + 1}"} for number in range(100_000)}
    with pytest.raises(BadRequest, match="output_schema is too complex: it cannot be read within 1 s"):
        await validate_schema({"$defs": {**steps, "a100000": {}}, "$ref": "#/$defs/a0"}, seconds=1)


@pytest.mark.parametrize(
    ("schema", "right", "wrong", "problem"),
    [
        (TREE, '{"below": [{"below": []}]}', '{"below": [{}]}', '$.below[0]: "below" is a required property'),
        (multiplying(3), '"a"', "1", "$: 1 is not valid under any of the schemas"),
        ({"pattern": "^(a|a)*\\\\1?(?=b)c$"}, "1", '"' + "a" * 5000 + 'b"', "$: Error executing regex: Max limit"),
        ({"$ref": "#"}, "1", "{", "it is not JSON: "),
        ({"$dynamicAnchor": "x", "$dynamicRef": "#x"}, "1", "{", "it is not JSON: "),
        ({"type": "string"}, '"' + "a" * 3_000_000 + '"', "[" + "1," * 1_500_000 + "1]", "$: [1,1,1"),
    ],
    ids=["recursive", "repeated", "slow pattern", "itself", "itself dynamically", "large answers"],
)
async def test_unusual_schemas_are_compared_like_others(
    schema: dict[str, Any], right: str, wrong: str, problem: str
) -> None:
    await validate_schema(schema)
    assert (await validate_answer(schema, right)).problem == ""
    assert (await validate_answer(schema, wrong)).problem.startswith(problem)


@pytest.mark.parametrize("template", [{"$ref": "{}"}, {"$schema": "{}"}, {"$id": "{}/base/", "$ref": "other.json"}])
async def test_no_schema_makes_the_server_read_an_address(template: dict[str, str]) -> None:
    connections = 0

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        writer.close()

    listener = await asyncio.start_server(connected, "127.0.0.1", 0)
    async with listener:
        url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}/schema"
        schema = {key: value.replace("{}", url) for key, value in template.items()}
        with pytest.raises(BadRequest, match="output_schema is not a valid JSON Schema"):
            await validate_schema(schema)
    assert connections == 0


def test_the_size_is_known_for_schemas_of_ordinary_types_only() -> None:
    point = {"type": "object", "properties": {"x": {"type": "number"}, "y": {"type": "number"}}}
    named = {"$defs": {"Point": point}, "type": "array", "items": {"$ref": "#/$defs/Point"}}
    assert unfolded_size(point) == 3
    assert unfolded_size({"anyOf": [named["items"], {"type": "null"}], "$defs": {"Point": point}}) == 11
    assert unfolded_size(named) == 8
    assert unfolded_size({"enum": list(range(100))}) == 101
    for unknown in (
        TREE,
        multiplying(20),
        {"pattern": "a"},
        {"$ref": "https://example.org/schema"},
        {"$ref": "#/$defs/missing"},
        {"enum": list(range(MAX_NODES))},
        {"$defs": {f"a{n}": {"$ref": f"#/$defs/a{n + 1}"} for n in range(1000)}, "$ref": "#/$defs/a0"},
        {"items": 1},
    ):
        assert unfolded_size(unknown) is None
