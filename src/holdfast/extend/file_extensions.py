"""The skills, commands and agents of a workspace, as their files say now."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Literal

from msgspec.structs import replace

from holdfast.config import Config
from holdfast.extend.agent_files import AgentFile, read_agents
from holdfast.extend.command_files import CommandFile, command_name, read_commands
from holdfast.extend.front_matter import MarkdownFiles, SourceFolder, find_files
from holdfast.extend.skills import SkillFile, read_skills, skill_paths
from holdfast.extend.source_folders import FileKind, project_folders, source_folders
from holdfast.files import FolderSearch, repository_root
from holdfast.locations import Locations
from holdfast.schema.base import Value
from holdfast.schema.extensions import ExtensionKind, ExtensionState, ExtensionStatus

_KINDS: Mapping[FileKind, Literal["skill", "command", "agent"]] = {
    "skills": "skill",
    "commands": "command",
    "agents": "agent",
}


class ExtensionFiles(Value, frozen=True):
    """What the files say. Those that cannot be used have a `problem`."""

    skills: tuple[SkillFile, ...] = ()
    commands: tuple[CommandFile, ...] = ()
    agents: tuple[AgentFile, ...] = ()
    untrusted: tuple[tuple[FileKind, str], ...] = ()
    """Folders of a project that is not trusted. Nothing in them is read."""

    @property
    def usable_skills(self) -> tuple[SkillFile, ...]:
        return tuple(skill for skill in self.skills if not skill.problem)

    @property
    def usable_commands(self) -> tuple[CommandFile, ...]:
        return tuple(command for command in self.commands if not command.problem)

    @property
    def usable_agents(self) -> tuple[AgentFile, ...]:
        return tuple(agent for agent in self.agents if not agent.problem and not agent.is_disabled)

    def statuses(self) -> list[ExtensionStatus]:
        found = [
            *(_status("skill", f.name, f.path, f.problem, f.description) for f in self.skills),
            *(_status("command", f.name, f.path, f.problem, f.description) for f in self.commands),
            *(
                _status("agent", f.name, f.path, f.problem, f.settings.description, is_disabled=f.is_disabled)
                for f in self.agents
            ),
        ]
        untrusted = "the directory is not trusted; 'holdfast trust' lets it use its own files"
        found += [
            ExtensionStatus(_KINDS[kind], folder, "disabled", untrusted, folder) for kind, folder in self.untrusted
        ]
        return found


class _ExtensionPlaces:
    """The folders in which files are looked for. Most of them do not exist, so finding that out is cheap."""

    def __init__(
        self,
        key: tuple[Path, bool],
        folders: Mapping[FileKind, tuple[SourceFolder, ...]],
        of_project: tuple[tuple[FileKind, Path], ...],
    ) -> None:
        self.key = key
        """The root of the repository, and whether the directory is trusted."""
        self._folders = folders
        self._of_project = of_project
        self._search = FolderSearch(folder.path for found in folders.values() for folder in found)
        self._project_search = FolderSearch(path for _, path in of_project)

    def existing(self) -> dict[FileKind, tuple[SourceFolder, ...]]:
        found = self._search.existing()
        return {
            kind: tuple(folder for folder in folders if folder.path in found) if found else ()
            for kind, folders in self._folders.items()
        }

    def existing_of_project(self) -> tuple[tuple[FileKind, str], ...]:
        found = self._project_search.existing()
        return tuple((kind, str(path)) for kind, path in self._of_project if path in found) if found else ()


class FileExtensions:
    """Reads the files of one workspace. They are looked at each time, and read again only if they changed.

    Implements `ExtensionProvider`.
    """

    def __init__(
        self,
        directory: Path,
        locations: Locations,
        *,
        env: Mapping[str, str],
        announce: Callable[[ExtensionStatus], Awaitable[None]] | None = None,
    ) -> None:
        """``announce`` is told each state that changed since the files were read for the first time."""
        self._directory = directory
        self._announce = announce
        self._told: dict[tuple[ExtensionKind, str], ExtensionStatus] | None = None
        self._locations = locations
        self._env = env
        self._files = MarkdownFiles()
        self._places: _ExtensionPlaces | None = None
        self.found = ExtensionFiles()
        """As they were when they were last read."""

    def read(self, *, trusted: bool, root: Path | None = None) -> ExtensionFiles:
        """Read what changed. ``root``: that of the repository, if the caller knows it. Blocking."""
        places = self._places_in(root or repository_root(self._directory), trusted=trusted)
        folders = places.existing()
        self.found = ExtensionFiles(
            read_skills(folders["skills"], self._files),
            read_commands(folders["commands"], self._files),
            read_agents(folders["agents"], self._files),
            () if trusted else places.existing_of_project(),
        )
        return self.found

    def _places_in(self, root: Path, *, trusted: bool) -> _ExtensionPlaces:
        """Where to look. Several threads may ask at once, so what is kept is never incomplete."""
        kept = self._places
        if kept is None or kept.key != (root, trusted):
            folders = {
                kind: source_folders(kind, self._directory, locations=self._locations, env=self._env, trusted=trusted)
                for kind in _KINDS
            }
            of_project = [(kind, folder.path) for kind in _KINDS for folder in project_folders(kind, self._directory)]
            kept = self._places = _ExtensionPlaces((root, trusted), folders, tuple(of_project))
        return kept

    def find_untrusted(self, kind: FileKind) -> dict[str, str]:
        """The paths, by name, of what a project that is not trusted would add. Nothing in them is read. Blocking."""
        if not any(found == kind for found, _ in self.found.untrusted):
            return {}
        return {
            name: str(path) for folder in project_folders(kind, self._directory) for name, path in _names(kind, folder)
        }

    async def refresh(self, config: Config, *, trusted: bool) -> None:
        await asyncio.to_thread(self.read, trusted=trusted)
        await self.announce_changes()

    async def announce_changes(self) -> None:
        """Announce what changed since the last time. Call it after `read`."""
        now = {(status.kind, status.name): status for status in self.found.statuses()}
        before, self._told = self._told, now
        if before is None or before == now or self._announce is None:
            return
        for key, status in now.items():
            if before.get(key) != status:
                await self._announce(status)
        for key in before.keys() - now.keys():
            await self._announce(replace(before[key], state="disabled", detail="it was removed"))

    def statuses(self) -> list[ExtensionStatus]:
        return self.found.statuses()

    async def close(self) -> None:
        """Nothing of it runs."""


def _names(kind: FileKind, folder: SourceFolder) -> list[tuple[str, Path]]:
    if kind == "skills":
        return [(path.parent.name, path) for path in skill_paths(folder.path)]
    product = folder.product if kind == "commands" else "opencode"  # agents in folders have names with a slash
    return [(command_name(path.relative_to(folder.path), product=product), path) for path in find_files(folder.path)]


def _status(
    kind: Literal["skill", "command", "agent"],
    name: str,
    path: str,
    problem: str,
    description: str,
    *,
    is_disabled: bool = False,
) -> ExtensionStatus:
    state: ExtensionState = "failed" if problem else "disabled" if is_disabled else "ready"
    return ExtensionStatus(kind, name, state, problem or description, path)
