"""The fields of real msgspec errors. These tests fail if a new msgspec version words its messages differently."""

from typing import Annotated, Any, Literal

import msgspec
import pytest

from holdfast.schema.validation_errors import InvalidValue, invalid_value


class Inner(msgspec.Struct, forbid_unknown_fields=True):
    number: Annotated[int, msgspec.Meta(ge=1)] = 1
    kind: Literal["a", "b"] = "a"
    names: tuple[str, ...] = ()


class Tagged(msgspec.Struct, tag="tagged"):
    pass


class Other(msgspec.Struct, tag="other"):
    pass


class Document(msgspec.Struct, forbid_unknown_fields=True):
    required: int
    inner: Inner | None = None
    items: tuple[Inner, ...] = ()
    free: dict[str, int] = {}
    union: Tagged | Other | None = None


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ([], InvalidValue(None, "", "array")),
        ({}, InvalidValue(None, "required", "")),
        ({"required": "x"}, InvalidValue(("required",), "required", "str")),
        ({"required": 1.5}, InvalidValue(("required",), "required", "float")),
        ({"required": 1, "other": 2}, InvalidValue(None, "other", "")),
        ({"required": 1, "inner": 3}, InvalidValue(("inner",), "inner", "int")),
        ({"required": 1, "inner": {"number": 0}}, InvalidValue(("inner", "number"), "inner.number", "")),
        ({"required": 1, "inner": {"kind": "c"}}, InvalidValue(("inner", "kind"), "inner.kind", "")),
        ({"required": 1, "inner": {"numbr": 1}}, InvalidValue(("inner",), "inner.numbr", "")),
        (
            {"required": 1, "items": [{}, {"names": ["x", 1]}]},
            InvalidValue(("items", 1, "names", 1), "items[1].names[1]", "int"),
        ),
        ({"required": 1, "free": {"a": "x"}}, InvalidValue(None, "free[...]", "str")),
        ({"required": 1, "union": {"type": "new"}}, InvalidValue(("union", "type"), "union.type", "")),
    ],
)
def test_the_fields_of_an_error_are_read_from_its_message(value: Any, expected: InvalidValue) -> None:
    with pytest.raises(msgspec.ValidationError) as converted:
        msgspec.convert(value, Document)
    with pytest.raises(msgspec.ValidationError) as decoded:
        msgspec.json.decode(msgspec.json.encode(value), type=Document)
    assert invalid_value(converted.value) == invalid_value(decoded.value) == expected
