"""`multiedit` makes all of its edits, or none and says which one failed."""

from pathlib import Path

import pytest

from holdfast.errors import ToolError
from holdfast.tools.multiedit import MultiEditTool
from tests.support.file_sessions import FileWorkspace


@pytest.fixture
def workspace(tmp_path: Path) -> FileWorkspace:
    return FileWorkspace(tmp_path)


def _edit(old: str, new: str, **more: bool) -> dict[str, object]:
    return {"old_text": old, "new_text": new, **more}


async def test_edits_are_made_in_order_each_on_the_result_of_the_last(workspace: FileWorkspace) -> None:
    workspace.put("a", "one\ntwo\none\n")
    session = workspace.session()
    await session.view("a")
    edits = [_edit("two", "middle"), _edit("one\nmiddle", "1\nmiddle"), _edit("one", "3")]
    output = await session.call(MultiEditTool(), path="a", edits=edits)
    assert workspace.text("a") == "1\nmiddle\n3\n"
    assert output.text == "a: changed (+3 −3 lines); 3 edits\n     1\t1\n     2\tmiddle\n     3\t3"


async def test_one_that_fails_is_named_and_none_is_made(workspace: FileWorkspace) -> None:
    workspace.put("a", "one\ntwo\n")
    session = workspace.session()
    await session.view("a")
    edits = [_edit("one", "1"), _edit("one", "uno"), _edit("two", "2")]
    with pytest.raises(
        ToolError, match=r"(?s)'a': edit 2 of 3: old_text was not found.*\nNothing was changed\."
    ) as refused:
        await session.call(MultiEditTool(), path="a", edits=edits)
    assert refused.value.detail == {"edit": 2}
    assert workspace.text("a") == "one\ntwo\n"
    assert workspace.records.events == []


async def test_a_new_file_can_be_made_and_edited_at_once(workspace: FileWorkspace) -> None:
    edits = [_edit("", "a = 1\nb = 1\n"), _edit("1", "2", replace_all=True)]
    await workspace.session().call(MultiEditTool(), path="new.py", edits=edits)
    assert workspace.text("new.py") == "a = 2\nb = 2\n"


async def test_an_empty_old_text_in_a_later_edit_raises_an_error(workspace: FileWorkspace) -> None:
    with pytest.raises(ToolError, match=r"edit 2 of 2: old_text is empty"):
        await workspace.session().call(MultiEditTool(), path="new", edits=[_edit("", "x"), _edit("", "y")])
    assert workspace.tree() == {}


async def test_a_match_except_for_white_space_is_noted_per_edit(workspace: FileWorkspace) -> None:
    workspace.put("a", "  x = 1  \n  y = 1\n")
    session = workspace.session()
    await session.view("a")
    output = await session.call(
        MultiEditTool(), path="a", edits=[_edit("y = 1", "y = 2"), _edit("x = 1\ny = 2", "x = 3\ny = 2")]
    )
    assert "edit 2: old_text was not found exactly" in output.text
    assert workspace.text("a") == "  x = 3\n  y = 2\n"
