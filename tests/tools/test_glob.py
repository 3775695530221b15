"""`glob` finds files by name, newest first, with and without ripgrep."""

import os
from pathlib import Path

import pytest

from holdfast.errors import ToolError
from holdfast.tools.glob import GlobTool
from holdfast.tools.search import ripgrep
from tests.support.file_sessions import FileWorkspace


@pytest.fixture(params=["ripgrep", "plain"])
def workspace(tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> FileWorkspace:
    if request.param == "plain":
        monkeypatch.setattr(ripgrep, "find_ripgrep", lambda environment, workspace: None)
    return FileWorkspace(tmp_path)


async def _glob(workspace: FileWorkspace, pattern: str, **arguments: object) -> list[str]:
    return (await workspace.session().call(GlobTool(), pattern=pattern, **arguments)).text.splitlines()


async def test_the_newest_comes_first(workspace: FileWorkspace) -> None:
    for age, name in enumerate(["new.py", "src/mid.py", "old.py"]):
        os.utime(workspace.put(name, ""), (1_000_000 - age, 1_000_000 - age))
    assert await _glob(workspace, "*.py") == ["new.py", "src/mid.py", "old.py"]
    assert await _glob(workspace, "src/**/*.py") == ["src/mid.py"]


async def test_ignored_files_are_not_found(workspace: FileWorkspace) -> None:
    workspace.put(".gitignore", "out/\n")
    workspace.put(".holdfastignore", "*.min.js\n")
    workspace.put("sub/.holdfastignore", "/private\n")
    for name in ["out/a.js", "a.min.js", "a.js", "sub/private/x.js", "private/y.js", ".git/z.js", ".hidden/h.js"]:
        workspace.put(name, "")
    assert sorted(await _glob(workspace, "**/*.js")) == [".hidden/h.js", "a.js", "private/y.js"]


async def test_rules_above_the_searched_directory_count_and_the_directory_itself_is_open(
    workspace: FileWorkspace,
) -> None:
    workspace.put(".gitignore", "*.log\nvendor/\n")
    for name in ["sub/a.log", "sub/a.txt", "vendor/b.log", "vendor/b.txt"]:
        workspace.put(name, "")
    assert await _glob(workspace, "*", path="sub") == ["sub/a.txt"]
    assert await _glob(workspace, "*", path="vendor") == ["vendor/b.txt"]


async def test_a_project_under_a_directory_called_build_has_files(tmp_path: Path, workspace: FileWorkspace) -> None:
    inner = FileWorkspace(tmp_path / "build")
    (tmp_path / ".gitignore").write_text("build/\n")
    inner.put("main.py", "")
    assert await _glob(inner, "*.py") == ["main.py"]


async def test_a_truncated_result_says_so(workspace: FileWorkspace) -> None:
    for number in range(12):
        workspace.put(f"{number}.txt", "")
    found = await _glob(workspace, "*.txt", limit=10)
    assert len(found) == 11
    assert found[-1] == "(the newest 10 of 12 files; narrow the pattern or raise the limit)"


async def test_an_empty_result_says_so(workspace: FileWorkspace) -> None:
    assert await _glob(workspace, "*.zig") == ["no file matches '*.zig'"]


async def test_an_absolute_pattern_says_where_to_search(workspace: FileWorkspace, tmp_path: Path) -> None:
    (tmp_path / "other/deep").mkdir(parents=True)
    (tmp_path / "other/deep/x.md").touch()
    pattern = str(tmp_path.resolve() / "other/**/*.md")
    plan = await workspace.session().plan(GlobTool(), pattern=pattern)
    assert plan.subject.paths == (str(tmp_path.resolve() / "other"),)
    assert await _glob(workspace, pattern) == [str(tmp_path.resolve() / "other/deep/x.md")]


async def test_paths_that_cannot_be_searched_raise_errors(workspace: FileWorkspace) -> None:
    workspace.put("file", "")
    with pytest.raises(ToolError, match="is a file"):
        await _glob(workspace, "*", path="file")
    with pytest.raises(ToolError, match="does not exist"):
        await _glob(workspace, "*", path="nowhere")
