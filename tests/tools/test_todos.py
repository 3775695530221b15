"""`todos`: the list is stored, and told as it is."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast.schema.sessions import Todo
from holdfast.tools.protocol import ToolContext, ToolOutput
from holdfast.tools.todos import TodosTool
from tests.support.toolbox import Toolbox


@pytest.fixture
def toolbox(tmp_path: Path) -> Toolbox:
    return Toolbox(tmp_path)


async def call(tool: Any, context: ToolContext, **arguments: Any) -> ToolOutput:
    struct = msgspec.convert(arguments, tool.arguments)
    return await tool.run(struct, context, await tool.plan(struct, context))


async def test_the_list_is_replaced_whole_and_told_as_it_is(toolbox: Toolbox) -> None:
    await call(TodosTool(), toolbox.context(), todos=[{"text": "old"}])
    items = [{"text": "a", "status": "completed"}, {"text": "b", "status": "in_progress"}, {"text": "c"}]
    output = await call(TodosTool(), toolbox.context(), todos=items)
    assert output.text == "[x] a\n[>] b\n[ ] c"
    assert toolbox.todos.todos == (Todo("a", "completed"), Todo("b", "in_progress"), Todo("c"))
    assert (await call(TodosTool(), toolbox.context(), todos=[])).text == "(the list is empty)"
