"""`holdfast review`."""

import os
import subprocess

import pytest

from tests.cli.cli_shell import CliShell


def git(sh: CliShell, *arguments: str) -> None:
    identity = ("-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *identity, *arguments], cwd=sh.work, check=True, capture_output=True)


@pytest.fixture(scope="module", autouse=True)
def repository(sh: CliShell) -> None:
    git(sh, "init", "-q", "-b", "main")
    (sh.work / "a.py").write_text("x = 1\n")
    git(sh, "add", ".")
    git(sh, "commit", "-qm", "the first")


def test_a_commit_is_reviewed_with_its_diff_and_nothing_can_be_changed(sh: CliShell) -> None:
    told = sh.ok("review", "--commit", "HEAD", "and !echo it")
    assert told.startswith("Review the commit HEAD (")
    assert "Change nothing" in told
    assert "The user asks especially: and !echo it" in told
    assert '<file name="changes.diff">' in told
    assert "+x = 1" in told
    result = sh("review", "--commit", "HEAD", "--json", "!write made.txt").json
    assert not (sh.work / "made.txt").exists()
    assert result["state"] == "completed"


def test_the_work_tree_needs_trust_or_a_diff_on_stdin(sh: CliShell) -> None:
    (sh.work / "a.py").write_text("x = 2\n")
    refused = sh("review")
    assert refused.status == 2
    assert "not trusted" in refused.err
    sh.ok("trust")
    assert "+x = 2" in sh.ok("review", "!echo it")
    assert "+y" in sh.ok("review", "-", "!echo it", given="--- a\n+++ b\n+y\n")
    git(sh, "checkout", "-q", "a.py")
    assert "there are no changes" in sh("review").err


def test_mistakes_are_told(sh: CliShell) -> None:
    assert "git knows no commit 'none_such'" in sh("review", "--commit", "none_such").err
    assert sh("review", "--commit", "HEAD", "--branch", "main").status == 2
    without = {**os.environ, "PATH": str(sh.work)}
    assert "'gh' is not installed" in sh("review", "--pr", "17", env=without).err
