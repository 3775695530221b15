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
import time
from collections.abc import Mapping
from pathlib import Path

from holdfast.config import Settings, secret_variables
from holdfast.errors import ToolError
from holdfast.schema.base import Value
from holdfast.tools.process.command_pipes import CommandPipes
from holdfast.tools.process.process_table import (
    Process,
    describe_process,
    processes_with_variable,
    send_signal,
    tree_below,
)
from holdfast.tools.process.sandbox import NOT_CONFINED, CommandSandbox, Confinement
from holdfast.tools.process.supervisor import KILL_MESSAGE, CommandKind, CommandRequest
from holdfast.tools.process.supervisor_program import RequestOffer, SupervisorConnection, SupervisorProgram

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
        connection: SupervisorConnection,
        *,
        pipes: CommandPipes,
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
        loop = asyncio.get_running_loop()
        self.exited: asyncio.Future[None] = loop.create_future()
        """Done when the command has exited. Processes that it started may still run. Do not cancel it."""
        self.tree_ended: asyncio.Future[None] = loop.create_future()
        """Done when the whole tree has ended, or a kill has given up on it. Do not cancel it."""
        self._killer: asyncio.Task[None] | None = None
        self._search: asyncio.Task[None] | None = None
        """Kills by the mark, if the supervisor does not do it."""
        connection.listen(self._take_report)

    @property
    def exit_code(self) -> int | None:
        """Exit code of the command, negative for a signal. None while it runs, or if its supervisor was killed."""
        return self._exit_code

    @property
    def kill_result(self) -> KillResult:
        return KillResult(tuple(self._killed), tuple(self._left))

    async def wait_exited(self) -> None:
        await asyncio.shield(self.exited)

    async def wait_tree_ended(self) -> None:
        await asyncio.shield(self.tree_ended)

    async def processes(self) -> tuple[str, ...]:
        """Return the processes that run now, as ``123 sleep 1000``."""
        found = await asyncio.to_thread(_describe_tree, self._supervisor.pid)
        return () if self.tree_ended.done() else found  # its supervisor may have another command by now

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
        if not self.tree_ended.done():
            self._connection.send(KILL_MESSAGE)
            await asyncio.wait((self.tree_ended,), timeout=self._supervisor_seconds + 0.1)
            if not self.tree_ended.done():
                self._kill_by_mark()  # most likely the supervisor was stopped by its command
        if self._search is not None:
            await self._search

    def _take_report(self, report: list[str]) -> None:
        match report:
            case ["exited", code]:
                self._exit_code = int(code)
                self.exited.set_result(None)
            case ["killed", name]:
                self._killed.append(name)
            case ["left", name]:
                self._left.append(name)
            case ["empty"]:
                self._connection.keep_supervisor()
                self._end()
            case ["ended"]:
                self._end()
            case []:
                self._kill_by_mark()

    def _kill_by_mark(self) -> None:
        if self._search is None:
            self._connection.close()
            self._search = asyncio.create_task(self._kill_marked(), name=f"command:{self._mark}")

    async def _kill_marked(self) -> None:
        try:
            self._left += await asyncio.to_thread(_kill_marked, self._supervisor, f"{MARK_VARIABLE}={self._mark}")
        finally:
            self._end()

    def _end(self) -> None:
        self._connection.close()
        for future in (self.exited, self.tree_ended):
            if not future.done():
                future.set_result(None)


class CommandLauncher:
    """Starts commands. Owns the supervisor program, which starts with the first command and again if it was killed.

    A server has one launcher for the agent's commands and one for a person's own commands.
    """

    def __init__(self, *, supervisor_seconds: float = SUPERVISOR_SECONDS) -> None:
        self._supervisor_seconds = supervisor_seconds
        self._program: SupervisorProgram | None = None
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
            running = await self._start(program, command, request=request, seconds=seconds)
            if running is not None:
                return running
        raise ToolError("the command cannot be started: the supervisor program does not respond; try again")

    async def _start(
        self, program: SupervisorProgram, command: CommandSpec, *, request: bytes, seconds: float
    ) -> RunningCommand | None:
        """Start a command. Returns None if the program has ended or does not respond; it is not started then."""
        offer, pipes = _make_offer(program, command, request)
        if offer is None:
            return None
        connection = offer.connection
        try:
            await pipes.open()
            match await offer.answer(seconds=seconds):
                case None:
                    connection.close()
                    pipes.close()
                    return None
                case ["started", pid, parent, group, state, started]:
                    return RunningCommand(
                        connection,
                        pipes=pipes,
                        supervisor=Process(int(pid), int(parent), int(group), state, started),
                        mark=command.mark,
                        supervisor_seconds=self._supervisor_seconds,
                    )
                case ["failed", number, reason]:
                    raise ToolError(f"the command cannot be started: {reason}") from OSError(int(number), reason)
            raise ToolError("the command may have been started, but its supervisor ended unexpectedly")
        except BaseException:
            offer.withdraw()
            connection.close()
            pipes.close()
            raise

    async def close(self) -> None:
        """End the supervisor program, after its commands have ended."""
        self.sandbox.close()
        program, self._program = self._program, None
        if program:
            await asyncio.to_thread(program.end)

    async def _running_program(self, *, restart: bool) -> SupervisorProgram:
        async with self._starting:
            if self._program is not None and (restart or self._program.has_ended):
                await asyncio.to_thread(self._program.end, seconds=0.0)
                self._program = None
            if self._program is None:
                self.has_started = True
                self._program = await asyncio.to_thread(SupervisorProgram)
            return self._program


def _pack_request(command: CommandSpec, *, supervisor_seconds: float) -> bytes:
    environment = {**command.environment, MARK_VARIABLE: command.mark}
    request = CommandRequest(
        str(command.directory),
        list(command.argv),
        environment,
        GRACE_SECONDS,
        supervisor_seconds,
        command.confinement.view,
    )
    return request.pack()


def _make_offer(
    program: SupervisorProgram, command: CommandSpec, request: bytes
) -> tuple[RequestOffer | None, CommandPipes]:
    """Offer a command to the program; return our ends of its pipes, too. No offer if the program has ended."""
    ends = [os.pipe(), os.pipe()[::-1], os.pipe()] if command.piped else [os.pipe()]
    pipes, sent = CommandPipes(ours for ours, _ in ends), [theirs for _, theirs in ends]
    ruleset = [] if command.confinement.ruleset is None else [command.confinement.ruleset.fileno()]
    view = command.confinement.view
    kind = CommandKind(command.piped, in_namespace=view is not None, network=view is None or view.network)
    program.has_free_supervisor = False
    try:
        return RequestOffer(program, request, kind=kind, descriptors=[*sent, *ruleset]), pipes
    except ConnectionError:
        pipes.close()
        return None, pipes
    except BaseException:
        pipes.close()
        raise
    finally:
        for descriptor in sent:
            os.close(descriptor)


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
