"""The changes of a repository as a diff."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from holdfast.errors import BadRequest
from holdfast.workspace.git_diff import branch_diff, commit_diff, work_tree_diff


def git(directory: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *identity, *arguments], cwd=directory, check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    git(tmp_path, "init", "-q", "-b", "main")
    (tmp_path / "a.py").write_text("x = 1\n")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "the first")
    return tmp_path


async def test_the_work_tree_with_new_files(repository: Path) -> None:
    assert (await work_tree_diff(repository)).text == ""
    (repository / "a.py").write_text("x = 2\n")
    git(repository, "add", ".")
    (repository / "new.py").write_text("y = 1\n")
    found = await work_tree_diff(repository)
    assert "-x = 1\n+x = 2\n" in found.text
    assert found.text.endswith("New files that are not tracked; view them:\nnew.py\n")


async def test_a_repository_without_a_commit(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "-b", "main")
    (tmp_path / "a.py").write_text("x = 1\n")
    git(tmp_path, "add", ".")
    assert "+x = 1\n" in (await work_tree_diff(tmp_path)).text
    with pytest.raises(BadRequest, match="no commit 'HEAD'"):
        await commit_diff(tmp_path, "HEAD")


async def test_a_commit_and_a_branch(repository: Path) -> None:
    git(repository, "switch", "-qc", "topic")
    (repository / "a.py").write_text("x = 3\n")
    git(repository, "commit", "-qam", "the second")
    commit = await commit_diff(repository, "HEAD")
    assert commit.title.startswith("the commit HEAD (")
    assert "the second" in commit.text
    assert "+x = 3\n" in commit.text
    for base in (None, "main"):
        branch = await branch_diff(repository, base)
        assert branch.title == "the commits of this branch since main"
        assert "the second" in branch.text
        assert "+x = 3\n" in branch.text


@pytest.mark.parametrize("revision", ["none_such", "--output=made", "-p", "HEAD:a.py", "a b"])
async def test_what_is_no_commit_is_refused(repository: Path, revision: str) -> None:
    with pytest.raises(BadRequest, match="git knows no commit"):
        await commit_diff(repository, revision)
    with pytest.raises(BadRequest, match="git knows no commit"):
        await branch_diff(repository, revision)
    assert not (repository / "made").exists()


async def test_a_directory_without_a_repository_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match="is not in a git repository"):
        await work_tree_diff(tmp_path)


async def test_programs_of_the_repository_do_not_run_and_a_long_diff_is_cut(repository: Path) -> None:
    made = repository / "made"
    for key in ("core.fsmonitor", "diff.external", "core.pager", "diff.x.textconv", "diff.x.command"):
        git(repository, "config", key, f"touch {made}; cat")
    (repository / ".gitattributes").write_text("*.py diff=x\n")
    (repository / "a.py").write_text("line\n" * 300_000)
    found = await work_tree_diff(repository)
    assert len(found.text) < 600_000
    assert "[cut here:" in found.text
    git(repository, "-c", "core.fsmonitor=false", "-c", "core.pager=cat", "commit", "-qam", "long", "--no-verify")
    made.unlink(missing_ok=True)
    await commit_diff(repository, "HEAD")
    assert not made.exists()
