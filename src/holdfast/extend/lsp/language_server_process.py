"""Starts the process of a language server: under the supervisor, confined where a sandbox works, with a log.

A confined server reads the workspace and writes only its own private directory, so it cannot change files behind the
back of approvals and undo. It has a network only if the agent's commands have one.
"""

from __future__ import annotations

import asyncio
import codecs
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from holdfast.config import Settings
from holdfast.errors import ToolError
from holdfast.extend.lsp.server_choice import ChosenServer
from holdfast.tasks import finish_despite_cancel
from holdfast.tools.process.command_process import CommandLauncher, CommandSpec, RunningCommand
from holdfast.tools.process.sandbox import ConfinedCommand, SandboxBackend
from holdfast.tools.process.sandbox_limits import cache_directories, sandbox_limits

_LOG_LINES = 500
_MAX_LINE = 2_000
_DRAIN_SECONDS = 0.5
_MAX_UNSENT = 64 << 20
"""Bytes that wait to be read by the server."""


class ServerHost(msgspec.Struct, frozen=True, kw_only=True):
    """What the language servers of one workspace share."""

    workspace: Path
    launcher: CommandLauncher
    private: Path
    """The directory that they may write. It is below a directory that confined commands cannot read."""
    hidden: tuple[Path, ...]
    redact: Callable[[str], str]
    new_mark: Callable[[], str]
    """Returns a mark that is unique to a process."""


class LanguageServerLog:
    """The last lines that a server printed or logged. Secrets are removed when it is read."""

    def __init__(self, redact: Callable[[str], str]) -> None:
        self._lines: deque[str] = deque(maxlen=_LOG_LINES)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._redact = redact
        self._open = ""

    def feed(self, data: bytes) -> None:
        """Add what the server printed."""
        self._open += self._decoder.decode(data)
        *lines, self._open = self._open.split("\n")
        self._lines.extend(line[:_MAX_LINE] for line in lines)
        self._open = self._open[-_MAX_LINE:]

    def add(self, text: str) -> None:
        """Add one entry of ours, or one that came as a message."""
        self._lines.extend(line[:_MAX_LINE] for line in text[: 4 * _MAX_LINE].splitlines())

    def end_output(self) -> None:
        if self._open:
            self._lines.append(self._open)
        self._open = ""

    @property
    def text(self) -> str:
        return self._redact("\n".join([*self._lines, *([self._open] if self._open else [])]))

    @property
    def last_line(self) -> str:
        return self._redact(next((line.strip() for line in reversed(self._lines) if line.strip()), ""))


class ServerProcess:
    """The process of a server, with its pipes. What it has started ends with it."""

    def __init__(self, running: RunningCommand, log: LanguageServerLog) -> None:
        self.reader = running.output
        self._running = running
        self._log = log
        self._ended = asyncio.create_task(self._follow(), name="lsp process")

    @property
    def exit_code(self) -> int | None:
        return self._running.exit_code

    def write(self, data: bytes) -> bool:
        """Send to its stdin. Returns False if it has ended or has stopped reading."""
        writer = self._running.input
        if writer is None or writer.is_closing() or writer.transport.get_write_buffer_size() > _MAX_UNSENT:
            return False
        writer.write(data)
        return True

    async def kill(self) -> None:
        """Kill its whole tree, and return when it has ended."""
        await self._running.kill()
        await asyncio.shield(self._ended)

    async def _follow(self) -> None:
        errors = asyncio.create_task(self._read_errors(), name="lsp stderr")
        await self._running.wait_exited()
        await self._running.kill()
        await asyncio.wait((errors,), timeout=_DRAIN_SECONDS)  # why it ended is often its last line
        self._running.stop_reading()
        errors.cancel()
        await asyncio.wait((errors,))
        self._log.end_output()

    async def _read_errors(self) -> None:
        while self._running.errors and (data := await self._running.errors.read(1 << 16)):
            self._log.feed(data)


async def start_process(
    chosen: ChosenServer, host: ServerHost, settings: Settings, environment: Mapping[str, str], log: LanguageServerLog
) -> ServerProcess:
    """Start a server. Raises `ToolError` if it cannot be started."""
    if not chosen.argv:
        raise ToolError(f"{chosen.definition.entry.command[0]!r} is not installed")
    backend = await host.launcher.sandbox.backend(settings.server.sandbox)
    if backend is None and chosen.definition.entry.runs_project_code and not chosen.definition.is_configured:
        raise ToolError(
            "no sandbox works here, and this server can run code of the project; "
            f"to use it without one, add [lsp.{chosen.definition.name}] to the configuration"
        )
    own = {"TMPDIR": str(host.private)}
    if backend is not None:
        own |= {"XDG_CACHE_HOME": str(host.private / "cache"), "CARGO_TARGET_DIR": str(host.private / "target")}
    try:
        confined = await asyncio.to_thread(_confine, chosen, host, settings, environment, backend)
    except OSError as error:
        raise ToolError(f"{str(host.private)!r} cannot be used: {error.strerror or error}") from error
    command = CommandSpec(
        confined.argv,
        chosen.root,
        {**environment, **own, **chosen.definition.env},
        mark=host.new_mark(),
        confinement=confined.confinement,
        piped=True,
    )
    running, cancelled = await finish_despite_cancel(host.launcher.start(command))
    process = ServerProcess(running, log)
    if cancelled:
        await finish_despite_cancel(process.kill())
        raise asyncio.CancelledError
    return process


def _confine(
    chosen: ChosenServer,
    host: ServerHost,
    settings: Settings,
    environment: Mapping[str, str],
    backend: SandboxBackend | None,
) -> ConfinedCommand:
    host.private.mkdir(mode=0o700, parents=True, exist_ok=True)
    argv = tuple(word.replace("{private}", str(host.private)) for word in chosen.argv)
    if backend is None:
        return ConfinedCommand(argv)
    limits = sandbox_limits(
        host.workspace,
        writes_workspace=False,
        temporary=host.private,
        hidden=host.hidden,
        network=settings.server.sandbox_network == "allow",
    )
    if settings.server.sandbox_caches:
        caches = tuple(str(path.resolve()) for path in cache_directories(environment))
        limits = msgspec.structs.replace(limits, writable=(*limits.writable, *caches))
    return host.launcher.sandbox.confine(argv, limits, backend=backend, directory=chosen.root)
