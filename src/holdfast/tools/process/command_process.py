"""Commands as process trees that can be killed reliably.

Commands are started through the supervisor program (see `supervisor`), which keeps all processes of a command below one
supervisor process. `RunningCommand.kill` interrupts the tree, kills it after a grace period, and returns when the
supervisor has no descendant left, or names the processes that survived. It takes at most `KILL_SECONDS`. If a command
kills or stops its own supervisor, its processes are found by the environment variable ``HOLDFAST_CALL`` instead.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from io import FileIO
from pathlib import Path
from typing import ClassVar, Literal

import holdfast
from holdfast.config import Settings, secret_variables
from holdfast.errors import ToolError
from holdfast.files import initial_descriptor_limit
from holdfast.schema.base import Value
from holdfast.tools.process.process_table import (
    Process,
    describe_process,
    find_process,
    processes_with_variable,
    send_signal,
    tree_below,
)
from holdfast.tools.process.sandbox import NOT_CONFINED, CommandSandbox, Confinement
from holdfast.tools.process.supervisor import KEEP_MESSAGE, KILL_MESSAGE, CommandKind, CommandRequest

GRACE_SECONDS = 0.4
"""Time between SIGINT and SIGKILL."""
SUPERVISOR_SECONDS = 1.0
"""Time after which a supervisor gives up and names the survivors."""
KILL_SECONDS = 1.5
"""Limit of a whole kill, including the search by environment variable."""
START_SECONDS = 2.0
"""Time after which a supervisor program that does not respond is replaced."""
RESTART_SECONDS = 10.0
"""How long to wait for the new one."""
MARK_VARIABLE = "HOLDFAST_CALL"

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
"""Disables pagers, editors, prompts and colours: there is no terminal, and a model reads the output."""

_OWN_VARIABLES = frozenset({"HOLDFAST_TOKEN", "HOLDFAST_CALL"})

_PIPE_BUFFER = 1 << 17
_LIMITED_PROGRAM = (
    "import sys, resource; sys.path.append({root!r}); hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1];"
    " resource.setrlimit(resource.RLIMIT_NOFILE, ({limit}, hard)); "
)
"""Commands get the limit of open files that the server was started with, since some programs suffer from a high one."""
_ENVIRONMENT = {"PATH": os.defpath, "LC_ALL": "C.UTF-8"}


def command_environment(base: Mapping[str, str], settings: Settings) -> dict[str, str]:
    """Return `base` without provider keys and server tokens (W8), and with non-interactive settings."""
    secret = {name.upper() for name in secret_variables(settings)} | _OWN_VARIABLES
    return {**{name: value for name, value in base.items() if name.upper() not in secret}, **NON_INTERACTIVE}


class CommandSpec(Value, frozen=True):
    """What to run, where, and with which environment. `mark` must be unique to the command."""

    argv: tuple[str, ...]
    directory: Path
    environment: Mapping[str, str]
    mark: str
    confinement: Confinement = NOT_CONFINED
    piped: bool = False
    """Whether stdin is a pipe, and stderr is separate from stdout: for programs that speak a protocol."""


class KillResult(Value, frozen=True):
    """The processes of a killed tree, as ``123 sleep 1000``."""

    killed: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    """Survived until the time limit."""


class RunningCommand:
    """A started command.

    `output` is everything its processes write to stdout and stderr, in order. A piped command has its stderr in
    `errors`, and gets what is written to `input`.
    """

    def __init__(
        self,
        connection: _SupervisorConnection,
        *,
        pipes: _CommandPipes,
        supervisor: Process,
        mark: str,
        supervisor_seconds: float,
    ) -> None:
        self.output = pipes.output
        self.errors = pipes.errors
        self.input = pipes.input
        self._pipes = pipes
        self._connection = connection
        self._supervisor = supervisor
        self._mark = mark
        self._supervisor_seconds = supervisor_seconds
        self._exit_code: int | None = None
        self._killed: list[str] = []
        self._left: list[str] = []
        self._exited = asyncio.Event()
        self._tree_ended = asyncio.Event()
        self._listener = asyncio.create_task(self._listen(), name=f"command:{mark}")
        self._killer: asyncio.Task[None] | None = None

    @property
    def exit_code(self) -> int | None:
        """Exit code of the command, negative for a signal. None while it runs, or if its supervisor was killed."""
        return self._exit_code

    @property
    def kill_result(self) -> KillResult:
        return KillResult(tuple(self._killed), tuple(self._left))

    async def wait_exited(self) -> None:
        """Wait until the command has exited. Processes that it started may still run."""
        await self._exited.wait()

    async def wait_tree_ended(self) -> None:
        """Wait until the whole tree has ended, or a kill has given up on it."""
        await self._tree_ended.wait()

    async def processes(self) -> tuple[str, ...]:
        """Return the processes that run now, as ``123 sleep 1000``."""
        found = await asyncio.to_thread(_describe_tree, self._supervisor.pid)
        return () if self._tree_ended.is_set() else found  # its supervisor may have another command by now

    async def kill(self) -> KillResult:
        """Kill the tree within `KILL_SECONDS`. All callers get the same result; a cancelled caller stops nothing."""
        if self._killer is None:
            self._killer = asyncio.create_task(self._kill(), name=f"kill:{self._mark}")
        await asyncio.shield(self._killer)
        return self.kill_result

    def stop_reading(self) -> None:
        """Close the pipes, also if a process outside the tree still holds their other ends."""
        self._pipes.close()

    async def _kill(self) -> None:
        if not self._tree_ended.is_set():
            self._connection.send(KILL_MESSAGE)
            try:
                async with asyncio.timeout(self._supervisor_seconds + 0.1):
                    await self._tree_ended.wait()
            except TimeoutError:
                self._connection.close()  # most likely stopped by its command; the listener then searches by mark
        await self._listener

    async def _listen(self) -> None:
        finished = False
        while not finished and (report := await self._connection.read_report()):
            match report:
                case ["exited", code]:
                    self._exit_code = int(code)
                    self._exited.set()
                case ["killed", name]:
                    self._killed.append(name)
                case ["left", name]:
                    self._left.append(name)
                case ["empty"]:
                    finished = True
                    self._connection.keep_supervisor()
                case ["ended"]:
                    finished = True
        if not finished:
            self._left += await asyncio.to_thread(_kill_marked, self._supervisor, f"{MARK_VARIABLE}={self._mark}")
        self._connection.close()
        self._exited.set()
        self._tree_ended.set()


class CommandLauncher:
    """Starts commands. Owns the supervisor program, which starts with the first command and again if it was killed.

    A server has one launcher for the agent's commands and one for a person's own commands.
    """

    def __init__(self, *, supervisor_seconds: float = SUPERVISOR_SECONDS) -> None:
        self._supervisor_seconds = supervisor_seconds
        self._program: _SupervisorProgram | None = None
        self._starting = asyncio.Lock()
        self.sandbox = CommandSandbox()
        self.has_started = False
        """Whether it has started a program."""

    @property
    def pid(self) -> int | None:
        """Process id of the supervisor program, if it runs."""
        return self._program.pid if self._program else None

    @property
    def programs(self) -> frozenset[tuple[int, str]]:
        """Pid and start time of its running supervisor program. All processes of its commands are below it."""
        return frozenset({self._program.identity}) if self._program else frozenset()

    async def start(self, command: CommandSpec) -> RunningCommand:
        """Start a command. Raises `ToolError` if it cannot be started."""
        try:
            request = _pack_request(command, supervisor_seconds=self._supervisor_seconds)
        except ValueError as error:
            raise ToolError(f"the command cannot be started: {error}") from None
        for seconds, restart in ((START_SECONDS, False), (RESTART_SECONDS, True)):
            program = await self._running_program(restart=restart)
            handle = await _new_supervisor(program, command, seconds=seconds)
            if handle is not None:
                return await _start_command(
                    *handle, request=request, mark=command.mark, supervisor_seconds=self._supervisor_seconds
                )
        raise ToolError("the command cannot be started: the supervisor program does not respond; try again")

    async def close(self) -> None:
        """End the supervisor program, after its commands have ended."""
        self.sandbox.close()
        program, self._program = self._program, None
        if program:
            await asyncio.to_thread(program.end)

    async def _running_program(self, *, restart: bool) -> _SupervisorProgram:
        async with self._starting:
            if self._program is not None and (restart or self._program.has_ended):
                await asyncio.to_thread(self._program.end, seconds=0.0)
                self._program = None
            if self._program is None:
                self.has_started = True
                self._program = await asyncio.to_thread(_SupervisorProgram)
            return self._program


class _SupervisorProgram:
    """The supervisor program and the socket to it. Blocking: create and end it in a thread."""

    code: ClassVar[str] = "from holdfast.tools.process.supervisor import main; main({descriptor})"
    """What the program runs."""

    def __init__(self) -> None:
        self.socket, theirs = socket.socketpair()
        root = str(Path(holdfast.__file__).parents[1])
        code = _LIMITED_PROGRAM.format(root=root, limit=initial_descriptor_limit())
        code += self.code.format(descriptor=theirs.fileno())
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", code],
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
        found = find_process(self.pid)
        self.identity = (self.pid, found.started if found else "")
        self.has_free_supervisor = False
        """Whether a supervisor was kept after its command, and no command was started since."""

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def end(self, *, seconds: float = 2 * KILL_SECONDS) -> None:
        """Wait up to `seconds`, then kill the program. Its supervisors go on without it."""
        self.socket.close()
        try:
            self._process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class _CommandPipes:
    """Our ends of a command's pipes: its output and, for a piped command, its input and its errors."""

    def __init__(self, descriptors: Iterable[int]) -> None:
        self.output = asyncio.StreamReader(limit=_PIPE_BUFFER)
        self.input: asyncio.StreamWriter | None = None
        self.errors: asyncio.StreamReader | None = None
        self._descriptors = list(descriptors)
        """Not yet in the hands of the event loop."""
        self._transports: list[asyncio.BaseTransport] = []

    async def open(self) -> None:
        """Hand the pipes over to the event loop. Whether it succeeds or not, `close` closes them."""
        piped = len(self._descriptors) > 1
        await self._open_reader(self.output)
        if piped:
            loop, file = asyncio.get_running_loop(), _file_for_loop(self._descriptors.pop(0), "wb")
            transport, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, file)
            self._transports.append(transport)
            self.input = asyncio.StreamWriter(transport, protocol, None, loop)
            self.errors = asyncio.StreamReader(limit=_PIPE_BUFFER)
            await self._open_reader(self.errors)

    def close(self) -> None:
        for transport in self._transports:
            transport.close()
        while self._descriptors:
            os.close(self._descriptors.pop())

    async def _open_reader(self, reader: asyncio.StreamReader) -> None:
        loop, file = asyncio.get_running_loop(), _file_for_loop(self._descriptors.pop(0), "rb")
        transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), file)
        self._transports.append(transport)


