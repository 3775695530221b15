"""A workspace to decide about."""

from pathlib import Path

import pytest

from holdfast.approvals.approver import Approver
from holdfast.approvals.path_location import Places


def make_project(root: Path) -> Path:
    """A small project with symlinks out of it, and a file whose name looks like an option."""
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
def places(workspace: Path, home: Path) -> Places:
    home = home.resolve()
    return Places(workspace=str(workspace), home=str(home), own=(str(home / ".config" / "holdfast"),))


@pytest.fixture
def approver(places: Places) -> Approver:
    return Approver(places)
