"""Instruction files are read in a fixed order, and reading them runs nothing."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from holdfast.extend.instructions import MAX_FILE_BYTES, entered_instructions, find_instructions, read_instructions
from holdfast.files import repository_root


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    subprocess.run(["git", "init", "-q", "-b", "trunk", tmp_path], check=True)
    (tmp_path / "pkg").mkdir()
    return tmp_path


def test_the_users_file_comes_first_then_the_files_from_the_root_down(repository: Path, tmp_path: Path) -> None:
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


def test_a_repeated_text_is_returned_once(repository: Path) -> None:
    (repository / "AGENTS.md").write_text("same")
    (repository / "CLAUDE.md").symlink_to("AGENTS.md")
    assert len(read_instructions(repository, user_file=None)) == 1


def test_unusual_files_are_skipped_or_cut(repository: Path) -> None:
    (repository / "AGENTS.md").mkdir()
    (repository / "CLAUDE.md").write_bytes(b"\xff\xfe" + b"x" * MAX_FILE_BYTES)
    ((_, text),) = read_instructions(repository, user_file=repository / "absent")
    assert len(text) <= MAX_FILE_BYTES


def test_a_link_that_leaves_the_repository_is_not_read(
    repository: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "secret.md").write_text("private")
    (repository / "AGENTS.md").symlink_to(elsewhere / "secret.md")
    (repository / ".cursor").symlink_to(elsewhere)
    (elsewhere / "rules").mkdir()
    (elsewhere / "rules" / "a.md").write_text("private rule")
    (repository / "real.md").write_text("inside")
    (repository / "CLAUDE.md").symlink_to("real.md")
    (repository / "pkg" / "AGENTS.md").symlink_to("AGENTS.md")  # a loop
    assert read_instructions(repository / "pkg", user_file=None) == ((str(repository / "CLAUDE.md"), "inside"),)
    found = find_instructions(repository / "pkg")
    assert found.read == (str(repository / "CLAUDE.md"),)
    assert found.ignored == (str(repository / "AGENTS.md"), str(repository / ".cursor/rules/a.md"))


def test_the_users_own_file_may_be_a_link(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    dotfiles = tmp_path_factory.mktemp("dotfiles")
    (dotfiles / "mine.md").write_text("mine")
    (dotfiles / "AGENTS.md").symlink_to("mine.md")
    assert read_instructions(repository, user_file=dotfiles / "AGENTS.md") == ((str(dotfiles / "AGENTS.md"), "mine"),)


def test_instructions_of_entered_folders_are_read_but_not_those_of_dependencies_and_ignored_files(
    repository: Path,
) -> None:
    (repository / ".gitignore").write_text("build/\n")
    folders = [repository / name for name in ("pkg/inner", "pkg", "node_modules/x", "build/y", "pkg/vendor")]
    for folder in folders:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "AGENTS.md").write_text(f"for {folder.name}")
        (folder / "CLAUDE.md").symlink_to("AGENTS.md")
    assert [text for _, text in entered_instructions(repository, folders)] == ["for pkg", "for inner"]


def test_imports_are_read_once_after_the_file_that_names_them(repository: Path) -> None:
    (repository / "docs").mkdir()
    (repository / "AGENTS.md").write_text(
        "See @docs/style.md, (@README) and `@docs/code.md`.\n```\n@docs/code.md\n```\n"
    )
    (repository / "docs/style.md").write_text("style\n@more.md\n@../AGENTS.md")
    (repository / "docs/more.md").write_text("more @style.md")
    (repository / "docs/code.md").write_text("not imported")
    (repository / "README").write_text("readme, me@example.org, @absent")
    found = read_instructions(repository, user_file=None)
    assert [Path(path).relative_to(repository).as_posix() for path, _ in found] == [
        *("AGENTS.md", "docs/style.md", "docs/more.md", "README"),
    ]
    (entered,) = entered_instructions(repository, [repository / "docs"]) or ((None, None),)
    assert entered == (None, None)  # docs has no instruction file of its own


def test_imports_are_bounded(repository: Path) -> None:
    for number in range(12):
        (repository / f"f{number}.md").write_text(f"{number} @f{number + 1}.md")
    (repository / "AGENTS.md").write_text("@f0.md")
    assert len(read_instructions(repository, user_file=None)) == 6
    (repository / "AGENTS.md").write_text(" ".join(f"@g{number}.md" for number in range(40)))
    for number in range(40):
        (repository / f"g{number}.md").write_text(f"g {number}")
    assert len(read_instructions(repository, user_file=None)) == 21


def test_imports_leave_the_repository_only_if_it_is_trusted_and_never_read_env_files_or_links(
    repository: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "notes.md").write_text("private notes")
    (elsewhere / "id_rsa").write_text("private key")
    (repository / ".env").write_text("KEY=1")
    (repository / "link.md").symlink_to(elsewhere / "id_rsa")
    text = f"@{elsewhere}/notes.md @{elsewhere}/id_rsa @.env @link.md @/etc/passwd"
    (repository / "AGENTS.md").write_text(text)
    assert [found for _, found in read_instructions(repository, user_file=None)] == [text]
    trusted = [found for _, found in read_instructions(repository, user_file=None, trusted=True)]
    assert trusted == [text, "private notes"]
    (repository / "AGENTS.md").unlink()
    mine = elsewhere / "AGENTS.md"
    mine.write_text("@notes.md @id_rsa")
    assert [found for _, found in read_instructions(repository, user_file=mine)] == [
        "@notes.md @id_rsa",
        "private notes",
    ]
