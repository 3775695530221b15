"""What an open workspace knows of language servers. Imports little: the servers are imported when a file needs one.

Whether a session is offered the tools is decided once for the session, because tool definitions are in the part of a
request that providers cache.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.config import Config, Settings
from holdfast.errors import NotFound
from holdfast.schema.extensions import ExtensionStatus
from holdfast.tasks import OwnedTasks
from holdfast.tools.after_edit.edit_steps import EditPhase
from holdfast.tools.process.command_process import CommandLauncher
from holdfast.tools.protocol import Tool, ToolContext

if TYPE_CHECKING:
    from holdfast.extend.lsp.server_pool import LanguageServers

_MAX_SESSIONS = 1_000
_STATUS_SECONDS = 5.0
"""How long the list of installed servers is used."""
_STEP_GRACE = 10.0
"""The step ends by itself when its wait is over; the limit of all steps is only for a bug in it."""


class LanguageParts(msgspec.Struct, frozen=True, kw_only=True):
    """What language servers need of their workspace."""

    directory: Path
    launcher: CommandLauncher
    private: Path
    """A directory for files of the servers."""
    hidden: tuple[Path, ...]
    """Directories that confined servers may not read."""
    environment: Callable[[Settings], Mapping[str, str]]
    """The environment of commands that belong to no run."""
    redact: Callable[[str], str]
    new_mark: Callable[[], str]
    announce: Callable[[ExtensionStatus], Coroutine[Any, Any, None]]


class WorkspaceLanguages:
    """The `ExtensionProvider` of language servers."""

    def __init__(self, parts: LanguageParts) -> None:
        self._parts = parts
        self._servers: LanguageServers | None = None
        self._tools: tuple[Tool[Any], ...] = ()
        self._offered: dict[tuple[str, bool], bool] = {}
        self._tasks = OwnedTasks()
        self._idle: list[ExtensionStatus] = []
        self._looked_at = -_STATUS_SECONDS
        self._looked_trusted = False
        self._closed = False

    async def refresh(self, config: Config, *, trusted: bool) -> None:
        """Stop servers that may not run any more."""
        if self._servers is not None:
            await self._servers.refresh(config, trusted=trusted)

    async def stop(self) -> None:
        """Stop all servers: the directory is not trusted any more."""
        if self._servers is not None:
            await self._servers.stop()

    async def look_for_servers(self, settings: Settings, *, trusted: bool) -> None:
        """Find out which servers could be used here, for `statuses`."""
        if settings.tools.lsp == "off":
            self._idle = []
        elif trusted != self._looked_trusted or time.monotonic() - self._looked_at >= _STATUS_SECONDS:
            self._looked_at, self._looked_trusted = time.monotonic(), trusted
            environment = self._parts.environment(settings)
            self._idle = await asyncio.to_thread(
                _idle_statuses, self._parts.directory, settings, environment, trusted=trusted
            )

    def statuses(self) -> list[ExtensionStatus]:
        started = self._servers.statuses() if self._servers else []
        names = {status.name for status in started}
        return [*started, *(status for status in self._idle if status.name not in names)]

    async def close(self) -> None:
        self._closed = True
        await self._tasks.finish(seconds=0.0)
        if self._servers is not None:
            await self._servers.close()

    async def tools_for(
        self, session_id: str, settings: Settings, environment: Mapping[str, str]
    ) -> tuple[Tool[Any], ...]:
        """Return the tools that a session of a trusted directory is offered: all, or none."""
        key = session_id, settings.tools.lsp == "off"
        if key not in self._offered:
            found = await asyncio.to_thread(_could_serve, self._parts.directory, settings, environment)
            if len(self._offered) >= _MAX_SESSIONS:
                del self._offered[next(iter(self._offered))]
            self._offered.setdefault(key, found)
        if not self._offered[key]:
            return ()
        if not self._tools:
            tools = await asyncio.to_thread(_load_tools)
            self._tools = self._tools or tuple(make(self._pool()) for make in tools)
        return self._tools

    def step(self, settings: Settings) -> LanguageStep:
        """Return the step after edits."""
        return LanguageStep(self, wait=float(settings.tools.lsp_wait))

    async def servers_for(
        self, paths: Sequence[Path], settings: Settings, environment: Mapping[str, str]
    ) -> LanguageServers | None:
        """Return the servers if one of these files has one, else None."""
        if self._closed or settings.tools.lsp == "off":
            return None
        if self._servers is None:
            found = await asyncio.to_thread(_has_server, paths, self._parts.directory, settings, environment)
            if not found or self._closed:
                return None
        return self._pool()

    def note_read(self, path: Path, settings: Settings, environment: Mapping[str, str]) -> None:
        """Start the servers of a file that was read, in the background."""
        if not self._closed and settings.tools.lsp != "off":
            work = self._open(path, settings, environment)
            _ = self._tasks.spawn(work, name=f"lsp:read:{path.name}", may_fail=True)

    def note_changes(self, paths: Iterable[str]) -> None:
        """Tell the servers of files that something else than an edit changed."""
        if self._servers is not None:
            self._servers.note_changes(self._parts.directory / path for path in paths)

    async def restart(self, name: str) -> None:
        """Start a server again. Raises `NotFound` if it was never started."""
        await self._started(name).restart(name)

    def log(self, name: str) -> str:
        """Return the last lines of a server's log. Raises `NotFound` if it was never started."""
        return self._started(name).log(name)

    def _started(self, name: str) -> LanguageServers:
        if self._servers is None:
            raise NotFound(f"no language server {name!r} was started; 'holdfast lsp' lists those that were")
        return self._servers

    async def _open(self, path: Path, settings: Settings, environment: Mapping[str, str]) -> None:
        servers = await self.servers_for((path,), settings, environment)
        if servers is not None:
            servers.note_read(path, settings, environment)

    def _pool(self) -> LanguageServers:
        if self._servers is None:
            from holdfast.extend.lsp.language_server_process import ServerHost
            from holdfast.extend.lsp.server_pool import LanguageServers

            parts = self._parts
            host = ServerHost(
                workspace=parts.directory,
                launcher=parts.launcher,
                private=parts.private,
                hidden=parts.hidden,
                redact=parts.redact,
                new_mark=parts.new_mark,
            )
            self._servers = LanguageServers(host, announce=parts.announce)
        return self._servers


