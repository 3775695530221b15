"""`ask`: questions reach the person, answers the model."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast.errors import ToolError
from holdfast.schema.approvals import QuestionItem
from holdfast.tools.ask import AskTool
from holdfast.tools.protocol import ToolContext, ToolOutput
from tests.support.tool_contexts import ToolWorkspace


@pytest.fixture
def workspace(tmp_path: Path) -> ToolWorkspace:
    return ToolWorkspace(tmp_path)


async def call(tool: Any, context: ToolContext, **arguments: Any) -> ToolOutput:
    struct = msgspec.convert(arguments, tool.arguments)
    return await tool.run(struct, context, await tool.plan(struct, context))


async def test_questions_reach_the_user_and_answers_reach_the_model(workspace: ToolWorkspace) -> None:
    workspace.asker.answers = (("yes",), ("a", "c"), ())
    questions = [
        {"text": "Go on?", "kind": "yes_no"},
        {"text": "Which?", "kind": "multiple", "options": ["a", "b", "c"]},
        {"text": "Why?"},
    ]
    output = await call(AskTool(), workspace.context(), questions=questions)
    assert output.text == "Go on?\n→ yes\n\nWhich?\n→ a; c\n\nWhy?\n→ (no answer)"
    assert workspace.asker.asked == [
        (
            QuestionItem("Go on?", "yes_no"),
            QuestionItem("Which?", "multiple", ("a", "b", "c")),
            QuestionItem("Why?", "text"),
        )
    ]


async def test_the_model_learns_of_a_dismissal(workspace: ToolWorkspace) -> None:
    assert "dismissed" in (await call(AskTool(), workspace.context(), questions=[{"text": "Why?"}])).text


@pytest.mark.parametrize(
    "question",
    [
        {"text": "Which?", "kind": "single"},
        {"text": "Which?", "kind": "single", "options": ["a"]},
        {"text": "Which?", "kind": "multiple", "options": ["a", "a"]},
        {"text": "Why?", "kind": "text", "options": ["a", "b"]},
    ],
)
async def test_a_question_that_cannot_be_answered_is_not_asked(
    workspace: ToolWorkspace, question: dict[str, Any]
) -> None:
    with pytest.raises(ToolError, match="options"):
        await call(AskTool(), workspace.context(), questions=[question])
    assert workspace.asker.asked == []


@pytest.mark.parametrize("count", [0, 6])
def test_there_are_one_to_five_questions(count: int) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"questions": [{"text": "Why?"}] * count}, AskTool.arguments)


async def test_a_run_that_is_not_interactive_cannot_ask(workspace: ToolWorkspace) -> None:
    context = msgspec.structs.replace(workspace.context(), interactive=False)
    with pytest.raises(ToolError, match="this run is not interactive"):
        await call(AskTool(), context, questions=[{"text": "Why?"}])
