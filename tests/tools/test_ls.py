"""`ls` shows a tree, without what is ignored, and says where it was cut."""

from pathlib import Path

import pytest

from holdfast.errors import ToolError
from holdfast.tools import ls
from holdfast.tools.ls import LsTool
from tests.support.filebox import Filebox


@pytest.fixture
def box(tmp_path: Path) -> Filebox:
    box = Filebox(tmp_path)
    for name in ["README.md", "src/app/main.py", "src/app/deep/er/x.py", "src/z.py", "node_modules/a/b.js", ".env"]:
        box.put(name, "")
    box.put(".gitignore", "node_modules/\n")
    return box


async def _ls(box: Filebox, **arguments: object) -> str:
    return (await box.session().call(LsTool(), **arguments)).text


async def test_a_directory_is_a_tree_of_three_levels(box: Filebox) -> None:
    assert await _ls(box) == (
        "./\n  .env\n  .gitignore\n  README.md\n  src/\n    app/\n      deep/\n      main.py\n    z.py"
    )


async def test_depth_and_path_can_be_given(box: Filebox) -> None:
    assert await _ls(box, path="src/app", depth=1) == "src/app/\n  deep/\n  main.py"
    assert await _ls(box, path=str(box.workspace / "src/app/deep")) == "src/app/deep/\n  er/\n    x.py"


async def test_an_ignored_directory_is_shown_when_asked_for(box: Filebox) -> None:
    assert await _ls(box, path="node_modules") == "node_modules/\n  a/\n    b.js"


async def test_symlinks_are_told_and_not_followed(box: Filebox) -> None:
    (box.workspace / "src/loop").symlink_to("..")
    assert "    loop (symlink)\n" in await _ls(box)


async def test_a_large_tree_is_cut_from_below_and_says_so(box: Filebox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ls, "MAX_ENTRIES", 5)
    text = await _ls(box)
    assert text.startswith("./\n  .env\n  .gitignore\n  README.md\n  src/\n    app/\n(cut after 5 entries")


async def test_an_empty_directory_a_file_and_a_missing_one(box: Filebox) -> None:
    (box.workspace / "empty").mkdir()
    assert await _ls(box, path="empty") == "empty/\n  (empty, or all of it is ignored)"
    with pytest.raises(ToolError, match=r"is a file; use view"):
        await _ls(box, path="README.md")
    with pytest.raises(ToolError, match=r"'scr' does not exist; near: 'src'"):
        await _ls(box, path="scr")


async def test_the_approval_is_told_the_real_path(box: Filebox, tmp_path: Path) -> None:
    (box.workspace / "out").symlink_to(tmp_path)
    plan = await box.session().plan(LsTool(), path="out")
    assert plan.subject.paths == (str(tmp_path.resolve()),)
