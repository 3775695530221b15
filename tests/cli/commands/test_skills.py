"""`holdfast skills` and `holdfast commands`."""

import shutil
from collections.abc import Iterator

import pytest

from tests.cli.cli_shell import CliShell
from tests.cli.doc_examples import documented_file


@pytest.fixture(autouse=True)
def _own_files(sh: CliShell) -> Iterator[None]:
    """Each test has its own skills, commands and agents."""
    yield
    for folder in (*(sh.locations.config_dir / name for name in ("skills", "commands", "agents")), sh.work / ".claude"):
        shutil.rmtree(folder, ignore_errors=True)


def test_skills_are_listed_with_their_state(sh: CliShell) -> None:
    assert "there are no skills" in sh.ok("skills")
    for name, front_matter in (("good", "name: good\ndescription: Does good"), ("bad", "name: worse")):
        path = sh.locations.skills_dir / name / "SKILL.md"
        path.parent.mkdir(parents=True)
        path.write_text(f"---\n{front_matter}\n---\nbody\n")
    output = sh.ok("skills")
    assert "Does good" in output
    assert "must be the name of its folder, 'bad'" in output
    listed = sh("skills", "--json").json
    assert [(item["name"], item["state"]) for item in listed] == [("bad", "failed"), ("good", "ready")]
    assert "skill bad: failed" in sh.ok("doctor")


def test_commands_are_listed_and_called(sh: CliShell) -> None:
    folder = sh.locations.config_dir / "commands"
    folder.mkdir(parents=True)
    (folder / "greet.md").write_text("---\ndescription: Say hello\n---\n!say hello $1\n")
    (folder / "empty.md").write_text("")
    output = sh.ok("commands")
    assert "Say hello" in output
    assert "no text below" in output
    assert sh.ok("run", "/greet Ann").strip() == "hello Ann"


def test_agents_are_listed_with_where_they_come_from_and_an_unknown_one_is_refused(sh: CliShell) -> None:
    assert [line.split()[0] for line in sh.ok("agents").splitlines()] == ["NAME", "explore", "general"]
    assert sh.ok("agents").count("built in") == 2
    project = sh.work / ".claude/agents/theirs.md"
    project.parent.mkdir(parents=True)
    project.write_text("---\ndescription: Theirs\n---\nText\n")
    (theirs,) = (item for item in sh("agents", "--json").json if item["name"] == "theirs")
    assert (theirs["state"], theirs["source"]) == ("disabled", str(project))
    assert "not loaded: the directory is not trusted" in theirs["problem"]
    refused = sh("run", "--agent", "nobody", "hello")
    assert "there is no agent 'nobody'; agents: explore, general, main" in refused.err
    assert "'holdfast agents' lists them" in refused.err
    mistyped = sh("run", "/agnets")
    assert "there is no command /agnets" in mistyped.err
    assert refused.status == mistyped.status != 0


def test_the_documented_files_are_valid(sh: CliShell) -> None:
    for section, name, command in (
        ("Skills", "skills/release/SKILL.md", "skills"),
        ("Commands", "commands/fix-issue.md", "commands"),
        ("Agents", "agents/reviewer.md", "agents"),
    ):
        path = sh.locations.config_dir / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(documented_file(section))
        assert [item["state"] for item in sh(command, "--json").json if item["source"] == str(path)] == ["ready"]
    assert "CONTRIBUTING.md" in documented_file("Instructions")
