"""`apply_patch` changes several files, all or none."""

import stat
from collections.abc import Sequence
from pathlib import Path

import pytest

from holdfast.errors import ToolError
from holdfast.tools import apply_patch
from holdfast.tools.apply_patch import ApplyPatchTool
from holdfast.tools.files import file_changes
from holdfast.tools.files.file_transaction import FileWrite, write_files
from tests.support.file_sessions import FileWorkspace

_PATCH = """\
*** Begin Patch
*** Update File: a.py
-one
+1
*** Add File: pkg/new.py
+x = 1
*** Delete File: old.txt
*** Update File: name.sh
*** Move to: bin/name
-echo a
+echo b
*** End Patch
"""


@pytest.fixture
def workspace(tmp_path: Path) -> FileWorkspace:
    workspace = FileWorkspace(tmp_path)
    workspace.put("a.py", "one\ntwo\n")
    workspace.put("old.txt", "old\n")
    workspace.put("name.sh", "echo a\n").chmod(0o755)
    return workspace


async def _read_all(workspace: FileWorkspace) -> None:
    for name in list(workspace.tree()):
        await workspace.session().view(name)


async def test_a_patch_adds_changes_moves_and_deletes(workspace: FileWorkspace) -> None:
    await _read_all(workspace)
    output = await workspace.session().call(ApplyPatchTool(), patch=_PATCH)
    assert workspace.tree() == {"a.py": b"1\ntwo\n", "pkg/new.py": b"x = 1\n", "bin/name": b"echo b\n"}
    assert stat.S_IMODE((workspace.directory / "bin/name").stat().st_mode) == 0o755
    assert output.text.splitlines() == [
        "M a.py (+1 −1)",
        "     1\t1",
        "     2\ttwo",
        "A pkg/new.py (+1 −0)",
        "D old.txt (+0 −1)",
        "D name.sh (+0 −1)",
        "A bin/name (+1 −0)",
    ]
    assert [event.change for event in workspace.records.events] == [
        "modified",
        "created",
        "deleted",
        "deleted",
        "created",
    ]


async def test_a_plan_names_every_path_and_touches_nothing(workspace: FileWorkspace) -> None:
    await _read_all(workspace)
    before = workspace.tree()
    plan = await workspace.session().plan(ApplyPatchTool(), patch=_PATCH)
    names = ["a.py", "pkg/new.py", "old.txt", "name.sh", "bin/name"]
    assert plan.subject.paths == tuple(str(workspace.directory / name) for name in names)
    assert plan.display["diff"].count("@@ ") == 5
    assert workspace.tree() == before
    assert not (workspace.directory / "pkg").exists()


async def test_files_that_were_not_read_raise_an_error(workspace: FileWorkspace) -> None:
    session = workspace.session()
    await session.view("a.py")
    before = workspace.tree()
    with pytest.raises(ToolError, match=r"'old.txt' exists, but you have not read it"):
        await session.call(ApplyPatchTool(), patch=_PATCH)
    assert workspace.tree() == before


async def test_one_hunk_without_a_place_changes_no_file(workspace: FileWorkspace) -> None:
    await _read_all(workspace)
    before = workspace.tree()
    patch = _PATCH.replace("-echo a", "-echo z")
    with pytest.raises(ToolError, match=r"(?s)'name.sh': hunk 1 of 1: the lines were not found.*Nothing was changed"):
        await workspace.session().call(ApplyPatchTool(), patch=patch)
    assert workspace.tree() == before


async def test_a_failure_in_the_middle_of_writing_puts_all_files_back(
    workspace: FileWorkspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    await _read_all(workspace)
    before = workspace.tree()

    def user_is_faster(changes: Sequence[FileWrite]) -> tuple[str, ...]:
        workspace.put("bin/name", "the user's")
        return write_files(changes)

    monkeypatch.setattr(file_changes, "write_files", user_is_faster)
    with pytest.raises(ToolError, match="created by another program"):
        await workspace.session().call(ApplyPatchTool(), patch=_PATCH)
    assert workspace.tree() == before | {"bin/name": b"the user's"}
    assert workspace.records.events == []
    assert not (workspace.directory / "pkg").exists()


@pytest.mark.parametrize(
    ("section", "why"),
    [
        ("*** Add File: a.py\n+x", "already exists"),
        ("*** Delete File: nope", "does not exist"),
        ("*** Update File: a.pyy\n-x\n+y", "does not exist; similar: 'a.py'"),
        ("*** Update File: a.py\n*** Move to: old.txt", "'old.txt' already exists"),
        ("*** Add File: x\n+a\n*** Delete File: x", "changes nothing"),
    ],
)
async def test_impossible_operations_raise_errors(workspace: FileWorkspace, section: str, why: str) -> None:
    await _read_all(workspace)
    before = workspace.tree()
    with pytest.raises(ToolError, match=why):
        await workspace.session().call(ApplyPatchTool(), patch=f"*** Begin Patch\n{section}\n*** End Patch")
    assert workspace.tree() == before


async def test_two_sections_for_one_file_follow_each_other(workspace: FileWorkspace) -> None:
    await _read_all(workspace)
    patch = "*** Begin Patch\n*** Update File: a.py\n-one\n+1\n*** Update File: a.py\n-1\n+uno\n*** End Patch"
    await workspace.session().call(ApplyPatchTool(), patch=patch)
    assert workspace.text("a.py") == "uno\ntwo\n"


async def test_a_unified_diff_works_and_keeps_bom_and_line_endings(workspace: FileWorkspace) -> None:
    path = workspace.put("w.txt", b"\xef\xbb\xbfone\r\ntwo\r\n")
    await _read_all(workspace)
    await workspace.session().call(
        ApplyPatchTool(), patch="--- a/w.txt\n+++ b/w.txt\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n"
    )
    assert path.read_bytes() == b"\xef\xbb\xbfone\r\n2\r\n"


async def test_a_patch_of_too_many_files_raises_an_error(
    workspace: FileWorkspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(apply_patch, "_MAX_FILES", 2)
    with pytest.raises(ToolError, match="changes 4 files; the limit is 2"):
        await workspace.session().call(ApplyPatchTool(), patch=_PATCH)
