"""Workspaces with language servers, for tests of `extend/lsp`."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast.config.setting_types import Duration
from holdfast.config.settings import Settings, ToolSettings
from holdfast.extend.lsp.diagnostics_step import DiagnosticsStep
from holdfast.extend.lsp.language_server_process import ServerHost
from holdfast.extend.lsp.server_pool import LanguageServers
from holdfast.schema.extensions import ExtensionStatus
from holdfast.tools.after_edit.edit_steps import EditSteps
from holdfast.tools.edit import EditTool
from holdfast.tools.process.command_process import CommandLauncher
from holdfast.tools.protocol import Tool, ToolContext, ToolOutput
from holdfast.tools.write import WriteTool
from tests.support.file_sessions import FileSession, FileWorkspace

PATIENT = ToolSettings(lsp_wait=Duration(40), lsp_timeout=Duration(40))
"""A machine under load is slow; no test waits this long unless it fails."""


class LanguageWorkspace(FileWorkspace):
    """A workspace with language servers whose programs are in its ``.venv/bin``."""

    def __init__(self, directory: Path, launcher: CommandLauncher) -> None:
        super().__init__(directory)
        self.launcher = launcher
        self.settings = Settings(tools=PATIENT)
        self.statuses: list[ExtensionStatus] = []
        self._news = asyncio.Event()
        numbers = count(1)
        host = ServerHost(
            workspace=self.directory,
            launcher=launcher,
            private=directory / "private" / "lsp",
            hidden=(directory / "private",),
            redact=str,
            new_mark=lambda: f"lsp-{os.getpid()}-{next(numbers)}",
        )
        self.servers = LanguageServers(host, announce=self._announce)

    async def _announce(self, status: ExtensionStatus) -> None:
        self.statuses.append(status)
        news, self._news = self._news, asyncio.Event()
        news.set()

    async def next_status(self) -> None:
        """Wait until a state is announced."""
        await self._news.wait()

    def install(self, name: str, program: Path) -> None:
        """Put a program into the environment of the project."""
        target = self.directory / ".venv/bin" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.symlink_to(program)

    def context(self, session: FileSession) -> ToolContext:
        context = session.context()
        return msgspec.structs.replace(
            context, settings=self.settings, environment={**context.environment, "PATH": os.defpath}
        )

    async def call(self, tool: Tool[Any], session: FileSession, **arguments: Any) -> ToolOutput:
        context = self.context(session)
        given = msgspec.convert(arguments, tool.arguments)
        output = await tool.run(given, context, await tool.plan(given, context))
        step = DiagnosticsStep(self.servers, wait=float(self.settings.tools.lsp_wait))
        if note := await EditSteps([step]).run(context):
            output = msgspec.structs.replace(output, text=f"{output.text}\n{note}")
        return output

    async def edit(self, session: FileSession, path: str, old: str, new: str) -> str:
        """Return what the steps after an edit add to its result."""
        context = self.context(session)
        arguments = EditTool.arguments(path, old, new)
        await EditTool().run(arguments, context, await EditTool().plan(arguments, context))
        return await self.after_edit(context)

    async def write(self, session: FileSession, path: str, content: str) -> str:
        context = self.context(session)
        arguments = WriteTool.arguments(path, content)
        await WriteTool().run(arguments, context, await WriteTool().plan(arguments, context))
        return await self.after_edit(context)

    async def after_edit(self, context: ToolContext) -> str:
        step = DiagnosticsStep(self.servers, wait=float(self.settings.tools.lsp_wait))
        return await EditSteps([step]).run(context)


@asynccontextmanager
async def open_language_workspace(directory: Path, *, programs: Sequence[str] = ()) -> AsyncIterator[LanguageWorkspace]:
    """Open a workspace with programs of this environment installed. Closes its servers at the end."""
    launcher = CommandLauncher()
    workspace = LanguageWorkspace(directory, launcher)
    for name in programs:
        program = Path(sys.executable).parent / name
        if not program.exists():
            pytest.skip(f"{name} is not installed in this environment; the development lock has it")
        workspace.install(name, program)
    try:
        yield workspace
    finally:
        await workspace.servers.close()
        await launcher.close()


def with_tools(settings: Settings, **changes: Any) -> Settings:
    """Return settings with other values in the table ``tools``."""
    return msgspec.structs.replace(settings, tools=msgspec.structs.replace(settings.tools, **changes))
