"""`todos`: the list is stored, and told as it is."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast.schema.sessions import Todo
from holdfast.tools.protocol import ToolContext, ToolOutput
from holdfast.tools.todos import TodosTool
from tests.support.tool_contexts import ToolWorkspace


@pytest.fixture
def workspace(tmp_path: Path) -> ToolWorkspace:
    return ToolWorkspace(tmp_path)


async def call(tool: Any, context: ToolContext, **arguments: Any) -> ToolOutput:
    struct = msgspec.convert(arguments, tool.arguments)
    return await tool.run(struct, context, await tool.plan(struct, context))


async def test_the_list_is_replaced_and_returned(workspace: ToolWorkspace) -> None:
    await call(TodosTool(), workspace.context(), todos=[{"text": "old"}])
    items = [{"text": "a", "status": "completed"}, {"text": "b", "status": "in_progress"}, {"text": "c"}]
    output = await call(TodosTool(), workspace.context(), todos=items)
    assert output.text == "[x] a\n[>] b\n[ ] c"
    assert workspace.todos.todos == (Todo("a", "completed"), Todo("b", "in_progress"), Todo("c"))
    assert (await call(TodosTool(), workspace.context(), todos=[])).text == "(the list is empty)"
