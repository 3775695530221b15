"""Commands in files of several agents."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.extend.command_files import CommandFile, command_name, read_commands
from holdfast.extend.front_matter import MarkdownFiles, SourceFolder
from holdfast.extend.source_folders import source_folders
from holdfast.locations import Locations
from holdfast.schema.runs import narrower_mode


def read(folder: Path, product: str = "holdfast") -> dict[str, CommandFile]:
    return {file.name: file for file in read_commands((SourceFolder(folder, "user", None, product),), MarkdownFiles())}


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_the_front_matter_of_claude_code_is_understood(tmp_path: Path) -> None:
    write(
        tmp_path / "git/commit.md",
        "---\nallowed-tools: Bash(git add:*), Bash(git status:*)\nargument-hint: [message]\n"
        "description: Create a commit\nmodel: inherit\n---\n\nCommit with $1\n",
    )
    command = read(tmp_path, "claude")["commit"]
    assert (command.description, command.argument_hint, command.model) == ("Create a commit", "[message]", "")
    assert command.tools == ("Bash(git add:*)", "Bash(git status:*)")
    assert command.template == "Commit with $1"


def test_the_front_matter_of_opencode_is_understood(tmp_path: Path) -> None:
    write(tmp_path / "team/review.md", "---\ndescription: Look\nagent: plan\nmodel: a/b#high\n---\nReview")
    write(tmp_path / "test.md", "---\nagent: build\n---\n# Run the tests\n\nand fix them")
    found = read(tmp_path, "opencode")
    assert (found["team/review"].mode, found["team/review"].model, found["team/review"].agent) == ("plan", "a/b", "")
    assert (found["test"].mode, found["test"].description) == (None, "Run the tests")


def test_names_follow_the_product_and_crush_names_arguments(tmp_path: Path) -> None:
    assert command_name(Path("git/commit.md"), product="crush") == "git:commit"
    write(tmp_path / "issue.md", "Look at $ISSUE")
    assert read(tmp_path, "crush")["issue"].names_arguments
    assert not read(tmp_path)["issue"].names_arguments


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("a", "---\ndescription: x\n---\n  \n", "no text below"),
        ("a", "---\nmode: wild\n---\nx", "there is no mode 'wild'; use one of plan, ask"),
        ("a", "---\nx: [\n---\nx", "not YAML"),
        ("a b", "text", "must be of letters, digits"),
    ],
)
def test_what_is_wrong_with_a_command_is_said(name: str, text: str, words: str, tmp_path: Path) -> None:
    write(tmp_path / f"{name}.md", text)
    assert words in read(tmp_path)[name].problem


def test_a_command_only_narrows_the_mode() -> None:
    assert narrower_mode("plan", than="auto") == "plan"
    assert narrower_mode("auto", than="ask") == "ask"
    assert narrower_mode(None, than="accept_edits") == "accept_edits"


def test_the_folders_of_all_agents_are_read_and_those_of_a_project_only_if_it_is_trusted(tmp_path: Path) -> None:
    home, work = tmp_path / "home", tmp_path / "work"
    (work / ".git").mkdir(parents=True)
    locations = Locations.from_env({"HOLDFAST_HOME": str(tmp_path / "own")})
    names = ("crush/commands", "opencode/command", "opencode/commands")
    of_user = [*(home / ".config" / name for name in names), home / ".crush/commands", home / ".claude/commands"]
    in_project = [work / f".{name}" for name in (*names, "claude/commands", "holdfast/commands")]
    folders = [*of_user, locations.config_dir / "commands", *in_project]
    for number, folder in enumerate(folders):
        write(folder / f"c{number:02}.md", "text")
        write(folder / "same.md", folder.as_posix())

    def find(*, trusted: bool) -> dict[str, CommandFile]:
        found = source_folders("commands", work, locations=locations, env={"HOME": str(home)}, trusted=trusted)
        return {file.name: file for file in read_commands(found, MarkdownFiles())}

    assert sorted(find(trusted=False)) == [*(f"c{number:02}" for number in range(6)), "same"]
    assert sorted(find(trusted=True)) == [*(f"c{number:02}" for number in range(11)), "same"]
    assert find(trusted=True)["same"].template == str(work / ".holdfast/commands")
    assert find(trusted=False)["same"].template == str(locations.config_dir / "commands")
