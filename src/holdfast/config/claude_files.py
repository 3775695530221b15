"""The settings files of Claude Code from which hooks are read."""

from __future__ import annotations

from pathlib import Path

PROJECT_SETTINGS = (".claude/settings.json", ".claude/settings.local.json")
PROJECT_HOOKS = ".claude/hooks"
"""Where projects usually keep the programs of their hooks."""


def claude_settings_files(directory: Path, home: Path | None) -> tuple[Path, ...]:
    """The user's file and those of a directory, whether they exist or not."""
    users = (home / ".claude" / "settings.json",) if home is not None else ()
    return tuple(dict.fromkeys((*users, *(directory / name for name in PROJECT_SETTINGS))))
