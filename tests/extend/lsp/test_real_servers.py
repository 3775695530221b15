"""Real language servers (`ruff server`, `basedpyright`): what an edit breaks is told, and a rename is one change."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from holdfast.config.setting_types import Duration
from holdfast.errors import ToolError
from holdfast.extend.lsp.language_tools import DefinitionTool, DiagnosticsTool, ReferencesTool, SymbolsTool
from holdfast.extend.lsp.rename_tool import RenameTool
from tests.support.language_servers import LanguageWorkspace, open_language_workspace, with_tools

SHAPES = "def area(width: int, height: int) -> int:\n    return width * height\n"
MAIN = "from shapes import area\n\nprint(area(2, 3))\n"


@pytest.fixture
async def workspace(tmp_path: Path) -> AsyncIterator[LanguageWorkspace]:
    async with open_language_workspace(tmp_path, programs=("basedpyright-langserver", "ruff")) as workspace:
        workspace.put("shapes.py", SHAPES)
        workspace.put("main.py", MAIN)
        yield workspace


async def test_what_an_edit_breaks_is_told_with_its_result_and_gone_when_it_is_fixed(
    workspace: LanguageWorkspace,
) -> None:
    session = workspace.session()
    await session.view("main.py")
    told = await workspace.edit(session, "main.py", "area(2, 3)", 'area("2", three)')
    head, argument, *undefined = told.splitlines()
    assert head == "[basedpyright and ruff: this edit caused 3 new problems:]"
    assert argument.startswith("main.py:3:12: error: Argument of type \"Literal['2']\" cannot be assigned to parameter")
    assert undefined == [
        'main.py:3:17: error: "three" is not defined [basedpyright reportUndefinedVariable]',
        "main.py:3:17: error: Undefined name `three` [ruff F821]",
    ]
    told = await workspace.edit(session, "main.py", 'area("2", three)', "area(2, 3)")
    assert told == "[basedpyright and ruff: this edit removed 3 problems; none is left]"
    assert {status.name: status.state for status in workspace.servers.statuses()} == {
        "basedpyright": "ready",
        "ruff": "ready",
    }

    # What an edit breaks in another file that the agent has seen is told as well.
    await workspace.call(DiagnosticsTool(workspace.servers), session, path="main.py")
    await session.view("shapes.py")
    told = await workspace.edit(session, "shapes.py", "def area(width: int, height: int)", "def area(width: int)")
    assert 'shapes.py:2:20: error: "height" is not defined [basedpyright reportUndefinedVariable]' in told
    assert "main.py:3:15: error: Expected 1 positional argument [basedpyright reportCallIssue]" in told
    told = (await workspace.call(DiagnosticsTool(workspace.servers), session)).text
    assert told.splitlines()[0] == "basedpyright and ruff: 3 problems"

    # A command can change files too.
    workspace.put("shapes.py", SHAPES)
    assert (await workspace.call(DiagnosticsTool(workspace.servers), session, path="main.py")).text == (
        "basedpyright and ruff: no errors or warnings"
    )


async def test_a_symbol_is_found_and_renamed_in_three_files_with_one_undo(workspace: LanguageWorkspace) -> None:
    workspace.put("deep/other.py", "import shapes\n\ntext = '😀'; size = shapes.area(1, 2)  # area\n")
    session = workspace.session()
    servers = workspace.servers
    found = await workspace.call(DefinitionTool(servers), session, path="main.py", line=3, symbol="area")
    assert found.text == "shapes.py:1:5: def area(width: int, height: int) -> int:"
    found = await workspace.call(ReferencesTool(servers), session, path="shapes.py", line=1, symbol="area")
    assert sorted(found.text.splitlines()) == [
        "deep/other.py:3:27: text = '😀'; size = shapes.area(1, 2)  # area",
        "main.py:1:20: from shapes import area",
        "main.py:3:7: print(area(2, 3))",
        "shapes.py:1:5: def area(width: int, height: int) -> int:",
    ]
    found = await workspace.call(SymbolsTool(servers), session, path="shapes.py")
    assert found.text.splitlines()[0] == "     1  function area"
    found = await workspace.call(SymbolsTool(servers), session, query="area")
    assert "shapes.py:1: function area" in found.text

    await session.view("main.py")
    before = workspace.tree()
    plan = await RenameTool(servers).plan(
        RenameTool.arguments("shapes.py", 1, "area", "surface"), workspace.context(session)
    )
    assert plan.subject.title == "area → surface in 3 files"
    assert "+print(surface(2, 3))" in plan.display["diff"]
    assert workspace.tree() == before, "a plan changes nothing"
    renamed = await workspace.call(
        RenameTool(servers), session, path="shapes.py", line=1, symbol="area", new_name="surface"
    )
    assert renamed.text.splitlines()[0] == "renamed area to surface in 3 files"
    assert "caused" not in renamed.text
    assert workspace.text("main.py") == MAIN.replace("area", "surface")
    assert workspace.text("deep/other.py") == ("import shapes\n\ntext = '😀'; size = shapes.surface(1, 2)  # area\n")
    await session.edit("main.py", "surface(2, 3)", "surface(3, 3)")
    with pytest.raises(ToolError, match="view it"):  # it was changed without being read
        await session.edit("shapes.py", "width", "length")
    await session.undo()
    assert workspace.tree() == before


async def test_a_server_that_is_not_ready_is_named_and_the_edit_does_not_wait(workspace: LanguageWorkspace) -> None:
    workspace.settings = with_tools(workspace.settings, lsp_wait=Duration(0))
    session = workspace.session()
    await session.view("main.py")
    told = await workspace.edit(session, "main.py", "area(2, 3)", "three")
    assert told.splitlines() == [
        f"[{name} is still starting; its diagnostics are missing here, call diagnostics to get them]"
        for name in ("basedpyright", "ruff")
    ]
    found = await workspace.call(DiagnosticsTool(workspace.servers), session, path="main.py")
    assert "Undefined name `three`" in found.text


async def test_closing_leaves_no_process_and_a_confined_server_writes_nothing(workspace: LanguageWorkspace) -> None:
    session = workspace.session()
    await workspace.call(DiagnosticsTool(workspace.servers), session, path="main.py")
    before = workspace.tree()
    await workspace.servers.close()
    assert workspace.tree() == before
    assert workspace.servers.statuses() == []
