"""What is seen of a session: the files that it has read, its jobs, the directories that it entered."""

from __future__ import annotations

from pathlib import Path

from holdfast.schema.events import JobFinished
from holdfast.testing import Answer, Call, text
from holdfast.workspace.session_observer import WorkspaceObserver
from tests.support.provider_harness import bodies, open_provider_harness, said_to


async def test_only_files_that_the_session_has_read_and_that_are_unchanged_are_returned(tmp_path: Path) -> None:
    views = Answer(tuple(Call("view", {"path": name}) for name in ("a.py", "b.py", "c.py", "d.py")))
    async with open_provider_harness(tmp_path, views, text("done")) as (harness, _):
        for name in ("a.py", "b.py", "c.py", "unread.py"):
            (harness.directory / name).write_text(f"# {name}\n")
        (harness.directory / "d.py").write_text("d" * 1_000)
        run = await harness.run("look", model="test/claude-test")
        (harness.directory / "b.py").write_text("changed by hand\n")
        workspace = await harness.app.open_workspaces.live(harness.workspace_id)
        observer = WorkspaceObserver(workspace, run.session_id)
        named = ("a.py", "./a.py", "b.py", "../outside", "unread.py", "d.py", str(harness.directory / "c.py"))
        found = await observer.read_files(named, characters=500)
        assert [(file.name, file.text) for file in found] == [("a.py", "# a.py\n"), ("c.py", "# c.py\n")]


MODEL = "test/claude-test"
WAITING = "while [ ! -e go ]; do sleep 0.05; done; exit 3"


async def test_files_that_the_person_changed_are_told_and_those_of_own_commands_are_not(tmp_path: Path) -> None:
    answers = (
        Answer((Call("view", {"path": "a.py"}), Call("view", {"path": "b.py"}))),
        text("seen"),
        Answer((Call("bash", {"command": "printf 'own\\n' > b.py"}),)),
        text("done"),
        text("third"),
    )
    async with open_provider_harness(tmp_path, *answers) as (harness, provider):
        for name in ("a.py", "b.py"):
            (harness.directory / name).write_text("x = 1\n")
        first = await harness.run("look", model=MODEL, mode="auto")
        (harness.directory / "a.py").write_text("x = 2\n")
        await harness.run("go on", model=MODEL, mode="auto", session_id=first.session_id)
        *_, third, fourth = bodies(provider)
        assert said_to(third)[-1] == (
            "<reminder>\nThese files changed since you last read them, perhaps by the user. The changes are intended:"
            " keep them, and view a file again before you rely on it or edit it.\n- a.py\n</reminder>\n\ngo on"
        )
        assert fourth["messages"][: len(third["messages"])] == third["messages"]
        assert said_to(fourth) == said_to(third)
        (harness.directory / "a.py").unlink()
        await harness.run("and now", model=MODEL, mode="auto", session_id=first.session_id)
        assert "- a.py (deleted)\n- b.py\n</reminder>" in said_to(bodies(provider)[-1])[-1]


async def test_the_instructions_of_a_directory_are_told_when_it_is_entered(tmp_path: Path) -> None:
    answers = (
        Answer((Call("view", {"path": "api/v1/a.py"}),)),
        Answer((Call("view", {"path": "api/v1/b.py"}),)),
        text("seen"),
    )
    async with open_provider_harness(tmp_path, *answers) as (harness, provider):
        (harness.directory / "api/v1").mkdir(parents=True)
        (harness.directory / "AGENTS.md").write_text("everywhere")
        (harness.directory / "api/AGENTS.md").write_text("use tabs")
        (harness.directory / "api/v1/CLAUDE.md").write_text("version one is frozen")
        secret = tmp_path / "secret.md"
        secret.write_text("private")
        (harness.directory / "api/v1/AGENTS.md").symlink_to(secret)
        for name in ("a.py", "b.py"):
            (harness.directory / "api/v1" / name).write_text("x = 1\n")
        first = await harness.run("look", model=MODEL)
        _, second, third = bodies(provider)
        told = said_to(second)[-1]
        assert told.index("use tabs") < told.index("version one is frozen")
        assert "everywhere" not in told
        assert "private" not in told
        assert said_to(third) == said_to(second)
        await harness.run("again", model=MODEL, session_id=first.session_id)
        assert said_to(bodies(provider)[-1])[-1] == "again"
        (harness.directory / "api/AGENTS.md").write_text("use spaces")
        await harness.run("once more", model=MODEL, session_id=first.session_id)
        last = said_to(bodies(provider)[-1])[-1]
        assert "use spaces" in last
        assert "were removed" not in last
        await harness.run("", session_id=first.session_id, kind="compact", model=MODEL)
        await harness.run("after it", model=MODEL, session_id=first.session_id)
        assert "use spaces" in said_to(bodies(provider)[-1])[-1], "a compaction forgets what was told"


async def test_the_end_of_a_job_is_told_unless_it_was_read(tmp_path: Path) -> None:
    answers = (
        Answer((Call("bash", {"command": WAITING, "background": True}),)),
        text("it runs"),
    )
    async with open_provider_harness(tmp_path, *answers) as (harness, provider):
        first = await harness.run("start it", model=MODEL, mode="auto")
        (harness.directory / "go").touch()
        await harness.until(JobFinished)
        workspace = await harness.app.open_workspaces.live(harness.workspace_id)
        (job,) = workspace.jobs.list()
        await workspace.jobs.read(job.id, session_id="another", wait=60)
        await harness.run("and?", model=MODEL, mode="auto", session_id=first.session_id)
        assert f"- {job.id} exited with code 3: {WAITING}" in said_to(bodies(provider)[-1])[-1]
        assert workspace.jobs.unseen_ends(first.session_id) == (job,)
        await workspace.jobs.read(job.id, session_id=first.session_id)
        assert workspace.jobs.unseen_ends(first.session_id) == ()
