"""Answers typed at a question."""

import pytest

from holdfast.cli.approval_prompt import parse_answer
from holdfast.schema.approvals import QuestionItem


@pytest.mark.parametrize(
    ("item", "line", "chosen"),
    [
        (QuestionItem("?", "yes_no"), "Y", ["yes"]),
        (QuestionItem("?", "yes_no"), "perhaps", None),
        (QuestionItem("?", "single", ("red", "blue")), "2", ["blue"]),
        (QuestionItem("?", "single", ("red", "blue")), "red", ["red"]),
        (QuestionItem("?", "single", ("red", "blue")), "3", None),
        (QuestionItem("?", "multiple", ("red", "blue")), "1, 2", ["red", "blue"]),
        (QuestionItem("?", "multiple", ("red", "blue")), "1,9", None),
        (QuestionItem("?", "multiple", ("red", "blue")), "", None),
        (QuestionItem("?", "text"), "as I say", ["as I say"]),
        (QuestionItem("?", "text"), "", None),
    ],
)
def test_a_typed_line_is_parsed_as_an_answer(item: QuestionItem, line: str, chosen: list[str] | None) -> None:
    assert parse_answer(item, line) == chosen
