"""What is seen of a session: the files that it has read."""

from __future__ import annotations

from pathlib import Path

from holdfast.testing import Answer, Call, text
from holdfast.workspace.session_observer import WorkspaceObserver
from tests.support.provider_harness import open_provider_harness


async def test_only_files_that_the_session_has_read_and_that_are_unchanged_are_returned(tmp_path: Path) -> None:
    views = Answer(tuple(Call("view", {"path": name}) for name in ("a.py", "b.py", "c.py", "d.py")))
    async with open_provider_harness(tmp_path, views, text("done")) as (harness, _):
        for name in ("a.py", "b.py", "c.py", "unread.py"):
            (harness.directory / name).write_text(f"# {name}\n")
        (harness.directory / "d.py").write_text("d" * 1_000)
        run = await harness.run("look", model="test/claude-test")
        (harness.directory / "b.py").write_text("changed by hand\n")
        workspace = harness.app.open_workspaces.require(harness.workspace_id)
        observer = WorkspaceObserver(workspace, run.session_id)
        named = ("a.py", "./a.py", "b.py", "../outside", "unread.py", "d.py", str(harness.directory / "c.py"))
        found = await observer.read_files(named, characters=500)
        assert [(file.name, file.text) for file in found] == [("a.py", "# a.py\n"), ("c.py", "# c.py\n")]
