"""Looks around for a turn: surroundings, instruction files and skills, as they are now."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from holdfast.agent.system_prompt import Gathered, Instructions, Skill, Surroundings
from holdfast.extend.instructions import read_instructions
from holdfast.extend.skills import read_skills
from holdfast.extend.workspace_facts import git_branch, git_status, platform_name
from holdfast.files import repository_root
from holdfast.ids import Clock
from holdfast.locations import Locations

SKILLS = Path(".holdfast") / "skills"


class DirectoryContextGatherer:
    """Of one directory. What only a trusted directory may have a say in is left out of others."""

    def __init__(self, directory: Path, locations: Locations, *, trusted: bool, clock: Clock) -> None:
        self._directory = directory
        self._locations = locations
        self._trusted = trusted
        self._clock = clock

    async def gather(self) -> Gathered:
        status = asyncio.create_task(self._status(), name="git status")
        try:
            branch, instructions, skills = await asyncio.to_thread(self._read)
        finally:
            shown = await status
        return Gathered(
            Surroundings(
                directory=str(self._directory),
                platform=platform_name(),
                date=time.strftime("%Y-%m-%d", time.localtime(self._clock())),
                git_branch=branch,
                git_status=shown,
            ),
            tuple(Instructions(path, text) for path, text in instructions),
            tuple(Skill(*skill) for skill in skills),
        )

    async def _status(self) -> str | None:
        return await git_status(self._directory) if self._trusted else None

    def _read(self) -> tuple[str | None, tuple[tuple[str, str], ...], tuple[tuple[str, str, str], ...]]:
        folders = [self._locations.skills_dir]
        if self._trusted:
            folders.append(repository_root(self._directory) / SKILLS)
        instructions = read_instructions(self._directory, user_file=self._locations.instructions_file)
        return git_branch(self._directory), instructions, read_skills(tuple(folders))
