"""A workspace with files, and its approver."""

from pathlib import Path

import pytest

from holdfast.approvals.decision import Approver, Verdict
from holdfast.approvals.rules import Rules
from holdfast.approvals.workspace_paths import WorkspacePaths
from holdfast.schema.approvals import Subject
from holdfast.schema.runs import Mode


def make_project(root: Path) -> Path:
    """Create a small project with symlinks that leave it, and a file whose name looks like an option."""
    (root / "src" / "deep").mkdir(parents=True)
    (root / "odd").mkdir()
    (root / ".git" / "hooks").mkdir(parents=True)
    for name in ("README.md", "src/a.py", "src/b.py", "odd/-rf", "odd/x", "notes.txt"):
        (root / name).write_text("text\n")
    (root / "out").symlink_to("/etc")
    (root / "links").mkdir()
    (root / "links" / "hosts.py").symlink_to("/etc/hosts")
    return root


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    return make_project((tmp_path / "project").resolve())


@pytest.fixture
def paths(workspace: Path, home: Path) -> WorkspacePaths:
    home = home.resolve()
    return WorkspacePaths(root=str(workspace), home=str(home), own_directories=(str(home / ".config" / "holdfast"),))


@pytest.fixture
def approver(paths: WorkspacePaths) -> Approver:
    return Approver(paths)


def decide(
    approver: Approver,
    subject: Subject,
    *,
    mode: Mode = "ask",
    rules: Rules,
    trusted: bool = True,
    interactive: bool = True,
    read_only: bool = False,
) -> Verdict:
    return approver.decide(
        subject, mode=mode, rules=rules, trusted=trusted, interactive=interactive, read_only=read_only
    )
