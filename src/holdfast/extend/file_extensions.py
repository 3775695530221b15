"""The skills, commands and agents of a workspace, as their files say now."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from holdfast.config import Config
from holdfast.extend.agent_files import AgentFile
from holdfast.extend.command_files import CommandFile, read_commands
from holdfast.extend.front_matter import MarkdownFiles
from holdfast.extend.skills import SkillFile, read_skills
from holdfast.extend.source_folders import FileKind, project_folders, source_folders
from holdfast.locations import Locations
from holdfast.schema.base import Value
from holdfast.schema.extensions import ExtensionState, ExtensionStatus

_KINDS: Mapping[FileKind, Literal["skill", "command", "agent"]] = {
    "skills": "skill",
    "commands": "command",
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


class FileExtensions:
    """Reads the files of one workspace. They are looked at each time, and read again only if they changed.

    Implements `ExtensionProvider`.
    """

    def __init__(self, directory: Path, locations: Locations, *, env: Mapping[str, str]) -> None:
        self._directory = directory
        self._locations = locations
        self._env = env
        self._files = MarkdownFiles()
        self.found = ExtensionFiles()
        """As they were when they were last read."""

    def read(self, *, trusted: bool) -> ExtensionFiles:
        """Read what changed. Blocking."""
        folders = {
            kind: source_folders(kind, self._directory, locations=self._locations, env=self._env, trusted=trusted)
            for kind in _KINDS
        }
        self.found = ExtensionFiles(
            read_skills(folders["skills"], self._files),
            read_commands(folders["commands"], self._files),
            untrusted=() if trusted else self._untrusted_folders(),
        )
        return self.found

    def _untrusted_folders(self) -> tuple[tuple[FileKind, str], ...]:
        return tuple(
            (kind, str(folder.path))
            for kind in _KINDS
            for folder in project_folders(kind, self._directory)
            if folder.path.is_dir()
        )

    async def refresh(self, config: Config, *, trusted: bool) -> None:
        await asyncio.to_thread(self.read, trusted=trusted)

    def statuses(self) -> list[ExtensionStatus]:
        return self.found.statuses()

    async def close(self) -> None:
        """Nothing of it runs."""


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
