"""`todos`: replace the session's task list."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

import msgspec
from msgspec import Meta

from holdfast.schema.approvals import Effect, Subject
from holdfast.schema.base import repair_text
from holdfast.schema.sessions import Todo, TodoStatus
from holdfast.tools.protocol import ToolContext, ToolOutput, ToolPlan

_MARKS: dict[TodoStatus, str] = {"pending": "[ ]", "in_progress": "[>]", "completed": "[x]"}


class TodoItem(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    text: Annotated[str, Meta(min_length=1, max_length=500)]
    status: TodoStatus = "pending"


class TodosArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    todos: (
        Annotated[tuple[TodoItem, ...], Meta(description="All tasks, in order; omit to read the list.", max_length=100)]
        | None
    ) = None


class TodosTool:
    name: ClassVar[str] = "todos"
    description: ClassVar[str] = (
        "Replace the task list that the user sees. For work of several steps: list the steps first, keep one"
        " in_progress, and mark each step completed when it is done. Each call replaces the whole list."
    )
    arguments: ClassVar[type[Any]] = TodosArguments
    effect: ClassVar[Effect] = "none"
    parallel: ClassVar[bool] = False

    async def plan(self, arguments: TodosArguments, context: ToolContext) -> ToolPlan:
        if arguments.todos is None:
            return ToolPlan(Subject(tool=self.name, effect="none", title="read"))
        done = sum(item.status == "completed" for item in arguments.todos)
        return ToolPlan(Subject(tool=self.name, effect="none", title=f"{done} of {len(arguments.todos)} done"))

    async def run(self, arguments: TodosArguments, context: ToolContext, plan: ToolPlan) -> ToolOutput:
        if arguments.todos is None:
            return ToolOutput(format_todos(await context.todos.read()))
        todos = tuple(Todo(context.redact(repair_text(item.text)), item.status) for item in arguments.todos)
        await context.todos.write(todos)
        return ToolOutput(format_todos(await context.todos.read()))


def format_todos(todos: tuple[Todo, ...]) -> str:
    """Return the list as text for the model."""
    return "\n".join(f"{_MARKS[todo.status]} {todo.text}" for todo in todos) or "(the list is empty)"