def _file_for_loop(descriptor: int, mode: Literal["rb", "wb"]) -> FileIO:
    """Return the file of a pipe for the running event loop, which closes the descriptor from now on, exactly once.

    A transport of asyncio closes the file. One of uvloop closes the number and then the file. If the file closed the
    number, too, it could be that of a file or connection which another thread has opened in between.
    """
    closes_files = isinstance(asyncio.get_running_loop(), asyncio.SelectorEventLoop)
    return os.fdopen(descriptor, mode, buffering=0, closefd=closes_files)


class _SupervisorConnection:
    """The socket to a supervisor. Each report is a line of fields separated by tabs."""

    def __init__(self, program: _SupervisorProgram, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._program = program
        self._reader = reader
        self._writer = writer

    async def read_report(self) -> list[str]:
        """Return the fields of the next report; empty if the supervisor has ended or the connection is closed."""
        try:
            line = await self._reader.readline()
        except OSError:
            return []
        return line.decode("utf-8", "replace").rstrip("\n").split("\t") if line.endswith(b"\n") else []

    def send(self, data: bytes) -> None:
        self._writer.write(data)

    def keep_supervisor(self) -> None:
        """Let the supervisor, whose command has ended, wait for another one, unless one is free already."""
        if not self._program.has_free_supervisor:
            self._program.has_free_supervisor = True
            self.send(KEEP_MESSAGE)

    def close(self) -> None:
        self._writer.close()


def _pack_request(command: CommandSpec, *, supervisor_seconds: float) -> bytes:
    environment = {**command.environment, MARK_VARIABLE: command.mark}
    fields = [*command.argv, *environment, *environment.values(), str(command.directory)]
    if any("\0" in field for field in fields):
        raise ValueError("it contains a zero byte; remove it")
    request = CommandRequest(
        str(command.directory),
        list(command.argv),
        environment,
        GRACE_SECONDS,
        supervisor_seconds,
        command.confinement.view,
    )
    return request.pack()


def _send_descriptors(program: _SupervisorProgram, command: CommandSpec) -> tuple[socket.socket | None, list[int]]:
    """Send one end of a new socket and of new pipes; return the other ends. No socket if the program has ended.

    The pipes are the output and, for a piped command, the input and the errors.
    """
    ours, theirs = socket.socketpair()
    pipes = [os.pipe(), os.pipe()[::-1], os.pipe()] if command.piped else [os.pipe()]
    kept, sent = [ends[0] for ends in pipes], [ends[1] for ends in pipes]
    ruleset = [] if command.confinement.ruleset is None else [command.confinement.ruleset]
    kind = CommandKind(piped=command.piped, in_namespace=command.confinement.view is not None)
    try:
        socket.send_fds(program.socket, [kind.pack()], [theirs.fileno(), *sent, *ruleset])
    except OSError:
        ours.close()
        return None, kept
    finally:
        theirs.close()
        for descriptor in sent:
            os.close(descriptor)
    ours.setblocking(False)
    return ours, kept


async def _new_supervisor(
    program: _SupervisorProgram, command: CommandSpec, *, seconds: float
) -> tuple[_SupervisorConnection, _CommandPipes] | None:
    """Return a supervisor that is ready to run a command; None if the program has ended or does not respond."""
    program.has_free_supervisor = False
    control, descriptors = _send_descriptors(program, command)
    pipes, connection, ready = _CommandPipes(descriptors), None, False
    try:
        if control is None:
            return None
        connection = _SupervisorConnection(program, *await asyncio.open_unix_connection(sock=control))
        await pipes.open()
        async with asyncio.timeout(seconds):
            ready = await connection.read_report() == ["ready"]
        return (connection, pipes) if ready else None
    except TimeoutError:
        return None
    finally:
        if not ready:
            pipes.close()
            if connection is not None:
                connection.close()


async def _start_command(
    connection: _SupervisorConnection, pipes: _CommandPipes, *, request: bytes, mark: str, supervisor_seconds: float
) -> RunningCommand:
    """Send the request. The command may have run from here on, so nothing is retried."""
    try:
        connection.send(request)
        match await connection.read_report():
            case ["started", pid, parent, group, state, started]:
                supervisor = Process(int(pid), int(parent), int(group), state, started)
                return RunningCommand(
                    connection, pipes=pipes, supervisor=supervisor, mark=mark, supervisor_seconds=supervisor_seconds
                )
            case ["failed", reason]:
                raise ToolError(f"the command cannot be started: {reason}")
        raise ToolError("the command may have been started, but its supervisor ended unexpectedly")
    except BaseException:
        connection.close()
        pipes.close()
        raise


def _describe_tree(pid: int) -> tuple[str, ...]:
    names = [describe_process(process) for process in tree_below(pid) if process.alive]
    return tuple(name for name in names if "bwrap --ro-bind / / " not in name)


def _kill_marked(supervisor: Process, variable: str) -> list[str]:
    """Kill a supervisor that does not respond and all processes with its mark; return the survivors."""
    deadline = time.monotonic() + KILL_SECONDS - SUPERVISOR_SECONDS - 0.15
    send_signal(supervisor, signal.SIGKILL)
    while found := processes_with_variable(variable):
        for process in found:
            send_signal(process, signal.SIGKILL)
        if time.monotonic() > deadline:
            return [describe_process(process) for process in found]
        time.sleep(0.01)
    return []
