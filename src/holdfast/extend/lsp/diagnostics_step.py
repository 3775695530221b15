"""Adds to the result of an edit what language servers say about it. An `EditStep`."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path

from holdfast.errors import ToolError
from holdfast.extend.lsp.diagnostic_diff import (
    FileProblem,
    ProblemChanges,
    compare_problems,
    describe_changes,
    describe_unknown,
)
from holdfast.extend.lsp.language_server import EditedFile, FileCheck, LanguageServer
from holdfast.extend.lsp.message_framing import LanguageServerError
from holdfast.extend.lsp.server_pool import LanguageServers
from holdfast.tools.after_edit.edit_steps import EditPhase
from holdfast.tools.files.file_changes import clean_text
from holdfast.tools.protocol import ToolContext
from holdfast.tools.text.text_file import decode_text

_GRACE_SECONDS = 5.0
"""The step ends by itself when the wait is over; the limit of all steps is only for a bug in it."""


class DiagnosticsStep:
    name = "diagnostics"
    phase: EditPhase = "check"

    def __init__(self, servers: LanguageServers, *, wait: float) -> None:
        self._servers = servers
        self._wait = wait
        self.seconds = wait + _GRACE_SECONDS
        self._told: set[str] = set()

    async def run(self, paths: tuple[Path, ...], context: ToolContext) -> str:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._wait
        edits = await self._edits(paths, context)
        if not edits:
            return ""
        tasks = {
            loop.create_task(server.check_edits(files), name=f"lsp:{server.name}:check"): server
            for server, files in edits.items()
        }
        try:
            await asyncio.wait(tasks, timeout=max(0.0, deadline - loop.time()))
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
        checks: list[FileCheck] = []
        notes, names = [], []
        for task, server in tasks.items():
            if task.cancelled():
                notes.append(self._describe_missing(server))
            elif error := task.exception():
                notes.append(self._describe_failure(error))
            else:
                names.append(server.name)
                checks += task.result()
        text = await asyncio.to_thread(_describe, checks, names)
        return clean_text(context, "\n".join(part for part in (text, *notes) if part))

    async def _edits(self, paths: Iterable[Path], context: ToolContext) -> dict[LanguageServer, list[EditedFile]]:
        found: dict[LanguageServer, list[EditedFile]] = {}
        for path in paths:
            servers = await self._servers.servers_for(path, context.settings, context.environment)
            if not servers:
                continue
            try:
                after = await self._servers.read_text(path)
            except ToolError:
                continue  # binary, too large, or gone again
            content = await context.files.content_before(path)
            before = None if content is None else await asyncio.to_thread(decode_text, content)
            edit = EditedFile(path, before.text if before else None, after, is_new=content is None)
            for server in servers:
                found.setdefault(server, []).append(edit)
        return found

    def _describe_missing(self, server: LanguageServer) -> str:
        if server.state == "starting":
            return f"[{server.name} is still starting; its diagnostics are missing here, call diagnostics to get them]"
        return f"[{server.name} did not answer within {self._wait:g} s; call diagnostics to get its diagnostics]"

    def _describe_failure(self, error: BaseException) -> str:
        """Say why a server has no diagnostics, once in a run."""
        if not isinstance(error, LanguageServerError):
            raise error
        if error.message in self._told:
            return ""
        self._told.add(error.message)
        return f"[{error.message}]"


def _describe(checks: list[FileCheck], servers: list[str]) -> str:
    changes: list[ProblemChanges] = []
    unknown: list[FileProblem] = []
    for check in checks:
        if check.before is None:
            unknown += check.after
        else:
            old_text, new_text = check.old_text, check.new_text
            changes.append(compare_problems(check.before, check.after, old_text=old_text, new_text=new_text))
    parts = (describe_changes(changes, servers), describe_unknown(unknown, servers))
    return "\n".join(part for part in parts if part)
