"""Skills: validated by the standard, from all folders."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.extend.front_matter import MarkdownFiles, SourceFolder
from holdfast.extend.skills import SkillFile, read_skills, skill_files
from holdfast.extend.source_folders import source_folders
from holdfast.locations import Locations


def write_skill(folder: Path, name: str, text: str) -> Path:
    path = folder / name / "SKILL.md"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    return path


def read(*folders: Path) -> tuple[SkillFile, ...]:
    return read_skills(tuple(SourceFolder(folder, "user") for folder in folders), MarkdownFiles())


def test_a_later_folder_overrides_an_earlier_one_but_not_with_a_bad_skill(tmp_path: Path) -> None:
    for folder, words in (("user", "first"), ("project", "second")):
        write_skill(tmp_path / folder, "release", f"---\nname: release\ndescription: {words}\n---\nbody")
    write_skill(tmp_path / "last", "release", "no front matter")
    (found,) = read(tmp_path / "user", tmp_path / "project", tmp_path / "last", tmp_path / "absent")
    assert (found.name, found.description, found.body) == ("release", "second", "body")
    assert found.path == str(tmp_path / "project/release/SKILL.md")


@pytest.mark.parametrize(
    ("front_matter", "words"),
    [
        ("description: x", "no 'name'"),
        ("name: Deploy-It\ndescription: x", "small letters, digits and single hyphens"),
        ("name: a--b\ndescription: x", "small letters, digits and single hyphens"),
        ("name: other\ndescription: x", "must be the name of its folder, 'deploy'"),
        ("name: deploy", "no 'description'"),
        (f"name: deploy\ndescription: {'x' * 1025}", "1,025 characters, at most 1,024"),
        (f"name: deploy\ndescription: x\ncompatibility: {'x' * 501}", "'compatibility' has 501 characters"),
        ("name: [deploy", "not YAML"),
    ],
)
def test_what_is_wrong_with_a_skill_is_said(front_matter: str, words: str, tmp_path: Path) -> None:
    write_skill(tmp_path, "deploy", f"---\n{front_matter}\n---\nbody")
    (found,) = read(tmp_path)
    assert found.name == "deploy"
    assert words in found.problem


def test_the_files_of_a_skill_are_listed(tmp_path: Path) -> None:
    path = write_skill(tmp_path, "pdf", "---\nname: pdf\ndescription: x\ndisable-model-invocation: true\n---\n")
    for name in ("scripts/fill.py", "reference.md", ".hidden", ".git/config"):
        (path.parent / name).parent.mkdir(exist_ok=True)
        (path.parent / name).touch()
    (found,) = read(tmp_path)
    assert not found.model_may_use
    assert skill_files(found) == ("reference.md", "scripts/fill.py")


def test_skills_of_all_agents_are_found_and_those_of_a_project_only_if_it_is_trusted(tmp_path: Path) -> None:
    home, work = tmp_path / "home", tmp_path / "work"
    (work / ".git").mkdir(parents=True)
    (work / "pkg").mkdir()
    locations = Locations.from_env({"HOLDFAST_HOME": str(tmp_path / "own")})
    of_user = [locations.skills_dir, home / ".agents/skills", home / ".claude/skills"]
    in_project = [work / f".{name}/skills" for name in ("agents", "claude", "cursor", "holdfast")]
    for number, folder in enumerate((*of_user, *in_project, work / "pkg/.claude/skills")):
        write_skill(folder, f"s{number}", f"---\nname: s{number}\ndescription: x\n---\n")

    def names(*, trusted: bool) -> list[str]:
        env = {"HOME": str(home)}
        folders = source_folders("skills", work / "pkg", locations=locations, env=env, trusted=trusted)
        return [skill.name for skill in read_skills(folders, MarkdownFiles())]

    assert names(trusted=False) == ["s0", "s1", "s2"]
    assert names(trusted=True) == [f"s{number}" for number in range(8)]
