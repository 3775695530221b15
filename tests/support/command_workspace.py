"""A workspace whose commands are covered by undo: real files, a real shadow store, and file records in memory."""

import asyncio
import os
import stat
import subprocess
from pathlib import Path
from typing import Any

from holdfast.workspace.undo.blob_store import BlobStore
from holdfast.workspace.undo.command_snapshots import CommandSnapshots
from holdfast.workspace.undo.restore import UndoReport
from holdfast.workspace.undo.tree_scan import TreeLimits
from tests.support.file_sessions import AT, FileWorkspace

LIMITS = TreeLimits(names=10_000)


class CommandWorkspace(FileWorkspace):
    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.snapshots_of_commands = self.reopen()

    def reopen(self) -> CommandSnapshots:
        """Begin as a new server on the same data."""
        self.blobs.close()
        self.blobs = BlobStore(self.snapshots)
        self.snapshots_of_commands = CommandSnapshots(
            self.directory,
            self.records,
            self.blobs,
            workspace_id="wsp_1",
            new_id=self.new_id,
            now=lambda: AT,
            redact=str,
        )
        return self.snapshots_of_commands

    async def begin(self, *, session_id: str = "ses_1", run_id: str = "run_1", limits: TreeLimits = LIMITS) -> str:
        call_id = self.new_id("call")
        await self.snapshots_of_commands.begin(session_id=session_id, run_id=run_id, call_id=call_id, limits=limits)
        return call_id

    async def end(self, call_id: str) -> tuple[str, ...]:
        return await self.snapshots_of_commands.end(call_id)

    async def command(self, line: str, **about: Any) -> tuple[str, ...]:
        """Run a command that is covered. Returns the files that it changed."""
        call_id = await self.begin(**about)
        await asyncio.to_thread(subprocess.run, ["bash", "-ec", line], cwd=self.directory, check=True)
        return tuple(sorted(await self.end(call_id)))

    async def undo(self, *runs: str, confirmed: bool = True) -> UndoReport:
        runs = runs or ("run_1",)
        return await self.restorer().undo("ses_1", run_id="run_undo", runs=runs, confirmed=runs if confirmed else ())

    async def redo(self, *runs: str) -> UndoReport:
        return await self.restorer().redo("ses_1", run_id="run_redo", runs=runs or ("run_1",))

    def state(self) -> dict[str, tuple[str, object, int]]:
        """Everything in the directory: kind, content or target, and permission bits."""
        found: dict[str, tuple[str, object, int]] = {}
        for path in self.directory.rglob("*"):
            status = path.lstat()
            mode = stat.S_IMODE(status.st_mode)
            name = str(path.relative_to(self.directory))
            if path.is_symlink():
                found[name] = ("link", os.readlink(path), 0)
            elif path.is_dir():
                found[name] = ("directory", None, 0)
            else:
                found[name] = ("file", path.read_bytes(), mode)
        return found
