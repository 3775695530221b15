"""Commands as process trees that end when they are told to, and prove it.

A command is started through the keeper (see `keeper`), which holds everything the command starts below one
supervisor. `Running.kill` interrupts the whole tree, kills it after a short grace, and returns when the supervisor has
no descendant left, or names what would not die: at most `KILL_SECONDS` in all. If the supervisor itself was killed or
stopped by its command, the environment mark ``HOLDFAST_CALL`` is the second net.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import holdfast
from holdfast.config import Settings, secret_variables
from holdfast.errors import ToolError
from holdfast.schema.base import Value
from holdfast.tools.process.process_table import (
    Process,
    describe_process,
    processes_with_variable,
    send_signal,
    tree_below,
)
from holdfast.tools.process.supervisor import KILL_MESSAGE, CommandRequest

GRACE_SECONDS = 0.4
"""Between SIGINT and SIGKILL."""
SUPERVISOR_SECONDS = 1.0
"""After which a supervisor gives up and names what lives."""
KILL_SECONDS = 1.5
"""The whole of a kill, the second net included."""
START_SECONDS = 2.0
"""After which a keeper that does not answer is replaced."""
MARK_VARIABLE = "HOLDFAST_CALL"

_PIPE_BUFFER = 1 << 17
_ENVIRONMENT = {"PATH": os.defpath, "LC_ALL": "C.UTF-8"}


class CommandSpec(Value, frozen=True):
    """What to run, where, and with which environment; `mark` must be this command's alone."""

    argv: tuple[str, ...]
    directory: Path
    environment: Mapping[str, str]
    mark: str


class KillResult(Value, frozen=True):
    """What a kill did: processes as ``123 sleep 1000``."""

    killed: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    """Would not die within the time; given up."""


class RunningCommand:
    """A command that was started. `output` is what its tree writes to stdout and stderr, in order."""

    def __init__(self, line: _SupervisorConnection, *, output: _OutputPipe, supervisor: Process, mark: str) -> None:
        self.output = output.reader
        self._pipe = output
        self._line = line
        self._supervisor = supervisor
        self._mark = mark
        self._exit_code: int | None = None
        self._killed: list[str] = []
        self._left: list[str] = []
        self._exited = asyncio.Event()
        self._gone = asyncio.Event()
        self._listener = asyncio.create_task(self._listen(), name=f"command:{mark}")
        self._killer: asyncio.Task[None] | None = None

    @property
    def exit_code(self) -> int | None:
        """Of the command itself, negative for a signal; `None` while it runs, or if its supervisor was killed."""
        return self._exit_code

    @property
    def death(self) -> KillResult:
        return KillResult(tuple(self._killed), tuple(self._left))

    async def wait_exited(self) -> None:
        """Until the command itself has ended; what it started may go on."""
        await self._exited.wait()

    async def wait_gone(self) -> None:
        """Until the whole tree is gone, or given up after a kill."""
        await self._gone.wait()

    async def names(self) -> tuple[str, ...]:
        """What of it runs now."""
        return await asyncio.to_thread(_names_below, self._supervisor.pid)

    async def kill(self) -> KillResult:
        """End the whole tree. Bounded; every caller gets the same answer, and a cancelled one stops nothing."""
        if self._killer is None:
            self._killer = asyncio.create_task(self._kill(), name=f"kill:{self._mark}")
        await asyncio.shield(self._killer)
        return self.death

    def stop_reading(self) -> None:
        """Close our end of the pipe: whoever still holds the other one writes to nobody."""
        self._pipe.close()

    async def _kill(self) -> None:
        if not self._gone.is_set():
            self._line.say(KILL_MESSAGE)
            try:
                async with asyncio.timeout(SUPERVISOR_SECONDS + 0.1):
                    await self._gone.wait()
            except TimeoutError:
                self._line.close()  # its own command stopped it, most likely: the listener spreads the second net
        await self._listener

    async def _listen(self) -> None:
        finished = False
        while not finished and (words := await self._line.next()):
            match words:
                case ["exited", code]:
                    self._exit_code = int(code)
                    self._exited.set()
                case ["killed", name]:
                    self._killed.append(name)
                case ["left", name]:
                    self._left.append(name)
                case ["empty" | "ended"]:
                    finished = True
        if not finished:
            self._left += await asyncio.to_thread(_kill_marked, self._supervisor, f"{MARK_VARIABLE}={self._mark}")
        self._line.close()
        self._exited.set()
        self._gone.set()


