"""Questions of an MCP server become questions to the person."""

from typing import Any

from holdfast.extend.mcp.elicitations import content_of, questions_of
from holdfast.schema.approvals import QuestionItem


def form(*required: str, **properties: Any) -> dict[str, Any]:
    return {"message": "Tell me", "requestedSchema": {"properties": properties, "required": list(required)}}


FORM = form(
    "name",
    name={"type": "string", "description": "your name"},
    age={"type": "integer"},
    sure={"type": "boolean"},
    color={"type": "string", "enum": ["red", "blue"]},
    likes={"type": "array", "items": {"anyOf": [{"const": "tea"}, {"const": "milk"}]}},
)


def test_each_value_of_a_form_is_one_question_with_its_origin() -> None:
    items = questions_of(FORM, server="docs")
    assert items is not None
    assert items[0] == QuestionItem("The MCP server docs asks: Tell me\nyour name", "text")
    assert [(item.kind, item.options) for item in items[1:]] == [
        ("text", ()),
        ("yes_no", ()),
        ("single", ("red", "blue")),
        ("multiple", ("tea", "milk")),
    ]


def test_answers_have_the_types_of_the_form_and_what_is_missing_declines() -> None:
    answers = (("Eve",), ("7",), ("yes",), ("red",), ("tea", "milk"))
    content = {"name": "Eve", "age": 7, "sure": True, "color": "red", "likes": ["tea", "milk"]}
    assert content_of(FORM, answers) == {"action": "accept", "content": content}
    assert content_of(FORM, (("Eve",), ("seven",), ("no",), (), ())) == {
        "action": "accept",
        "content": {"name": "Eve", "sure": False, "likes": []},
    }
    assert content_of(FORM, (("",), (), (), (), ())) == {"action": "decline"}


def test_an_address_is_shown_and_a_form_without_values_is_a_yes_or_no() -> None:
    url = {"mode": "url", "message": "Log in", "url": "https://x.org/a"}
    (item,) = questions_of(url, server="docs") or ()
    assert "https://x.org/a" in item.text
    assert content_of(url, (("yes",),))["action"] == "accept"
    assert content_of(form(), (("no",),)) == {"action": "decline"}
    assert questions_of(form(**{f"f{number}": {} for number in range(11)}), server="docs") is None
