"""Before its approval, a write outside the workspace reveals nothing about the names there."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import ToolError
from holdfast.tools.apply_patch import ApplyPatchTool
from holdfast.tools.download import DownloadTool
from holdfast.tools.edit import EditTool
from holdfast.tools.multiedit import MultiEditTool
from holdfast.tools.protocol import Tool
from holdfast.tools.write import WriteTool
from tests.support.file_sessions import FileWorkspace

NAMES = ("present.txt", "presen.txt", "missing.txt", "folder", "folder/x", "big.bin", "pipe", "link", "loop")


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    directory = tmp_path / "outside"
    (directory / "folder").mkdir(parents=True)
    (directory / "present.txt").write_text("here")
    (directory / "big.bin").write_bytes(bytes(100))
    os.mkfifo(directory / "pipe")
    (directory / "link").symlink_to("present.txt")
    (directory / "loop").symlink_to("loop")
    return directory


def calls_for(path: str) -> list[tuple[Tool[Any], dict[str, Any]]]:
    return [
        (EditTool(), {"path": path, "old_text": "a", "new_text": "b"}),
        (EditTool(), {"path": path, "old_text": "", "new_text": "b"}),
        (MultiEditTool(), {"path": path, "edits": [{"old_text": "a", "new_text": "b"}]}),
        (WriteTool(), {"path": path, "content": "b\n"}),
        (DownloadTool(), {"path": path, "url": "https://example.test/"}),
        (ApplyPatchTool(), {"patch": f"*** Begin Patch\n*** Delete File: {path}\n*** End Patch"}),
        (ApplyPatchTool(), {"patch": f"*** Begin Patch\n*** Add File: {path}\n+x\n*** End Patch"}),
        (ApplyPatchTool(), {"patch": f"*** Begin Patch\n*** Update File: {path}\n@@\n-a\n+b\n*** End Patch"}),
    ]


async def test_plans_are_the_same_whatever_is_outside(tmp_path: Path, outside: Path) -> None:
    workspace = FileWorkspace(tmp_path)
    for number in range(len(calls_for(""))):
        seen = set()
        for name in NAMES:
            tool, arguments = calls_for(str(outside / name))[number]
            plan = await workspace.session().plan(tool, **arguments)
            shown = repr((plan.subject.title, plan.display, set(plan.expected.values())))
            seen.add(shown.replace(str(outside / name), "PATH"))
        assert len(seen) == 1, f"{tool.name} tells names apart: {seen}"


async def test_a_file_that_the_session_has_read_is_planned_in_full(tmp_path: Path, outside: Path) -> None:
    workspace = FileWorkspace(tmp_path)
    session = workspace.session()
    await session.view(str(outside / "present.txt"))
    plan = await session.plan(EditTool(), path=str(outside / "present.txt"), old_text="here", new_text="there")
    assert "-here" in plan.display["diff"]
    with pytest.raises(ToolError, match=r"not find|not found|does not"):
        await session.plan(EditTool(), path=str(outside / "present.txt"), old_text="absent", new_text="x")


async def test_after_the_approval_the_file_is_checked_as_usual(tmp_path: Path, outside: Path) -> None:
    workspace = FileWorkspace(tmp_path)
    session = workspace.session()
    with pytest.raises(ToolError, match="you have not read it"):
        await session.write(str(outside / "present.txt"), "new")
    await session.write(str(outside / "new.txt"), "new")
    assert (outside / "new.txt").read_text() == "new"
    assert (outside / "present.txt").read_text() == "here"
