"""Instruction files, skills and surroundings are read in a fixed order, and reading runs nothing."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from holdfast.extend.instructions import MAX_FILE, read_instructions
from holdfast.extend.skills import read_skills
from holdfast.extend.workspace_facts import git_branch, git_status
from holdfast.files import repository_root


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    subprocess.run(["git", "init", "-q", "-b", "trunk", tmp_path], check=True)
    (tmp_path / "pkg").mkdir()
    return tmp_path


def test_files_are_read_from_the_person_and_the_root_down(repository: Path, tmp_path: Path) -> None:
    mine = repository / "mine.md"
    mine.write_text("mine")
    (repository / "AGENTS.md").write_text("root")
    (repository / ".cursor/rules").mkdir(parents=True)
    (repository / ".cursor/rules/b.mdc").write_text("rule b")
    (repository / ".cursor/rules/a.md").write_text("rule a")
    (repository / "pkg/CLAUDE.md").write_text("below")
    texts = [text for _, text in read_instructions(repository / "pkg", user_file=mine)]
    assert texts == ["mine", "root", "rule a", "rule b", "below"]


def test_nothing_above_the_repository_is_read(repository: Path) -> None:
    inner = repository / "pkg"
    subprocess.run(["git", "init", "-q", inner], check=True)
    (repository / "AGENTS.md").write_text("outer")
    assert repository_root(inner) == inner
    assert read_instructions(inner, user_file=None) == ()


def test_the_same_text_under_two_names_counts_once(repository: Path) -> None:
    (repository / "AGENTS.md").write_text("same")
    (repository / "CLAUDE.md").symlink_to("AGENTS.md")
    assert len(read_instructions(repository, user_file=None)) == 1


def test_odd_files_do_not_stop_a_run(repository: Path) -> None:
    (repository / "AGENTS.md").mkdir()
    (repository / "CLAUDE.md").write_bytes(b"\xff\xfe" + b"x" * MAX_FILE)
    ((_, text),) = read_instructions(repository, user_file=repository / "absent")
    assert len(text) <= MAX_FILE


def test_skills_need_a_description_and_the_later_folder_wins(tmp_path: Path) -> None:
    for folder, words in (("user", "first"), ("project", "second")):
        skill = tmp_path / folder / "release" / "SKILL.md"
        skill.parent.mkdir(parents=True)
        skill.write_text(f"---\nname: release\ndescription: {words}\n---\nbody")
    (tmp_path / "user/empty").mkdir()
    (tmp_path / "user/empty/SKILL.md").write_text("no front matter")
    found = read_skills((tmp_path / "user", tmp_path / "project", tmp_path / "absent"))
    assert found == (("release", "second", str(tmp_path / "project/release/SKILL.md")),)


def test_the_branch_is_read_without_running_git(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert git_branch(repository / "pkg") == "trunk"
    assert git_branch(Path("/")) is None


async def test_the_status_is_short_and_runs_no_monitor_of_the_repository(repository: Path) -> None:
    trap = repository / "trap"
    subprocess.run(["git", "-C", repository, "config", "core.fsmonitor", f"touch {trap}"], check=True)
    for number in range(30):
        (repository / f"f{number:02}").write_text("x")
    status = await git_status(repository)
    assert status is not None
    assert status.splitlines()[0] == "?? f00"
    assert status.splitlines()[-1] == "… and 10 more"
    assert not trap.exists()
    assert await git_status(Path("/")) is None