class CommandLauncher:
    """Starts commands; owns the keeper program, which is started with the first one and again if it was killed."""

    def __init__(self) -> None:
        self._keeper: _SupervisorProcess | None = None
        self._starting = asyncio.Lock()

    @property
    def pid(self) -> int | None:
        """Of the keeper program, once it runs."""
        return self._keeper.pid if self._keeper else None

    async def start(self, command: CommandSpec) -> RunningCommand:
        """Run a command; `ToolError` if it cannot be started."""
        try:
            request = _request(command)
        except ValueError as error:
            raise ToolError(f"the command cannot be started: {error}") from None
        for patience in (START_SECONDS, 5 * START_SECONDS):
            keeper = await self._running_keeper(fresh=patience > START_SECONDS)
            handle = await _new_supervisor(keeper, patience=patience)
            if handle is not None:
                return await _start_command(*handle, request=request, mark=command.mark)
        raise ToolError("the command cannot be started: the program that keeps commands does not answer")

    async def close(self) -> None:
        """End the keeper, after the commands it started have ended."""
        keeper, self._keeper = self._keeper, None
        if keeper:
            await asyncio.to_thread(keeper.end)

    async def _running_keeper(self, *, fresh: bool) -> _SupervisorProcess:
        async with self._starting:
            if fresh and self._keeper is not None:
                await asyncio.to_thread(self._keeper.end, patience=0.0)
                self._keeper = None
            if self._keeper is None:
                self._keeper = await asyncio.to_thread(_SupervisorProcess)
            return self._keeper


class _SupervisorProcess:
    """The keeper program and the socket to it. Blocking: made and ended in a thread."""

    def __init__(self) -> None:
        self.socket, theirs = socket.socketpair()
        root = str(Path(holdfast.__file__).parents[1])
        path = f"import sys; sys.path.append({root!r})"
        start = f"{path}; from holdfast.tools.process.supervisor import main; main({theirs.fileno()})"
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", start],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                env=_ENVIRONMENT,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )
        self.socket.setblocking(False)
        self.pid = self._process.pid

    def end(self, *, patience: float = 2 * KILL_SECONDS) -> None:
        """Without patience for a keeper that does not answer; its supervisors go on without it."""
        self.socket.close()
        try:
            self._process.wait(timeout=patience)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class _OutputPipe:
    """Our end of a command's output."""

    def __init__(self, reader: asyncio.StreamReader, transport: asyncio.ReadTransport) -> None:
        self.reader = reader
        self._transport = transport

    @classmethod
    async def open(cls, descriptor: int) -> _OutputPipe:
        reader = asyncio.StreamReader(limit=_PIPE_BUFFER)
        file = os.fdopen(descriptor, "rb", buffering=0)
        loop = asyncio.get_running_loop()
        transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), file)
        return cls(reader, transport)

    def close(self) -> None:
        self._transport.close()


