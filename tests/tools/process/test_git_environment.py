"""Git runs nothing that a repository names, and writes nothing, in the neutral environment."""

import os
import subprocess
from pathlib import Path

import pytest

from holdfast.tools.process.git_environment import neutral_git_environment


def _environment(home: Path) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "HOME": str(home), "LC_ALL": "C"}


def _git(directory: Path, *words: str, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["git", *words], cwd=directory, env=environment, capture_output=True, text=True, timeout=60, check=False
    )


@pytest.fixture
def repository(tmp_path: Path, home: Path) -> Path:
    directory = tmp_path / "repository"
    directory.mkdir()
    environment = _environment(home)
    for words in (
        ("init", "-q"),
        ("config", "user.name", "n"),
        ("config", "user.email", "n@example.org"),
        ("commit", "-q", "--allow-empty", "-m", "first"),
    ):
        assert _git(directory, *words, environment=environment).returncode == 0
    (directory / "file").write_text("text\n")
    assert _git(directory, "add", "file", environment=environment).returncode == 0
    return directory


@pytest.mark.parametrize("key", ["core.fsmonitor", "core.pager", "core.sshCommand", "gpg.program", "credential.helper"])
def test_a_program_that_the_repository_names_is_not_run(repository: Path, home: Path, key: str) -> None:
    ran = repository.parent / "ran"
    _git(repository, "config", key, f"touch {ran};:", environment=_environment(home))
    _git(repository, "config", "log.showSignature", "true", environment=_environment(home))
    neutral = neutral_git_environment(_environment(home))
    for words in (("status",), ("log",), ("diff", "--cached"), ("ls-files",), ("fetch", "ssh://example.invalid/x")):
        _git(repository, *words, environment=neutral)
    assert not ran.exists()


def test_the_same_program_is_run_without_the_neutral_environment(repository: Path, home: Path) -> None:
    ran = repository.parent / "ran"
    _git(repository, "config", "core.fsmonitor", f"touch {ran};:", environment=_environment(home))
    _git(repository, "status", environment=_environment(home))
    assert ran.exists()


def test_hooks_are_not_run(repository: Path, home: Path) -> None:
    ran = repository.parent / "ran"
    hook = repository / ".git" / "hooks" / "pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {ran}\n")
    hook.chmod(0o755)
    _git(repository, "commit", "-q", "-m", "second", environment=neutral_git_environment(_environment(home)))
    assert not ran.exists()


def test_status_and_diff_leave_the_index_as_it_is(repository: Path, home: Path) -> None:
    neutral = neutral_git_environment(_environment(home))
    os.utime(repository / "file", (1, 1))
    before = (repository / ".git" / "index").stat()
    for words in (("status",), ("diff",), ("diff", "HEAD")):
        assert _git(repository, *words, environment=neutral).returncode == 0
    after = (repository / ".git" / "index").stat()
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)


def test_a_bare_repository_in_the_working_tree_is_not_used(repository: Path, home: Path) -> None:
    bare = repository / "bare"
    assert _git(repository, "init", "-q", "--bare", "bare", environment=_environment(home)).returncode == 0
    done = _git(bare, "status", environment=neutral_git_environment(_environment(home)))
    assert done.returncode != 0
    assert "safe.bareRepository" in done.stderr


def test_variables_that_choose_a_repository_or_a_program_are_removed() -> None:
    base = {"GIT_DIR": "/x", "GIT_EXTERNAL_DIFF": "./x", "GIT_TRACE": "/x", "GIT_CONFIG_GLOBAL": "/g", "HOME": "/h"}
    environment = neutral_git_environment(base)
    assert {"GIT_DIR", "GIT_EXTERNAL_DIFF", "GIT_TRACE"} & environment.keys() == set()
    assert environment["GIT_CONFIG_GLOBAL"] == "/g"
    assert environment["HOME"] == "/h"
