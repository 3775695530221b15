"""A repository is harmless only if all its settings are known and it has no submodules."""

import os
import subprocess
from pathlib import Path

import pytest

from holdfast.approvals.git_repository import OVERRIDDEN, repository_at, why_git_may_run_programs
from holdfast.tools.process.git_environment import neutral_git_environment


def _git(directory: Path, *words: str) -> None:
    environment = {"PATH": os.environ["PATH"], "HOME": str(directory.parent), "GIT_CONFIG_NOSYSTEM": "1"}
    subprocess.run(["git", *words], cwd=directory, env=environment, check=True, capture_output=True, timeout=60)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    directory = (tmp_path / "repository").resolve()
    directory.mkdir()
    _git(directory, "init", "-q")
    _git(directory, "config", "user.name", "n")
    _git(directory, "config", "user.email", "n@example.org")
    _git(directory, "remote", "add", "origin", "https://example.org/x.git")
    for number in range(20):
        (directory / f"{'file' * number}{number}").write_text("text\n")
    _git(directory, "add", ".")
    _git(directory, "commit", "-q", "-m", "first")
    return directory


def test_an_ordinary_repository_names_no_programs(repository: Path) -> None:
    assert why_git_may_run_programs(str(repository)) is None
    (repository / "deep" / "er").mkdir(parents=True)
    assert why_git_may_run_programs(str(repository / "deep" / "er")) is None


@pytest.mark.parametrize(
    "key",
    [
        *("core.worktree", "diff.x.textconv", "diff.x.command", "diff.external", "filter.x.clean"),
        *("core.attributesFile", "include.path", "includeIf.gitdir:/.path", "core.fsmonitor.x", "credential.x.helper"),
        *("extensions.worktreeConfig", "lfs.extension.x.clean", "pager.status", "submodule.x.ignore", "pretty.x"),
    ],
)
def test_a_setting_that_is_not_known_to_be_harmless_is_named(repository: Path, key: str) -> None:
    _git(repository, "config", key, "./x")
    found = why_git_may_run_programs(str(repository))
    assert found is not None
    assert key.lower() in found.lower()


def test_settings_that_the_environment_overrides_run_nothing(repository: Path) -> None:
    environment = neutral_git_environment({"PATH": os.environ["PATH"], "HOME": str(repository.parent)})
    count = int(environment["GIT_CONFIG_COUNT"])
    assert {environment[f"GIT_CONFIG_KEY_{number}"].lower() for number in range(count)} >= OVERRIDDEN
    program = repository.parent / "program"
    program.write_text(f"#!/bin/sh\ntouch {repository.parent}/canary\n")
    program.chmod(0o755)
    hooks = repository.parent / "hooks"
    hooks.mkdir()
    for name in ("post-index-change", "post-checkout", "reference-transaction"):
        (hooks / name).symlink_to(program)
    for key in sorted(OVERRIDDEN):
        value = {"core.hookspath": str(hooks), "diff.submodule": "log"}.get(key, str(program))
        is_flag = key.partition(".")[2] in ("recurse", "submodulesummary", "autorefreshindex", "auto", "showsignature")
        _git(repository, "config", key, "true" if is_flag else value)
    assert why_git_may_run_programs(str(repository)) is None
    (repository / "0").write_text("changed\n")
    for words in (("status",), ("diff",), ("log", "-p", "-1"), ("show", "HEAD"), ("branch", "-a"), ("stash", "list")):
        subprocess.run(["git", *words], cwd=repository, env=environment, check=True, capture_output=True, timeout=60)
    assert not (repository.parent / "canary").exists()
    _git(repository, "status")
    assert (repository.parent / "canary").exists()  # so the settings do run the program elsewhere


@pytest.mark.parametrize(
    "text",
    [
        "[core] fsmonitor = x",
        "[core.x]\nfsmonitor = x",
        "[core]\nbare = \\\nfalse",
        "\ufeff[core]\nbare = false",
        '[core "x\\"]"]\na = b',
        "[core]\nbare = true",
    ],
)
def test_a_file_of_settings_that_is_not_understood_is_refused(repository: Path, text: str) -> None:
    (repository / ".git" / "config").write_text(text)
    assert why_git_may_run_programs(str(repository)) is not None


def test_submodules_are_refused(repository: Path) -> None:
    head = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=repository, capture_output=True, text=True, check=True, timeout=60
    ).stdout.strip()
    _git(repository, "update-index", "--add", "--cacheinfo", f"160000,{head},sub")
    assert why_git_may_run_programs(str(repository)) == "its repository has submodules"


@pytest.mark.parametrize("version", ["4", "3", "2"])
def test_an_index_of_another_version_is_read_or_refused(repository: Path, version: str) -> None:
    _git(repository, "update-index", "--index-version", version)
    assert (why_git_may_run_programs(str(repository)) is None) is (version != "4")


def test_a_split_index_is_refused(repository: Path) -> None:
    _git(repository, "update-index", "--split-index")
    assert why_git_may_run_programs(str(repository)) == "its repository has submodules"


@pytest.mark.parametrize("name", ["commondir", "config.worktree", "objects/info/alternates"])
def test_a_repository_that_shares_files_is_refused(repository: Path, name: str) -> None:
    path = repository / ".git" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("x")
    assert why_git_may_run_programs(str(repository)) is not None


def test_a_repository_elsewhere_is_refused(repository: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / ".git").write_text(f"gitdir: {repository}/.git\n")
    assert why_git_may_run_programs(str(other)) is not None
    (other / ".git").unlink()
    (other / ".git").symlink_to(repository / ".git")
    assert why_git_may_run_programs(str(other)) is not None


def test_the_repository_that_git_would_use_is_found(repository: Path) -> None:
    assert repository_at(str(repository)) == str(repository / ".git")
    bare = repository / "bare"
    for name in ("objects", "refs", "deep"):
        (bare / name).mkdir(parents=True)
    (bare / "HEAD").write_text("ref: refs/heads/main\n")
    assert repository_at(str(bare / "deep")) == str(bare)
    assert why_git_may_run_programs(str(bare)) is not None
