"""`ask`: ask the user questions."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

import msgspec
from msgspec import Meta

from holdfast.errors import ToolError
from holdfast.schema.approvals import Effect, QuestionItem, QuestionKind, Subject
from holdfast.schema.base import repair_text
from holdfast.tools.protocol import ToolContext, ToolOutput, ToolPlan


class AskedQuestion(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    text: Annotated[str, Meta(description="The question.", min_length=1)]
    kind: Annotated[QuestionKind, Meta(description="The kind of answer; single and multiple require options.")] = "text"
    options: Annotated[tuple[str, ...], Meta(description="The choices.", max_length=12)] = ()


class AskArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    questions: Annotated[tuple[AskedQuestion, ...], Meta(min_length=1, max_length=5)]


class AskTool:
    name: ClassVar[str] = "ask"
    description: ClassVar[str] = (
        "Ask the user one to five questions and wait for the answers. Ask only for decisions that the user must"
        " make; find out everything else yourself."
    )
    arguments: ClassVar[type[Any]] = AskArguments
    effect: ClassVar[Effect] = "none"
    parallel: ClassVar[bool] = False

    async def plan(self, arguments: AskArguments, context: ToolContext) -> ToolPlan:
        for item in arguments.questions:
            _check(item)
        return ToolPlan(Subject(tool=self.name, effect="none", title=context.redact(arguments.questions[0].text)))

    async def run(self, arguments: AskArguments, context: ToolContext, plan: ToolPlan) -> ToolOutput:
        if not context.interactive:
            raise ToolError("this run is not interactive; decide yourself and say what you assumed")
        items = tuple(_item(item, context) for item in arguments.questions)
        answers = await context.asker.ask(items)
        if answers is None:
            return ToolOutput(
                "The user dismissed the questions. Continue without an answer, or stop and say what is undecided."
            )
        lines = [
            f"{item.text}\n→ {'; '.join(given) or '(no answer)'}" for item, given in zip(items, answers, strict=True)
        ]
        return ToolOutput(context.redact(repair_text("\n\n".join(lines))), display={"answers": answers})


def _item(item: AskedQuestion, context: ToolContext) -> QuestionItem:
    options = tuple(context.redact(repair_text(option)) for option in item.options)
    return QuestionItem(context.redact(repair_text(item.text)), item.kind, options)


def _check(item: AskedQuestion) -> None:
    if item.kind in ("single", "multiple"):
        if len(set(item.options)) < 2 or len(set(item.options)) != len(item.options):
            raise ToolError(f"the question {item.text!r} has kind {item.kind!r}; pass two or more different options")
    elif item.options:
        raise ToolError(f"the question {item.text!r} has options; set its kind to 'single' or 'multiple'")
