"""`holdfast skills` and `holdfast commands`."""

from tests.cli.cli_shell import CliShell
from tests.cli.doc_examples import documented_file


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
