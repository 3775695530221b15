"""Types of answers: their schemas, and the answers as values."""

from dataclasses import dataclass
from typing import Any, TypedDict

import msgspec
import pydantic
import pytest

from holdfast.errors import BadRequest, RunNotCompleted
from holdfast.sdk.structured_output import OutputShape


class Struct(msgspec.Struct):
    name: str


@dataclass
class Data:
    name: str


class Typed(TypedDict):
    name: str


class Model(pydantic.BaseModel):
    name: str


class Tree(msgspec.Struct):
    children: "list[Tree]" = []


@pytest.mark.parametrize(
    ("kind", "expected"),
    [(Struct, Struct("a")), (Data, Data("a")), (Typed, {"name": "a"}), (Model, Model(name="a"))],
)
def test_an_answer_becomes_a_value_of_its_type(kind: Any, expected: Any) -> None:
    shape = OutputShape(kind)
    assert shape.schema is not None
    assert (shape.schema["type"], shape.schema["required"]) == ("object", ["name"])
    assert "$ref" not in shape.schema
    assert shape.read({"name": "a"}) == expected
    with pytest.raises(RunNotCompleted, match="not a valid value"):
        shape.read({"name": 1})


def test_lists_schemas_and_recursive_types() -> None:
    assert OutputShape(list[Struct]).read([{"name": "a"}]) == [Struct("a")]
    schema = {"type": "array", "items": {"type": "integer"}}
    assert (OutputShape(schema).schema, OutputShape(schema).read([1])) == (schema, [1])
    assert (OutputShape(None).schema, OutputShape(None).read(None)) == (None, None)
    recursive = OutputShape(Tree)
    assert recursive.schema is not None
    assert set(recursive.schema["$defs"]) == {"Tree"}
    assert recursive.read({"children": [{}]}) == Tree([Tree()])
    models = OutputShape(dict[str, list[Model] | None])
    assert models.read({"a": [{"name": "b"}], "c": None}) == {"a": [Model(name="b")], "c": None}
    with pytest.raises(BadRequest, match=r"cannot be described by a JSON Schema: type .* is not supported"):
        OutputShape(object)
