"""`ls` shows a tree, without what is ignored, and says where it was cut."""

from pathlib import Path

import pytest

from holdfast.errors import ToolError
from holdfast.tools import ls
from holdfast.tools.ls import LsTool
from tests.support.file_sessions import FileWorkspace


@pytest.fixture
def workspace(tmp_path: Path) -> FileWorkspace:
    workspace = FileWorkspace(tmp_path)
    for name in ["README.md", "src/app/main.py", "src/app/deep/er/x.py", "src/z.py", "node_modules/a/b.js", ".env"]:
        workspace.put(name, "")
    workspace.put(".gitignore", "node_modules/\n")
    return workspace


async def _ls(workspace: FileWorkspace, **arguments: object) -> str:
    return (await workspace.session().call(LsTool(), **arguments)).text


async def test_a_directory_is_a_tree_of_three_levels(workspace: FileWorkspace) -> None:
    assert await _ls(workspace) == (
        "./\n  .env\n  .gitignore\n  README.md\n  src/\n    app/\n      deep/\n      main.py\n    z.py"
    )


async def test_depth_and_path_can_be_given(workspace: FileWorkspace) -> None:
    assert await _ls(workspace, path="src/app", depth=1) == "src/app/\n  deep/\n  main.py"
    assert await _ls(workspace, path=str(workspace.directory / "src/app/deep")) == "src/app/deep/\n  er/\n    x.py"


async def test_an_ignored_directory_is_shown_when_asked_for(workspace: FileWorkspace) -> None:
    assert await _ls(workspace, path="node_modules") == "node_modules/\n  a/\n    b.js"


async def test_symlinks_are_listed_and_not_followed(workspace: FileWorkspace) -> None:
    (workspace.directory / "src/loop").symlink_to("..")
    assert "    loop (symlink)\n" in await _ls(workspace)


async def test_a_large_tree_is_cut_from_below_and_says_so(
    workspace: FileWorkspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ls, "MAX_ENTRIES", 5)
    text = await _ls(workspace)
    assert text.startswith("./\n  .env\n  .gitignore\n  README.md\n  src/\n    app/\n(only the first 5 entries")


async def test_an_empty_directory_a_file_and_a_missing_one(workspace: FileWorkspace) -> None:
    (workspace.directory / "empty").mkdir()
    assert await _ls(workspace, path="empty") == "empty/\n  (empty, or all entries are ignored)"
    with pytest.raises(ToolError, match=r"is a file; use view"):
        await _ls(workspace, path="README.md")
    with pytest.raises(ToolError, match=r"'scr' does not exist; similar: 'src'"):
        await _ls(workspace, path="scr")


async def test_the_plan_has_the_real_path(workspace: FileWorkspace, tmp_path: Path) -> None:
    (workspace.directory / "out").symlink_to(tmp_path)
    plan = await workspace.session().plan(LsTool(), path="out")
    assert plan.subject.paths == (str(tmp_path.resolve()),)
