"""What is left out of searches: as git and ripgrep see it, plus our own ignore file."""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.tools.search.ignore_rules import IgnoreRules, walk_tree
from holdfast.tools.search.ripgrep import ripgrep_command


def _make(root: Path, files: Mapping[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def _left(root: Path, start: str = "") -> list[str]:
    entries = walk_tree(root, start, IgnoreRules(root, open_path=start))
    return sorted(entry.relative for entry in entries if not entry.is_dir)


@pytest.mark.parametrize(
    ("pattern", "ignored", "kept"),
    [
        ("*.log", ["a.log", "x/b.log"], ["a.txt"]),
        ("/top", ["top"], ["x/top"]),
        ("build/", ["build/a", "x/build/b"], ["y/build"]),
        ("doc/*.txt", ["doc/a.txt"], ["doc/x/a.txt", "x/doc/a.txt"]),
        ("**/gen", ["gen", "x/y/gen"], ["regen"]),
        ("a/**/b", ["a/b", "a/x/b", "a/x/y/b"], ["b"]),
        ("out/**", ["out/a", "out/x/b"], ["x/out/a"]),
        ("*.tmp\n!keep.tmp", ["a.tmp"], ["keep.tmp", "x/keep.tmp"]),
        ("logs/\n!logs/keep", ["logs/keep"], []),
        ("# comment\n\n  \n", [], ["# comment"]),
        (r"\#hash" + "\n" + r"\!bang", ["#hash", "!bang"], ["hash"]),
        ("space \nkept\\ ", ["space", "kept "], ["space "]),
        ("[ab].c", ["a.c", "b.c"], ["c.c"]),
        ("*.py[cod]\r\n", ["a.pyc"], ["a.py"]),
        ("/", [], ["a"]),
        ("[z-a]\nreal", ["real"], ["z"]),
        ("foo", ["foo/x/y", "x/foo"], ["food"]),
    ],
)
def test_patterns_are_git_s(tmp_path: Path, pattern: str, ignored: list[str], kept: list[str]) -> None:
    for name in [*ignored, *kept]:  # one tree each: some names are a file in one and a directory in the other
        root = _make(tmp_path / name.replace("/", "_"), {name: "", ".gitignore": pattern})
        assert (name in _left(root)) == (name in kept), name


def test_a_rule_further_down_wins_and_holds_only_there(tmp_path: Path) -> None:
    root = _make(
        tmp_path,
        {
            ".gitignore": "*.gen\n",
            "a/.gitignore": "!x.gen\n/only\n",
            "a/x.gen": "",
            "b/x.gen": "",
            "only": "",
            "a/only": "",
        },
    )
    assert _left(root) == [".gitignore", "a/.gitignore", "a/x.gen", "only"]


def test_our_own_file_adds_to_git_s_and_brings_nothing_of_it_back(tmp_path: Path) -> None:
    root = _make(
        tmp_path,
        {
            ".gitignore": "secret\n!fixtures.json\n",
            ".holdfastignore": "*.json\n!keep.json\n!secret\n",
            "x/.holdfastignore": "/here\n",
            **dict.fromkeys(["secret", "fixtures.json", "keep.json", "x/here", "here"], ""),
        },
    )
    assert _left(root) == [".gitignore", ".holdfastignore", "here", "keep.json", "x/.holdfastignore"]


def test_a_project_under_a_directory_called_build_still_has_files(tmp_path: Path) -> None:
    _make(tmp_path, {".gitignore": "build/\n"})
    root = _make(tmp_path / "build" / "project", {"main.py": "", "build/out.o": "", ".gitignore": "build/\n"})
    assert _left(root) == [".gitignore", "main.py"]


def test_a_directory_that_was_asked_for_by_name_is_shown_even_if_ignored(tmp_path: Path) -> None:
    root = _make(tmp_path, {".gitignore": "vendor/\n*.o\n", "vendor/lib/a.c": "", "vendor/lib/a.o": ""})
    assert _left(root) == [".gitignore"]
    assert _left(root, "vendor/lib") == ["vendor/lib/a.c"]


def test_a_repository_inside_starts_afresh(tmp_path: Path) -> None:
    root = _make(tmp_path, {".gitignore": "*.o\n", "sub/.git": "gitdir: x", "sub/a.o": "", "a.o": ""})
    assert _left(root) == [".gitignore", "sub/a.o"]


def test_repositories_own_files_and_files_in_the_making_are_never_shown(tmp_path: Path) -> None:
    root = _make(tmp_path, {".git/config": "", ".holdfast-0123456789abcdef.tmp": "", ".github/ci.yml": ""})
    assert _left(root) == [".github/ci.yml"]


def test_an_ignore_file_that_is_no_file_has_no_rules(tmp_path: Path) -> None:
    root = _make(tmp_path, {"a": "", "d/b": ""})
    os.mkfifo(root / ".gitignore")
    (root / "d/.gitignore").symlink_to("/dev/zero")
    assert _left(root) == [".gitignore", "a", "d/.gitignore", "d/b"]


_NAMES = st.sampled_from(["a", "b", "a.o", "b.o", "doc", ".x"])
_PATHS = st.lists(_NAMES, min_size=1, max_size=4).map("/".join)
_PATTERNS = st.builds(
    lambda bang, lead, body, tail: f"{bang}{lead}{body}{tail}",
    st.sampled_from(["", "", "", "!"]),
    st.sampled_from(["", "", "/", "**/"]),
    st.lists(
        st.sampled_from(["a", "b", "*.o", "*", "a*", "?", "[ab]", "doc", "**", ".x", "*b*"]), min_size=1, max_size=3
    ).map("/".join),
    st.sampled_from(["", "", "/", "/**"]),
)
_IGNORE_FILES = st.lists(_PATTERNS, min_size=1, max_size=4).map("\n".join)


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(
    paths=st.sets(_PATHS, min_size=1, max_size=12),
    top=_IGNORE_FILES,
    below=st.dictionaries(_PATHS, _IGNORE_FILES, max_size=2),
)
def test_git_and_ripgrep_leave_out_the_same_files(
    tmp_path_factory: pytest.TempPathFactory, paths: set[str], top: str, below: dict[str, str]
) -> None:
    root = tmp_path_factory.mktemp("tree")
    (root / ".gitignore").write_text(top)
    for name in sorted(paths):
        try:
            _make(root, {name: ""})
        except (FileExistsError, NotADirectoryError, IsADirectoryError):
            continue  # a file is where this path needs a directory
    for directory, text in below.items():
        if (root / directory).is_dir():
            (root / directory / ".gitignore").write_text(text)
    assert _left(root) == _as_git_sees_it(root)
    assert _left(root) == _as_ripgrep_sees_it(root)


def _as_git_sees_it(root: Path) -> list[str]:
    git = ["git", "-C", str(root)]
    subprocess.run([*git, "init", "-q"], check=True)
    listed = subprocess.run(
        [*git, "ls-files", "-z", "--others", "--exclude-per-directory=.gitignore"],
        check=True,
        capture_output=True,
        text=True,
    )
    return sorted(listed.stdout.split("\0")[:-1])


def _as_ripgrep_sees_it(root: Path) -> list[str]:
    command = ripgrep_command(os.environ, root, workspace=root)
    assert command is not None
    listed = subprocess.run(
        [*command, "--files", "--null", "--", "./"], cwd=root, capture_output=True, text=True, check=False
    )
    return sorted(name.removeprefix("./") for name in listed.stdout.split("\0")[:-1])
