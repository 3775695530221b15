"""Gathers the context of a turn: the date, platform and git state, instruction files and skills, as they are now."""

from __future__ import annotations

import asyncio
import os
import platform
import time
from collections.abc import Awaitable
from pathlib import Path

import msgspec
from msgspec.structs import replace

from holdfast.agent.system_prompt import (
    Instructions,
    OfferedAgent,
    PromptContext,
    ServerInstructions,
    Skill,
    Surroundings,
)
from holdfast.errors import BadRequest
from holdfast.extend.file_extensions import FileExtensions
from holdfast.extend.instructions import read_instructions
from holdfast.extend.mcp.mcp_servers import McpServers
from holdfast.extend.memory import memory_files_of, read_memory_text
from holdfast.files import Repository, find_program, repository_root
from holdfast.ids import Clock
from holdfast.locations import Locations
from holdfast.tasks import CallThreads
from holdfast.tools.process.git_environment import neutral_git_environment
from holdfast.tools.process.subprocess_end import kill_and_reap

_MAX_SKILLS = 64
_MAX_DESCRIPTION = 400
"""Characters of the description of a skill or agent that every session is told."""
_MAX_STATUS_LINES = 20
_GIT_SECONDS = 2.0


class DirectoryFacts(msgspec.Struct, frozen=True):
    """What only a read of the directory tells."""

    git_branch: str | None
    git_status: str | None
    instructions: tuple[tuple[str, str], ...]
    """Paths and texts."""


class DirectoryContextGatherer:
    """Gathers the context of one directory. The git status is read only if it is trusted.

    ``files`` must be read before `gather`: by itself, or by `read_files`.
    """

    def __init__(
        self,
        directory: Path,
        locations: Locations,
        *,
        files: FileExtensions,
        mcp: McpServers,
        trusted: bool,
        clock: Clock,
        threads: CallThreads,
    ) -> None:
        """``threads`` read the files."""
        self._threads = threads
        self._directory = directory
        self._locations = locations
        self._files = files
        self._mcp = mcp
        self._trusted = trusted
        self._clock = clock

    @property
    def needs_git(self) -> bool:
        """Whether `read_directory` runs git."""
        return self._trusted

    async def read_files(self) -> DirectoryFacts:
        """Read ``files`` and what `read_directory` finds without git, in one go."""
        return await self._threads.call(self._read_files)

    def _read_files(self) -> DirectoryFacts:
        repository = Repository.of(self._directory)
        self._files.read(trusted=self._trusted, root=repository.root)
        return self._read(repository)

    async def read_directory(self, files: Awaitable[DirectoryFacts] | None = None) -> DirectoryFacts:
        """``files``: a result of `read_files` to come; None: read the directory now."""
        reading = files or self._threads.call(self._read)
        if not self.needs_git:
            return await reading
        status = asyncio.create_task(git_status(self._directory), name="git status")
        try:
            facts = await reading
            return replace(facts, git_status=await status)
        finally:
            if not status.done():
                status.cancel()
                await asyncio.wait((status,))

    async def gather(self, facts: DirectoryFacts | None = None) -> PromptContext:
        """``facts``: a result of `read_directory`; None: read the directory now."""
        facts = facts or await self.read_directory()
        files = self._files.found
        return PromptContext(
            Surroundings(
                directory=str(self._directory),
                platform=f"{platform.system()} {platform.release()} ({platform.machine()})",
                date=time.strftime("%Y-%m-%d", time.localtime(self._clock())),
                git_branch=facts.git_branch,
                git_status=facts.git_status,
            ),
            tuple(Instructions(path, text) for path, text in facts.instructions),
            tuple(
                Skill(skill.name, skill.description[:_MAX_DESCRIPTION], skill.path)
                for skill in files.usable_skills[:_MAX_SKILLS]
                if skill.model_may_use
            ),
            tuple(
                OfferedAgent(agent.name, agent.settings.description[:_MAX_DESCRIPTION])
                for agent in files.usable_agents
                if agent.is_subagent
            ),
            tuple(
                ServerInstructions(server.config.name, server.instructions)
                for server in self._mcp.servers
                if server.is_ready and server.instructions.strip()
            ),
        )

    def _read(self, repository: Repository | None = None) -> DirectoryFacts:
        user_file = self._locations.instructions_file
        repository = repository or Repository.of(self._directory)
        of_all, of_project = self._remembered(repository)
        read = read_instructions(self._directory, user_file=user_file, trusted=self._trusted, repository=repository)
        of_user = tuple(file for file in read if file[0] == str(user_file))
        instructions = (*of_user, *of_all, *(file for file in read if file not in of_user), *of_project)
        return DirectoryFacts(_branch_of(repository.root), None, instructions)

    def _remembered(self, repository: Repository) -> tuple[tuple[tuple[str, str], ...], tuple[tuple[str, str], ...]]:
        """Return the memory for all projects and for this one, as instruction files."""
        files = memory_files_of(self._locations.memory_dir, repository.real_root)
        return _memory(files.user), _memory(files.project)


def _memory(file: Path) -> tuple[tuple[str, str], ...]:
    try:
        text = read_memory_text(file)
    except BadRequest:
        return ()  # an unreadable file must not end the run; `holdfast memory` reports it
    return ((str(file), text),) if text.strip() else ()


def git_branch(directory: Path) -> str | None:
    """Read the branch from ``.git/HEAD``. No program is run."""
    return _branch_of(repository_root(directory))


def _branch_of(root: Path) -> str | None:
    git = root / ".git"
    if not os.path.lexists(git):
        return None
    try:
        if git.is_file():  # a linked work tree: the file names the git directory
            git = (git.parent / git.read_text().removeprefix("gitdir:").strip()).resolve()
        head = (git / "HEAD").read_text().strip()
    except (OSError, UnicodeDecodeError):
        return None
    return head.removeprefix("ref: refs/heads/") if head.startswith("ref:") else f"detached at {head[:12]}"


async def git_status(directory: Path) -> str | None:
    """Return the short status, limited in lines and time. Only for a trusted directory: git may run clean filters."""
    lines = await changed_files(directory)
    if lines is None:
        return None
    more = len(lines) - _MAX_STATUS_LINES
    return "\n".join(lines[:_MAX_STATUS_LINES] + ([f"… and {more} more"] if more > 0 else []))


async def changed_files(directory: Path) -> list[str] | None:
    """Return the lines of git's short status. Only for a trusted directory."""
    git = await asyncio.to_thread(find_program, "git", os.environ.get("PATH", os.defpath), outside=directory)
    if git is None:
        return None
    try:
        process = await asyncio.create_subprocess_exec(
            *(git, "status", "--short", "--ignore-submodules"),
            cwd=directory,
            env=neutral_git_environment(os.environ),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError:
        return None
    try:
        async with asyncio.timeout(_GIT_SECONDS):
            output, _ = await process.communicate()
    except TimeoutError:
        return None
    finally:
        if process.returncode is None:
            await kill_and_reap(process)
    if process.returncode != 0:
        return None
    return output.decode("utf-8", "replace").splitlines()
