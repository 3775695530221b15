"""Draw the scenes of the terminal interface: ``python -m dev.record_tui [NAME…]``.

Tests compare the interface with these pictures. Look at a picture before you commit it.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from dev.tui_scenes import SCENES, draw_scene

ROOT = Path(__file__).parents[1]
README_SCENE = "wide"


def picture_of(name: str) -> Path:
    """Where the picture of a scene is. The README shows one of them."""
    if name == README_SCENE:
        return ROOT / "docs" / "tui.svg"
    return ROOT / "tests" / "tui" / "pictures" / f"{name}.svg"


def main() -> None:
    for name in sys.argv[1:] or SCENES:
        if name not in SCENES:
            raise SystemExit(f"there is no scene {name!r}; there are: {', '.join(SCENES)}")
        path = picture_of(name)
        path.parent.mkdir(exist_ok=True)
        before = path.read_text("utf-8") if path.exists() else None
        drawn = asyncio.run(draw_scene(name))
        path.write_text(drawn, encoding="utf-8")
        state = "new" if before is None else "unchanged" if before == drawn else "changed"
        print(f"{path.relative_to(ROOT)}: {state}")


if __name__ == "__main__":
    main()
