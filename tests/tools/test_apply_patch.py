"""`apply_patch` changes several files, all or none."""

import stat
from collections.abc import Sequence
from pathlib import Path

import pytest

from holdfast.errors import ToolError
from holdfast.tools import apply_patch
from holdfast.tools.apply_patch import ApplyPatchTool
from holdfast.tools.files import file_changes
from holdfast.tools.files.file_transaction import FileChange, apply_changes
from tests.support.filebox import Filebox

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
def box(tmp_path: Path) -> Filebox:
    box = Filebox(tmp_path)
    box.put("a.py", "one\ntwo\n")
    box.put("old.txt", "old\n")
    box.put("name.sh", "echo a\n").chmod(0o755)
    return box


async def _read_all(box: Filebox) -> None:
    for name in list(box.tree()):
        await box.session().view(name)


async def test_a_patch_adds_changes_moves_and_deletes(box: Filebox) -> None:
    await _read_all(box)
    output = await box.session().call(ApplyPatchTool(), patch=_PATCH)
    assert box.tree() == {"a.py": b"1\ntwo\n", "pkg/new.py": b"x = 1\n", "bin/name": b"echo b\n"}
    assert stat.S_IMODE((box.workspace / "bin/name").stat().st_mode) == 0o755
    assert output.text.splitlines() == [
        "M a.py (+1 −1)",
        "A pkg/new.py (+1 −0)",
        "D old.txt (+0 −1)",
        "D name.sh (+0 −1)",
        "A bin/name (+1 −0)",
    ]
    assert [event.change for event in box.records.events] == ["modified", "created", "deleted", "deleted", "created"]


async def test_a_plan_names_every_path_and_touches_nothing(box: Filebox) -> None:
    await _read_all(box)
    before = box.tree()
    plan = await box.session().plan(ApplyPatchTool(), patch=_PATCH)
    names = ["a.py", "pkg/new.py", "old.txt", "name.sh", "bin/name"]
    assert plan.subject.paths == tuple(str(box.workspace / name) for name in names)
    assert plan.display["diff"].count("@@ ") == 5
    assert box.tree() == before
    assert not (box.workspace / "pkg").exists()


async def test_files_that_were_not_read_are_refused_and_named(box: Filebox) -> None:
    session = box.session()
    await session.view("a.py")
    before = box.tree()
    with pytest.raises(ToolError, match=r"'old.txt' exists, but this session has not read it"):
        await session.call(ApplyPatchTool(), patch=_PATCH)
    assert box.tree() == before


async def test_one_hunk_without_a_place_changes_no_file(box: Filebox) -> None:
    await _read_all(box)
    before = box.tree()
    patch = _PATCH.replace("-echo a", "-echo z")
    with pytest.raises(ToolError, match=r"(?s)'name.sh': hunk 1 of 1: its lines were not found.*Nothing was changed"):
        await box.session().call(ApplyPatchTool(), patch=patch)
    assert box.tree() == before


async def test_a_failure_in_the_middle_of_writing_puts_all_files_back(
    box: Filebox, monkeypatch: pytest.MonkeyPatch
) -> None:
    await _read_all(box)
    before = box.tree()

    def person_is_faster(changes: Sequence[FileChange]) -> tuple[str, ...]:
        box.put("bin/name", "a person's")
        return apply_changes(changes)

    monkeypatch.setattr(file_changes, "apply_changes", person_is_faster)
    with pytest.raises(ToolError, match="created by somebody else"):
        await box.session().call(ApplyPatchTool(), patch=_PATCH)
    assert box.tree() == before | {"bin/name": b"a person's"}
    assert box.records.events == []
    assert not (box.workspace / "pkg").exists()


@pytest.mark.parametrize(
    ("section", "why"),
    [
        ("*** Add File: a.py\n+x", "exists already"),
        ("*** Delete File: nope", "does not exist"),
        ("*** Update File: a.pyy\n-x\n+y", "does not exist; near: 'a.py'"),
        ("*** Update File: a.py\n*** Move to: old.txt", "'old.txt' exists already"),
        ("*** Add File: x\n+a\n*** Delete File: x", "changes nothing"),
    ],
)
async def test_what_cannot_be_done_is_refused(box: Filebox, section: str, why: str) -> None:
    await _read_all(box)
    before = box.tree()
    with pytest.raises(ToolError, match=why):
        await box.session().call(ApplyPatchTool(), patch=f"*** Begin Patch\n{section}\n*** End Patch")
    assert box.tree() == before


async def test_two_sections_for_one_file_follow_each_other(box: Filebox) -> None:
    await _read_all(box)
    patch = "*** Begin Patch\n*** Update File: a.py\n-one\n+1\n*** Update File: a.py\n-1\n+uno\n*** End Patch"
    await box.session().call(ApplyPatchTool(), patch=patch)
    assert box.text("a.py") == "uno\ntwo\n"


async def test_a_unified_diff_works_and_keeps_bom_and_line_endings(box: Filebox) -> None:
    path = box.put("w.txt", b"\xef\xbb\xbfone\r\ntwo\r\n")
    await _read_all(box)
    await box.session().call(ApplyPatchTool(), patch="--- a/w.txt\n+++ b/w.txt\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n")
    assert path.read_bytes() == b"\xef\xbb\xbfone\r\n2\r\n"


async def test_a_patch_of_far_too_many_files_is_refused(box: Filebox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apply_patch, "_MOST_FILES", 2)
    with pytest.raises(ToolError, match="changes 4 files; at most 2"):
        await box.session().call(ApplyPatchTool(), patch=_PATCH)
