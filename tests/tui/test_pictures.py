"""The interface looks as in its pictures: scenes with a fixed clock, fixed ids and fixed sizes."""

import difflib
import re
from pathlib import Path

import pytest

from dev.record_tui import README_SCENE, ROOT, picture_of
from dev.screen_picture import lines_of
from dev.tui_scenes import SCENES, draw_scene


@pytest.mark.parametrize("name", SCENES)
async def test_the_interface_looks_as_in_the_picture(name: str, tmp_path: Path) -> None:
    drawn, path = await draw_scene(name), picture_of(name)
    expected = path.read_text("utf-8")
    if drawn != expected:
        seen = tmp_path / f"{name}.svg"
        seen.write_text(drawn, encoding="utf-8")
        changed = difflib.unified_diff(lines_of(expected), lines_of(drawn), "picture", "now", lineterm="", n=1)
        lines = "\n".join(changed) or "(only colours differ)"
        pytest.fail(
            f"the scene {name!r} does not look as in {path.relative_to(ROOT)}:\n{lines}\nIt looks as in {seen}. "
            f"If it should, run 'python -m dev.record_tui {name}', look at the picture and commit it.",
            pytrace=False,
        )


def test_every_picture_has_a_scene_and_the_readme_shows_one() -> None:
    pictures = {path.stem for path in (ROOT / "tests" / "tui" / "pictures").glob("*.svg")}
    assert pictures == set(SCENES) - {README_SCENE}
    shown = re.search(r"!\[[^]]+\]\(docs/tui\.svg\)", (ROOT / "README.md").read_text("utf-8"))
    assert shown is not None
