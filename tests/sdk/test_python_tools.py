"""Functions as tools: what the model is told, and what it gets back."""

import sys
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import msgspec
import pydantic
import pytest

from holdfast.errors import BadRequest
from holdfast.schema.client_tools import ClientResult
from holdfast.sdk.python_tools import PythonTool, as_result, read_docstring


@dataclass
class Place:
    city: str
    zip: int = 0


class Ticket(pydantic.BaseModel):
    id: int


def book(
    place: Place,
    nights: Annotated[int, msgspec.Meta(ge=1)],
    *,
    kind: Literal["room", "suite"] = "room",
    notes: list[str] | None = None,
) -> str:
    """Book a place to sleep.

    It is paid later.

    Args:
        place: Where,
            and with which zip.
        nights (int): How long.

    Returns:
        Nothing of interest.
    """
    return f"{place.city} {nights} {kind} {notes}"


def test_the_signature_and_the_docstring_describe_the_tool() -> None:
    definition = PythonTool(book, effect="none").definition
    assert (definition.name, definition.effect) == ("book", "none")
    assert definition.description == "Book a place to sleep.\n\nIt is paid later."
    schema = definition.parameters
    assert schema["type"] == "object"
    assert schema["required"] == ["place", "nights"]
    assert schema["properties"]["place"]["description"] == "Where, and with which zip."
    assert schema["properties"]["nights"] == {"type": "integer", "minimum": 1, "description": "How long."}
    assert schema["properties"]["kind"]["enum"] == ["room", "suite"]
    assert schema["properties"]["kind"]["default"] == "room"
    assert schema["$defs"]["Place"]["required"] == ["city"]
    assert "title" not in schema


async def test_arguments_are_converted_and_wrong_ones_are_an_error_for_the_model() -> None:
    tool = PythonTool(book)
    assert (await tool.run({"place": {"city": "Ulm"}, "nights": "2"})).text == "Ulm 2 room None"
    for wrong in ({}, {"place": {}, "nights": 1}, {"place": {"city": "Ulm"}, "nights": 0}, {"more": 1}):
        result = await tool.run(wrong)
        assert (result.status, result.text[:18]) == ("error", "invalid arguments:"), wrong


async def test_an_exception_is_an_error_for_the_model() -> None:
    async def broken() -> None:
        raise KeyError("rope")

    def exits() -> None:
        sys.exit(3)

    assert await PythonTool(broken).run({}) == ClientResult("KeyError: 'rope'", status="error")
    assert await PythonTool(exits).run({}) == ClientResult("SystemExit: 3", status="error")  # the program goes on


@pytest.mark.parametrize(
    ("returned", "text"),
    [
        *[("plain", "plain"), (None, "done"), (3, "3"), ({"a": [1]}, '{"a":[1]}'), (Ellipsis, "Ellipsis")],
        *[(Place("Ulm"), '{"city":"Ulm","zip":0}'), ([Ticket(id=1)], '[{"id":1}]')],
    ],
)
def test_what_a_function_returns_becomes_text(returned: Any, text: str) -> None:
    assert as_result(returned) == ClientResult(text)


def test_functions_that_cannot_be_called_by_name_are_refused() -> None:
    def positional(a: int, /) -> None: ...
    def any_number(*a: int) -> None: ...
    def unknown(a: "Nowhere") -> None: ...  # type: ignore[name-defined]  # noqa: F821

    for function in (positional, any_number, unknown):
        with pytest.raises(BadRequest):
            PythonTool(function)


def test_descriptions_of_arguments_in_the_style_of_sphinx() -> None:
    assert read_docstring("Do it.\n\n:param a: The first.\n:param int b: The second.\n:returns: x") == (
        "Do it.",
        {"a": "The first.", "b": "The second."},
    )
