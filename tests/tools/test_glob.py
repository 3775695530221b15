"""`glob` finds files by name, newest first, with and without ripgrep."""

import os
from pathlib import Path

import pytest

from holdfast.errors import ToolError
from holdfast.tools.glob import GlobTool
from holdfast.tools.search import ripgrep
from tests.support.filebox import Filebox


@pytest.fixture(params=["ripgrep", "plain"])
def box(tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Filebox:
    if request.param == "plain":
        monkeypatch.setattr(ripgrep, "find_ripgrep", lambda environment: None)
    return Filebox(tmp_path)


async def _glob(box: Filebox, pattern: str, **arguments: object) -> list[str]:
    return (await box.session().call(GlobTool(), pattern=pattern, **arguments)).text.splitlines()


async def test_the_newest_comes_first(box: Filebox) -> None:
    for age, name in enumerate(["new.py", "src/mid.py", "old.py"]):
        os.utime(box.put(name, ""), (1_000_000 - age, 1_000_000 - age))
    assert await _glob(box, "*.py") == ["new.py", "src/mid.py", "old.py"]
    assert await _glob(box, "src/**/*.py") == ["src/mid.py"]


async def test_what_is_ignored_is_not_found(box: Filebox) -> None:
    box.put(".gitignore", "out/\n")
    box.put(".holdfastignore", "*.min.js\n")
    box.put("sub/.holdfastignore", "/private\n")
    for name in ["out/a.js", "a.min.js", "a.js", "sub/private/x.js", "private/y.js", ".git/z.js", ".hidden/h.js"]:
        box.put(name, "")
    assert sorted(await _glob(box, "**/*.js")) == [".hidden/h.js", "a.js", "private/y.js"]


async def test_rules_above_the_searched_directory_count_and_the_directory_itself_is_open(box: Filebox) -> None:
    box.put(".gitignore", "*.log\nvendor/\n")
    for name in ["sub/a.log", "sub/a.txt", "vendor/b.log", "vendor/b.txt"]:
        box.put(name, "")
    assert await _glob(box, "*", path="sub") == ["sub/a.txt"]
    assert await _glob(box, "*", path="vendor") == ["vendor/b.txt"]


async def test_a_project_under_a_directory_called_build_has_files(tmp_path: Path, box: Filebox) -> None:
    inner = Filebox(tmp_path / "build")
    (tmp_path / ".gitignore").write_text("build/\n")
    inner.put("main.py", "")
    assert await _glob(inner, "*.py") == ["main.py"]


async def test_truncation_is_said(box: Filebox) -> None:
    for number in range(12):
        box.put(f"{number}.txt", "")
    found = await _glob(box, "*.txt", limit=10)
    assert len(found) == 11
    assert found[-1] == "(the newest 10 of 12 files; narrow the pattern or raise the limit)"


async def test_nothing_found_is_said(box: Filebox) -> None:
    assert await _glob(box, "*.zig") == ["no file matches '*.zig'"]


async def test_an_absolute_pattern_says_where_to_search(box: Filebox, tmp_path: Path) -> None:
    (tmp_path / "other/deep").mkdir(parents=True)
    (tmp_path / "other/deep/x.md").touch()
    pattern = str(tmp_path.resolve() / "other/**/*.md")
    plan = await box.session().plan(GlobTool(), pattern=pattern)
    assert plan.subject.paths == (str(tmp_path.resolve() / "other"),)
    assert await _glob(box, pattern) == [str(tmp_path.resolve() / "other/deep/x.md")]


async def test_what_cannot_be_searched_is_refused(box: Filebox) -> None:
    box.put("file", "")
    with pytest.raises(ToolError, match="is a file"):
        await _glob(box, "*", path="file")
    with pytest.raises(ToolError, match="does not exist"):
        await _glob(box, "*", path="nowhere")
