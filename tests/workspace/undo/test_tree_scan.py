"""A look at a tree finds every change, also if only the directories that the kernel reports are looked at."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from holdfast.workspace.undo import tree_scan
from holdfast.workspace.undo.directory_watch import DirectoryWatch, open_watch
from holdfast.workspace.undo.file_state import FileState
from holdfast.workspace.undo.tree_scan import TreeChange, TreeLimits, TreeScanner, compose_changes

LIMITS = TreeLimits(names=1_000)

OPERATIONS = [
    "echo $RANDOM >a",
    "echo $RANDOM >d/a",
    "echo $RANDOM >d/e/a",
    "rm -rf d",
    "mkdir -p d/e f/e",
    "mkdir -p d/e && echo $RANDOM >d/e/b && rm -rf d && mkdir -p d/e && echo $RANDOM >d/e/b",
    "mkdir -p d/e f/e && echo $RANDOM >f/e/a && mv d t && mv f d && mv t f",
    "mkdir -p f && mv f d/",
    "mv d/e . && mv e f",
    "chmod 700 d/a",
    "rm -f a && mkdir -p a && echo x >a/x",
    "rm -rf a && echo $RANDOM >a",
    "echo '*.log' >.gitignore; echo x >x.log; echo x >d/y.log",
    "rm -f .gitignore",
    "mkdir -p d && echo 'e/' >d/.gitignore",
    "rm -f d/.gitignore",
    "ln -f a d/linked",
    "ln -sfn d link",
    "mkdir -p outside-then-in && mv outside-then-in d/in && echo x >d/in/z",
    "git init -q d 2>/dev/null",
]


def contents(scanner: TreeScanner) -> dict[str, FileState]:
    return {
        f"{relative}/{name}": file.state
        for relative, directory in scanner._tree.items()
        for name, file in directory.files.items()
    }


def run(root: Path, line: str) -> None:
    subprocess.run(["bash", "-c", line], cwd=root, check=False, stderr=subprocess.DEVNULL)


def new_scanner(root: Path) -> TreeScanner:
    return TreeScanner(root, LIMITS, store=lambda contents: None)


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)
@given(lines=st.lists(st.sampled_from(OPERATIONS), min_size=1, max_size=8))
@example([OPERATIONS[4], OPERATIONS[2], OPERATIONS[6], "echo x >d/e/new; echo y >f/e/new", OPERATIONS[5]])
@example([OPERATIONS[4], OPERATIONS[12], OPERATIONS[13], OPERATIONS[14], OPERATIONS[2], OPERATIONS[15]])
def test_looks_at_reported_directories_know_the_tree_as_a_look_at_everything(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str]
) -> None:
    root = tmp_path_factory.mktemp("tree").resolve()
    scanner = new_scanner(root)
    run(root, "mkdir -p d/e; echo 1 >a; echo 2 >d/a; echo 3 >d/e/a")
    scanner.scan()
    known = contents(scanner)
    for line in lines:
        run(root, line)
        changes, _ = scanner.scan()
        for change in compose_changes(changes).values():
            name = change.path if "/" in change.path else f"/{change.path}"
            assert known.get(name, FileState(None)) == change.before
        known = contents(scanner)
        fresh = new_scanner(root)
        fresh.scan()
        assert known == contents(fresh), line
        fresh.close()
    scanner.close()


@pytest.mark.skipif(sys.platform != "linux", reason="inotify is a part of Linux")
def test_an_unchanged_tree_is_not_looked_at_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scanner = new_scanner(tmp_path.resolve())
    for number in range(20):
        (tmp_path / f"d{number}").mkdir()
        (tmp_path / f"d{number}/a").write_text("x")
        os.utime(tmp_path / f"d{number}", ns=(0, 0))
    monkeypatch.setattr(tree_scan, "SETTLE_NS", -(10**18))  # everything counts as settled
    scanner.scan()
    visited: list[str] = []
    visit = scanner._scan_directory

    def count(relative: str, *arguments: object, **options: object) -> list[tuple[str, bool]]:
        visited.append(relative)
        return visit(relative, *arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(scanner, "_scan_directory", count)
    assert scanner.scan() == ([], {})
    assert visited == []
    (tmp_path / "d7/a").write_text("y")
    (change,) = scanner.scan()[0]
    assert (change.path, visited) == ("d7/a", ["d7"])


@pytest.mark.parametrize("how", ["no watch", "lost track", "no more directories"])
def test_without_a_report_of_the_kernel_everything_is_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    if how == "no watch":
        monkeypatch.setattr(tree_scan, "open_watch", lambda root: None)
    elif how == "lost track":
        monkeypatch.setattr(DirectoryWatch, "take_changed", lambda self: None)
    else:
        monkeypatch.setattr("holdfast.workspace.undo.directory_watch._MAX_DIRECTORIES", 2)
    for name in ("d/e/f/a", "d/b", "c"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("1")
    scanner = new_scanner(tmp_path.resolve())
    scanner.scan()
    for content in ("2", "3"):
        (tmp_path / "d/e/f/a").write_text(content)
        assert [change.path for change in scanner.scan()[0]] == ["d/e/f/a"]


@pytest.mark.skipif(sys.platform != "linux", reason="inotify is a part of Linux")
def test_a_watch_reports_the_directories_in_which_something_changed(tmp_path: Path) -> None:
    watch = open_watch(str(tmp_path))
    if watch is None:
        pytest.skip("changes here cannot be watched")
    (tmp_path / "d").mkdir()
    assert watch.add("")
    assert watch.add("d")
    assert watch.take_changed() == set()
    (tmp_path / "d/a").write_text("x")
    assert watch.take_changed() == {"d"}
    (tmp_path / "d/a").chmod(0o600)
    (tmp_path / "b").write_text("x")
    assert watch.take_changed() == {"", "d"}
    watch.close()


def test_changes_of_a_file_are_joined() -> None:
    one, two, gone = FileState("1", 0o644), FileState("2", 0o644), FileState(None)
    changes = [
        TreeChange("a", one, two),
        TreeChange("b", gone, one),
        TreeChange("a", two, gone),
        TreeChange("b", one, gone),
    ]
    assert compose_changes(changes) == {"a": TreeChange("a", one, gone)}


def test_excluded_directories_are_left_out_and_links_to_directories_are_not_followed(tmp_path: Path) -> None:
    root = tmp_path.resolve() / "work"
    (root / "own/data").mkdir(parents=True)
    (root / "d/e").mkdir(parents=True)
    (root / "d/e/a").write_text("x")
    (tmp_path / "outside/e").mkdir(parents=True)
    (tmp_path / "outside/e/secret").write_text("x")
    stored: dict[str, bytes] = {}
    scanner = TreeScanner(root, LIMITS, store=stored.update, excluded=[root / "own/data", tmp_path / "elsewhere"])
    scanner.scan()
    (root / "own/data/shadow.db").write_text("x")
    assert scanner.scan()[0] == []
    (root / "d").rename(root / "moved")
    (root / "d").symlink_to(tmp_path / "outside")
    assert {change.path for change in scanner.scan()[0]} == {"d/e/a", "moved/e/a", "d"}
    assert list(stored.values()) == [b"x"]
    scanner.close()
