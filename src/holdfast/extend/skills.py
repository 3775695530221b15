"""Reads skills: folders with a ``SKILL.md`` whose front matter has a name and a description."""

from __future__ import annotations

from pathlib import Path

_MAX_SKILLS = 64
_MAX_FRONT_MATTER_BYTES = 8 * 1024
_MAX_DESCRIPTION_CHARACTERS = 400


def read_skills(folders: tuple[Path, ...]) -> tuple[tuple[str, str, str], ...]:
    """Return the name, description and path of each skill, ordered by name. A later folder overrides an earlier one."""
    found: dict[str, tuple[str, str, str]] = {}
    for folder in folders:
        for path in sorted(folder.glob("*/SKILL.md")):
            fields = _front_matter(path)
            name = fields.get("name") or path.parent.name
            if description := fields.get("description", ""):
                found[name] = (name, description[:_MAX_DESCRIPTION_CHARACTERS], str(path))
    return tuple(found[name] for name in sorted(found))[:_MAX_SKILLS]


def _front_matter(path: Path) -> dict[str, str]:
    """Return the ``key: value`` lines between two ``---`` lines."""
    try:
        with path.open("rb") as file:
            text = file.read(_MAX_FRONT_MATTER_BYTES).decode("utf-8", "replace")
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
