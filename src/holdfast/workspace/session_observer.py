"""Looks at what a session works with: its files, jobs and directories. Implements the agent's `SessionObserver`."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from holdfast.agent.reminders import ChangedFile, Observations
from holdfast.agent.summary_text import files_of_call
from holdfast.agent.system_prompt import Instructions
from holdfast.errors import ToolError
from holdfast.extend.instructions import entered_instructions
from holdfast.schema.messages import File, ToolCall
from holdfast.tools.files.file_access import ABSENT, content_hash, display_path, hash_file, read_file, resolve_path
from holdfast.workspace.open_workspace import OpenWorkspace

_MAX_FILES = 8
_MAX_WATCHED = 500
"""How many of the files that a session has read are looked at."""
_MAX_CACHED = 5_000
_LOOK_SECONDS = 2.0
_COMMANDS = frozenset({"bash", "job_output", "job_kill", "agent"})
"""Calls during which the agent itself may change files without a file tool."""


class WorkspaceObserver:
    """The `SessionObserver` of one session."""

    def __init__(self, workspace: OpenWorkspace, session_id: str, *, trusted: bool = False) -> None:
        """``trusted``: instruction files may import files outside the repository."""
        self._workspace = workspace
        self._trusted = trusted
        self._session_id = session_id
        self._expected: dict[str, str] = {}
        """The states of files that commands of this turn made."""
        self._seen_directories: set[str] = set()
        """The directories of files that the session read, in and outside the workspace."""
        self._entered_directories: set[str] = set()
        """Those and their parents, below the workspace's own directory."""
        self._named_directories: set[str] = set()
        """The directories of files that calls named."""
        self._instructions: tuple[Instructions, ...] = ()
        """Of all entered directories. They are returned every time, because a compaction forgets what was told."""
        self._looked_at = time.monotonic()
        """When the files were looked at. A session whose turn begins without a look has read none yet."""
        self._ran_command = False
        """Whether the agent ran a command since the files were looked at."""

    async def observe(self, *, calls: Sequence[ToolCall]) -> Observations:
        """Return what happened. Files that changed while a command of the agent ran are not news during this turn.

        The files are looked at when a turn begins, when a directory is entered, and else at most every few seconds.
        """
        self._ran_command = self._ran_command or any(call.name in _COMMANDS for call in calls)
        changed: tuple[ChangedFile, ...] = ()
        entered = self._enters_directory(calls)
        if not calls or entered or time.monotonic() - self._looked_at >= _LOOK_SECONDS:
            changed = await self._look_at_files()
        jobs = self._workspace.jobs.unseen_ends(self._session_id)
        return Observations(ended_jobs=jobs, changed_files=changed, entered_instructions=self._instructions)

    def _enters_directory(self, calls: Sequence[ToolCall]) -> bool:
        """Return whether a call names a file in a directory that no call has named before."""
        named = {
            os.path.dirname(os.path.normpath(os.path.join(self._workspace.path, path)))
            for call in calls
            for path in files_of_call(call)
        }
        new = named - self._named_directories
        self._named_directories |= new
        return bool(new)

    async def _look_at_files(self) -> tuple[ChangedFile, ...]:
        self._looked_at = time.monotonic()
        ran_command, self._ran_command = self._ran_command, False
        read = await self._workspace.shared.store.read_hashes(self._session_id)
        if not read:
            return ()
        return await asyncio.to_thread(self._look, read[:_MAX_WATCHED], ran_command=ran_command)

    def _look(self, read: Sequence[tuple[str, str]], *, ran_command: bool) -> tuple[ChangedFile, ...]:
        changed: list[ChangedFile] = []
        for path, expected in read:
            state = self._state_of(path)
            if state in (None, expected) or self._expected.get(path) == state:
                continue
            assert state is not None
            if ran_command:
                self._expected[path] = state
            else:
                changed.append(ChangedFile(display_path(Path(path), self._workspace.path), state))
        self._read_instructions(path for path, _ in read)
        return tuple(changed)

    def _state_of(self, path: str) -> str | None:
        """Return the hash of a file; None if it cannot be read. An unchanged file is not read again."""
        try:
            found = os.stat(path)
            stamp = (found.st_ino, found.st_mtime_ns, found.st_size)
        except (FileNotFoundError, NotADirectoryError):
            return ABSENT
        except OSError:
            return None
        hashes = self._workspace.read_states
        cached = hashes.get(path)
        if cached is None or cached[0] != stamp:
            try:
                cached = (stamp, hash_file(Path(path)))
            except ToolError:
                return None
            if len(hashes) >= _MAX_CACHED:
                hashes.clear()
            hashes[path] = cached
        return cached[1]

    def _read_instructions(self, files: Iterable[str]) -> None:
        """Read the instructions of the directories that the session entered, each once in a turn."""
        new = {os.path.dirname(file) for file in files} - self._seen_directories
        if new:
            self._seen_directories |= new
            root = str(self._workspace.path)
            entered: set[Path] = set()
            for directory in new:
                while directory.startswith(f"{root}/") and directory not in self._entered_directories:
                    self._entered_directories.add(directory)
                    entered.add(Path(directory))
                    directory = os.path.dirname(directory)
            found = entered_instructions(self._workspace.path, entered, trusted=self._trusted)
            self._instructions += tuple(Instructions(path, text) for path, text in found)

    async def read_files(self, paths: Sequence[str], *, characters: int) -> tuple[File, ...]:
        known = dict(await self._workspace.shared.store.read_hashes(self._session_id))
        return await asyncio.to_thread(self._read_files, paths, known, characters)

    def _read_files(self, paths: Sequence[str], known: Mapping[str, str], characters: int) -> tuple[File, ...]:
        found: dict[Path, File] = {}
        for named in paths:
            if len(found) == _MAX_FILES or characters <= 0:
                break
            try:
                path = resolve_path(named, self._workspace.path)
                data = None if path in found or str(path) not in known else read_file(path, limit=4 * characters)
            except ToolError:
                continue
            if data is None or content_hash(data) != known[str(path)]:
                continue
            text = _decode(data)
            if text is not None and len(text) <= characters:
                name = display_path(path, self._workspace.path)
                found[path] = File(name, "text/plain", text=self._workspace.redactor.redact(text))
                characters -= len(text)
        return tuple(found.values())


def _decode(data: bytes) -> str | None:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text