class _SupervisorConnection:
    """The socket to a supervisor: one report a line."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def next(self) -> list[str]:
        """The words of the next report; none when the supervisor is gone or the line was closed."""
        try:
            line = await self._reader.readline()
        except OSError:
            return []
        return line.decode("utf-8", "replace").rstrip("\n").split("\t") if line.endswith(b"\n") else []

    def say(self, data: bytes) -> None:
        self._writer.write(data)

    def close(self) -> None:
        self._writer.close()


def _request(command: CommandSpec) -> bytes:
    environment = {**command.environment, MARK_VARIABLE: command.mark}
    fields = [*command.argv, *environment, *environment.values(), str(command.directory)]
    if any("\0" in field for field in fields):
        raise ValueError("it has a zero byte in it")
    request = CommandRequest(str(command.directory), list(command.argv), environment, GRACE_SECONDS, SUPERVISOR_SECONDS)
    return request.pack()


def _send_descriptors(keeper: _SupervisorProcess) -> tuple[socket.socket | None, int]:
    """Give the keeper one end of a socket and of a pipe; we keep the others. No socket: the keeper is gone."""
    reading, writing = os.pipe()
    ours, theirs = socket.socketpair()
    try:
        socket.send_fds(keeper.socket, [b"c"], [theirs.fileno(), writing])
    except OSError:
        ours.close()
        return None, reading
    finally:
        theirs.close()
        os.close(writing)
    ours.setblocking(False)
    return ours, reading


async def _new_supervisor(
    keeper: _SupervisorProcess, *, patience: float
) -> tuple[_SupervisorConnection, _OutputPipe] | None:
    """A supervisor that is ready to run something; `None` if the keeper is gone, or stopped by one of its commands."""
    control, descriptor = _send_descriptors(keeper)
    if control is None:
        os.close(descriptor)
        return None
    line = _SupervisorConnection(*await asyncio.open_unix_connection(sock=control))
    pipe = await _OutputPipe.open(descriptor)
    try:
        async with asyncio.timeout(patience):
            if await line.next() == ["ready"]:
                return line, pipe
    except TimeoutError:
        pass
    except BaseException:
        line.close()
        pipe.close()
        raise
    line.close()
    pipe.close()
    return None


async def _start_command(
    line: _SupervisorConnection, pipe: _OutputPipe, *, request: bytes, mark: str
) -> RunningCommand:
    """From here on the command may have run: nothing is tried twice."""
    try:
        line.say(request)
        match await line.next():
            case ["started", pid, parent, group, state, started]:
                supervisor = Process(int(pid), int(parent), int(group), state, started)
                return RunningCommand(line, output=pipe, supervisor=supervisor, mark=mark)
            case ["failed", reason]:
                raise ToolError(f"the command cannot be started: {reason}")
        raise ToolError("the command may have been started, but its supervisor was ended")
    except BaseException:
        line.close()
        pipe.close()
        raise


def _names_below(pid: int) -> tuple[str, ...]:
    return tuple(describe_process(process) for process in tree_below(pid) if process.alive)


def _kill_marked(supervisor: Process, variable: str) -> list[str]:
    """Kill a supervisor that does not answer and what carries its mark; the names of what is left."""
    deadline = time.monotonic() + KILL_SECONDS - SUPERVISOR_SECONDS - 0.15
    send_signal(supervisor, signal.SIGKILL)
    while found := processes_with_variable(variable):
        for process in found:
            send_signal(process, signal.SIGKILL)
        if time.monotonic() > deadline:
            return [describe_process(process) for process in found]
        time.sleep(0.01)
    return []


NON_INTERACTIVE: Mapping[str, str] = {
    "HOLDFAST": "1",
    "TERM": "dumb",
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "MANPAGER": "cat",
    "SYSTEMD_PAGER": "cat",
    "AWS_PAGER": "",
    "LESS": "-FRX",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_EDITOR": "true",
    "GCM_INTERACTIVE": "never",
    "SSH_ASKPASS_REQUIRE": "never",
    "DEBIAN_FRONTEND": "noninteractive",
    "PIP_NO_INPUT": "1",
    "NO_COLOR": "1",
}
"""No pager, no editor, no prompt, no colour: nobody is there to answer, and a model reads the output."""

_OWN_VARIABLES = frozenset({"HOLDFAST_TOKEN", "HOLDFAST_CALL"})


def child_environment(base: Mapping[str, str], settings: Settings) -> dict[str, str]:
    """What a child process may see of `base`: no provider's key, no token of this server (W8)."""
    secret = {name.upper() for name in secret_variables(settings)} | _OWN_VARIABLES
    return {**{name: value for name, value in base.items() if name.upper() not in secret}, **NON_INTERACTIVE}
