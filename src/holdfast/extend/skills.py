"""Skills: folders with a ``SKILL.md`` whose front matter gives a name and a description."""

from __future__ import annotations

from pathlib import Path

MAX_SKILLS = 64
_MAX_HEAD = 8 * 1024
_MAX_DESCRIPTION = 400


def read_skills(folders: tuple[Path, ...]) -> tuple[tuple[str, str, str], ...]:
    """(name, description, path) by name; the later folder wins."""
    found: dict[str, tuple[str, str, str]] = {}
    for folder in folders:
        for path in sorted(folder.glob("*/SKILL.md")):
            head = _front_matter(path)
            name = head.get("name") or path.parent.name
            if description := head.get("description", ""):
                found[name] = (name, description[:_MAX_DESCRIPTION], str(path))
    return tuple(found[name] for name in sorted(found))[:MAX_SKILLS]


def _front_matter(path: Path) -> dict[str, str]:
    """The plain ``key: value`` lines between two ``---`` lines."""
    try:
        with path.open("rb") as file:
            text = file.read(_MAX_HEAD).decode("utf-8", "replace")
    except OSError:
        return {}
    lines = text.splitlines()
    if not lines or lines[0].strip() != "---":
        return {}
    fields: dict[str, str] = {}
    for line in lines[1:]:
        if line.strip() == "---":
            return fields
        key, colon, value = line.partition(":")
        if colon:
            fields[key.strip()] = value.strip().strip("'\"")
    return {}
