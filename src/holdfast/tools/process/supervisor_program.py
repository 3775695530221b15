"""The server's side of the supervisor program: its process, requests to it, and the reports about a command."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import ClassVar

import holdfast
from holdfast.files import initial_descriptor_limit
from holdfast.tools.process.process_table import find_process
from holdfast.tools.process.supervisor import KEEP_MESSAGE, CommandKind

_END_SECONDS = 3.0
"""How long a program whose socket was closed may take to end."""
_REPORT_BYTES = 1 << 16
_LIMITED_PROGRAM = (
    "import sys, resource; sys.path.append({root!r}); hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1];"
    " resource.setrlimit(resource.RLIMIT_NOFILE, ({limit}, hard)); "
)
"""Commands get the limit of open files that the server was started with, since some programs suffer from a high one."""
_ENVIRONMENT = {"PATH": os.defpath, "LC_ALL": "C.UTF-8"}


class SupervisorProgram:
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

    def end(self, *, seconds: float = _END_SECONDS) -> None:
        """Wait up to `seconds`, then kill the program. Its supervisors go on without it."""
        self.socket.close()
        try:
            self._process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class SupervisorConnection:
    """The socket to a supervisor. Each report is a line of fields separated by tabs.

    The last report is empty: the supervisor has ended.
    """

    def __init__(self, program: SupervisorProgram, control: socket.socket) -> None:
        self._program = program
        self._control: socket.socket | None = control
        self._loop = asyncio.get_running_loop()
        self._line = b""
        """The beginning of a report."""
        self._reports: deque[list[str]] = deque()
        self._take: Callable[[list[str]], None] | None = None
        self._loop.add_reader(control.fileno(), self._receive)

    def listen(self, take: Callable[[list[str]], None]) -> None:
        """Call a function with each report that has arrived, and with each that will, until `close` is called."""
        self._take = take
        self._deliver()

    async def read_report(self) -> list[str]:
        """Return the next report. If the caller is cancelled, it is not lost."""
        arrived: asyncio.Future[None] = self._loop.create_future()

        def take(report: list[str]) -> None:
            self._take = None
            self._reports.appendleft(report)
            if not arrived.done():
                arrived.set_result(None)

        self.listen(take)
        try:
            await arrived
        finally:
            self._take = None
        return self._reports.popleft()

    def send(self, data: bytes) -> None:
        """Send a message of one byte. It is not sent if the supervisor has ended, or reads none of many."""
        if self._control is not None:
            with suppress(OSError):
                self._control.send(data)

    async def send_rest(self, data: memoryview) -> None:
        """Send what did not fit into the socket at once."""
        if data and self._control is not None:
            await self._loop.sock_sendall(self._control, data)

    def keep_supervisor(self) -> None:
        """Let the supervisor, whose command has ended, wait for another one, unless one is free already."""
        if not self._program.has_free_supervisor:
            self._program.has_free_supervisor = True
            self.send(KEEP_MESSAGE)

    def close(self) -> None:
        """Close the socket. A supervisor whose command has not ended kills it."""
        self._take = None
        if self._control is not None:
            self._loop.remove_reader(self._control.fileno())
            self._control.close()
            self._control = None

    def _receive(self) -> None:
        assert self._control is not None
        try:
            data = self._control.recv(_REPORT_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        *lines, self._line = (self._line + data).split(b"\n")
        self._reports += (line.decode("utf-8", "replace").split("\t") for line in lines)
        if not data:
            self._loop.remove_reader(self._control.fileno())
            self._reports.append([])
        self._deliver()

    def _deliver(self) -> None:
        while self._take is not None and self._reports:
            self._take(self._reports.popleft())


class RequestOffer:
    """A request that waits for a supervisor. A supervisor takes it by reading it; until then it can be withdrawn.

    So one message starts a command, and yet none is started twice or too late: this class keeps the other end of the
    socket, and what it reads there itself, no supervisor reads.
    """

    def __init__(
        self, program: SupervisorProgram, request: bytes, *, kind: CommandKind, descriptors: Sequence[int]
    ) -> None:
        """Raises `ConnectionError` if the program has ended, or takes nothing any more."""
        ours, self._theirs = socket.socketpair()
        try:
            ours.setblocking(False)
            self._rest = memoryview(request)[ours.send(request) :]
            socket.send_fds(program.socket, [kind.pack()], [self._theirs.fileno(), *descriptors])
        except OSError as error:
            ours.close()
            self._theirs.close()
            raise ConnectionError from error
        self._is_sent = not self._rest
        self.connection = SupervisorConnection(program, ours)

    async def answer(self, *, seconds: float) -> list[str] | None:
        """Return the first report of the supervisor. None if none has taken the request in time; then none will."""
        try:
            async with asyncio.timeout(seconds):
                await self.connection.send_rest(self._rest)
                self._is_sent = True
                report = await self.connection.read_report()
                self._theirs.close()
                return report
        except TimeoutError:
            return None if self.withdraw() else await self.connection.read_report()

    def withdraw(self) -> bool:
        """Take the request back. Returns False if a supervisor has taken it, so that the command may have run."""
        is_taken = self._is_sent
        with self._theirs, suppress(OSError):  # nothing is left, or it was closed before
            while self._theirs.recv(_REPORT_BYTES, socket.MSG_DONTWAIT):
                is_taken = False
        return not is_taken