class LanguageStep:
    """The `EditStep` of language servers. Imports them when an edited file has one."""

    name = "diagnostics"
    phase: EditPhase = "check"

    def __init__(self, languages: WorkspaceLanguages, *, wait: float) -> None:
        self._languages = languages
        self._wait = wait
        self.seconds = wait + _STEP_GRACE
        self._step: Any = None

    async def run(self, paths: tuple[Path, ...], context: ToolContext) -> str:
        servers = await self._languages.servers_for(paths, context.settings, context.environment)
        if servers is None:
            return ""
        if self._step is None:
            from holdfast.extend.lsp.diagnostics_step import DiagnosticsStep

            self._step = DiagnosticsStep(servers, wait=self._wait)
        text: str = await self._step.run(paths, context)
        return text


def _could_serve(directory: Path, settings: Settings, environment: Mapping[str, str]) -> bool:
    from holdfast.extend.lsp.server_choice import usable_servers

    return bool(usable_servers(directory, settings, environment))


def _has_server(paths: Sequence[Path], directory: Path, settings: Settings, environment: Mapping[str, str]) -> bool:
    from holdfast.extend.lsp.server_choice import choose_servers

    found = any(choose_servers(path, directory, settings, environment) for path in paths)
    if found:
        import holdfast.extend.lsp.diagnostics_step  # noqa: F401 - imported here, in a thread
    return found


def _load_tools() -> tuple[Callable[[LanguageServers], Tool[Any]], ...]:
    from holdfast.extend.lsp.language_tools import DefinitionTool, DiagnosticsTool, ReferencesTool, SymbolsTool
    from holdfast.extend.lsp.rename_tool import RenameTool

    return DiagnosticsTool, DefinitionTool, ReferencesTool, SymbolsTool, RenameTool


def _idle_statuses(
    directory: Path, settings: Settings, environment: Mapping[str, str], *, trusted: bool
) -> list[ExtensionStatus]:
    """The servers that would serve this workspace and do not run yet. Blocking."""
    from holdfast.extend.lsp.server_choice import usable_servers

    why = "it starts when a file of its kind is read or edited"
    if not trusted:
        why = "the directory is not trusted; 'holdfast trust' lets it start"
    return [
        ExtensionStatus("lsp", definition.name, "disabled", why, definition.source)
        for definition in usable_servers(directory, settings, environment)
    ]
