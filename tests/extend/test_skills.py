from __future__ import annotations

from pathlib import Path

from holdfast.extend.skills import read_skills


def test_a_skill_needs_a_description_and_a_later_folder_overrides_an_earlier_one(tmp_path: Path) -> None:
    for folder, words in (("user", "first"), ("project", "second")):
        skill = tmp_path / folder / "release" / "SKILL.md"
        skill.parent.mkdir(parents=True)
        skill.write_text(f"---\nname: release\ndescription: {words}\n---\nbody")
    (tmp_path / "user/empty").mkdir()
    (tmp_path / "user/empty/SKILL.md").write_text("no front matter")
    found = read_skills((tmp_path / "user", tmp_path / "project", tmp_path / "absent"))
    assert found == (("release", "second", str(tmp_path / "project/release/SKILL.md")),)
