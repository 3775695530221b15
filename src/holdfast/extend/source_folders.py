"""The folders with skills, commands and agents: our own and those of other agents, of the user and of a project.

Where two files have the same name, the later folder wins: the project's over the user's, and Holdfast's own over those
of other agents.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from holdfast.extend.front_matter import SourceFolder
from holdfast.files import repository_root
from holdfast.locations import Locations

FileKind = Literal["skills", "commands", "agents"]

_IN_PROJECT: Mapping[FileKind, tuple[tuple[str, str], ...]] = {
    "skills": (
        (".cursor/skills", "cursor"),
        (".claude/skills", "claude"),
        (".agents/skills", "agents"),
        (".holdfast/skills", "holdfast"),
    ),
    "commands": (
        (".crush/commands", "crush"),
        (".opencode/command", "opencode"),
        (".opencode/commands", "opencode"),
        (".claude/commands", "claude"),
        (".holdfast/commands", "holdfast"),
    ),
    "agents": (
        (".opencode/agent", "opencode"),
        (".opencode/agents", "opencode"),
        (".claude/agents", "claude"),
        (".holdfast/agents", "holdfast"),
    ),
}
_OF_USER: Mapping[FileKind, tuple[tuple[str, str], ...]] = {
    "skills": (("~/.claude/skills", "claude"), ("~/.agents/skills", "agents")),
    "commands": (
        ("config/crush/commands", "crush"),
        ("~/.crush/commands", "crush"),
        ("config/opencode/command", "opencode"),
        ("config/opencode/commands", "opencode"),
        ("~/.claude/commands", "claude"),
    ),
    "agents": (
        ("config/opencode/agent", "opencode"),
        ("config/opencode/agents", "opencode"),
        ("~/.claude/agents", "claude"),
    ),
}
"""``config/`` stands for the directory of the XDG specification."""


def source_folders(
    kind: FileKind, directory: Path, *, locations: Locations, env: Mapping[str, str], trusted: bool
) -> tuple[SourceFolder, ...]:
    """The folders of a kind, in the order in which they are read. Those of a project only if it is trusted."""
    folders = [SourceFolder(path, "user", product=product) for path, product in user_folders(kind, env)]
    folders.append(SourceFolder(locations.config_dir / kind, "user"))
    return (*folders, *project_folders(kind, directory)) if trusted else tuple(folders)


def user_folders(kind: FileKind, env: Mapping[str, str]) -> list[tuple[Path, str]]:
    """The user's folders of other agents, with the name of the agent."""
    home = env.get("HOME", "")
    if not home.startswith("/"):
        return []
    given = env.get("XDG_CONFIG_HOME", "")
    config = Path(given) if given.startswith("/") else Path(home, ".config")
    return [
        (Path(home, name[2:]) if name.startswith("~/") else config / name.removeprefix("config/"), product)
        for name, product in _OF_USER[kind]
    ]


def project_folders(kind: FileKind, directory: Path) -> list[SourceFolder]:
    """The folders of a project, from the repository's root down to the directory."""
    root = repository_root(directory)
    inside = root.resolve()
    below = [directory, *directory.parents]
    return [
        SourceFolder(parent / name, "project", inside, product)
        for parent in reversed(below[: below.index(root) + 1])
        for name, product in _IN_PROJECT[kind]
    ]
