"""The program that keeps commands. It imports only the standard library and `proctable`, so that it starts fast.

The server has one keeper and asks it for each command. The keeper forks a supervisor, the supervisor the command. A
supervisor is a child subreaper: whatever the command starts, in whatever session or group, however it detaches itself,
stays below it, and having no children left proves that all of it is gone. Nothing else is ever signalled.

If a supervisor is killed, what it kept falls to the keeper, which ends it. If the server goes away, every socket
closes, and supervisors and keeper end what they kept and themselves.

Without subreapers (not Linux) the command's process group takes their place, and `ps` that of ``/proc``.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import socket
import struct
import subprocess
import time
from typing import NamedTuple

from holdfast.tools.process.process_table import (
    IS_LINUX,
    Process,
    describe_process,
    find_process,
    send_signal,
    tree_below,
)

LENGTH = struct.Struct("!I")
"""Stands before a `Request`: how many bytes follow."""

KILL_MESSAGE = b"k"
"""What the server says to end a command; closing the socket says the same."""

_PR_SET_NAME = 15
_PR_SET_CHILD_SUBREAPER = 36
_CAUGHT_SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT")
"""Handled, not ignored: a handler is not inherited by the command."""
_MAX_NAMES = 32
_FREEZE_PASSES = 20


class CommandRequest(NamedTuple):
    """What the server asks a supervisor to run."""

    directory: str
    argv: list[str]
    environment: dict[str, str]
    grace: float
    """Seconds between the interrupt and the kill."""
    limit: float
    """Seconds after which an end is given up; what still lives is named."""

    def pack(self) -> bytes:
        variables = [f"{name}={value}" for name, value in self.environment.items()]
        fields = [self.directory, str(self.grace), str(self.limit), str(len(self.argv)), *self.argv, *variables]
        body = b"\0".join(os.fsencode(field) for field in fields)
        return LENGTH.pack(len(body)) + body

    @classmethod
    def unpack(cls, body: bytes) -> CommandRequest:
        directory, grace, limit, count, *rest = [os.fsdecode(field) for field in body.split(b"\0")]
        argv, variables = rest[: int(count)], rest[int(count) :]
        environment = dict(variable.split("=", 1) for variable in variables)
        return cls(directory, argv, environment, float(grace), float(limit))


class ChildExitPipe:
    """Becomes readable when a child has ended."""

    def __init__(self) -> None:
        self.read_end, self._write_end = os.pipe()
        for descriptor in (self.read_end, self._write_end):
            os.set_blocking(descriptor, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._write_end, warn_on_full_buffer=False)

    def drain(self) -> None:
        try:
            while os.read(self.read_end, 4096):
                pass
        except BlockingIOError:
            pass


class CommandSupervisor:
    """Keeps one command: starts it, reaps what it leaves, ends all of it when told."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._exits = ChildExitPipe()
        self._poll = select.poll()
        self._poll.register(self._exits.read_end, select.POLLIN)
        self._shell: subprocess.Popen[bytes] | None = None
        self._group = 0

    def run(self, output: int) -> int:
        """The supervisor's whole life; its exit code is 0 if nothing is left below it."""
        self._tell("ready")
        request = _receive_request(self._control)
        if request is None:
            return 0
        try:
            self._shell = _launch(request, output)
        except OSError as error:
            self._tell("failed", f"{error.strerror or error}: {error.filename or request.argv[0]!r}")
            return 0
        finally:
            os.close(output)
        self._group = 0 if IS_LINUX else self._shell.pid
        self._tell("started", *map(str, find_process(os.getpid()) or ()))
        self._poll.register(self._control.fileno(), select.POLLIN)
        while True:
            ready = {descriptor for descriptor, _ in self._poll.poll()}
            if not self._has_members():
                self._tell("empty")
                return 0
            if self._control.fileno() in ready:
                return self._end(request)

    def _end(self, request: CommandRequest) -> int:
        self._poll.unregister(self._control.fileno())
        begin = time.monotonic()
        names = self._signal_all(signal.SIGINT)
        gone = self._gone_by(begin + request.grace)
        while not gone and time.monotonic() < begin + request.limit:
            names |= self._freeze()
            names |= self._signal_all(signal.SIGKILL)
            gone = self._gone_by(min(time.monotonic() + 0.05, begin + request.limit))
        left = [] if gone else [process for process in self._members() if process.alive]
        for process in left:
            names.pop((process.pid, process.started), None)
            self._tell("left", describe_process(process))
        killed = list(names.values())
        for name in killed[:_MAX_NAMES]:
            self._tell("killed", name)
        if len(killed) > _MAX_NAMES:
            self._tell("killed", f"{len(killed) - _MAX_NAMES} more")
        self._tell("ended")
        return 0 if gone else 1

    def _signal_all(self, number: int) -> dict[tuple[int, str], str]:
        """Signal what is there now, waking what is stopped; returns the names."""
        names = {}
        for process in self._members():
            if process.alive:
                names[process.pid, process.started] = describe_process(process)
                send_signal(process, number)
                if process.state.startswith("T"):
                    send_signal(process, signal.SIGCONT)
        return names

    def _freeze(self) -> dict[tuple[int, str], str]:
        """Stop everything until nothing new appears, so that nothing forks away from the kill that follows."""
        names: dict[tuple[int, str], str] = {}
        for _ in range(_FREEZE_PASSES):
            new = [process for process in self._members() if process.alive and process[0::4] not in names]
            if not new:
                break
            for process in new:
                names[process.pid, process.started] = describe_process(process)
                send_signal(process, signal.SIGSTOP)
        return names

    def _gone_by(self, deadline: float) -> bool:
        while self._has_members():
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            self._poll.poll(max(1, int(min(left, 0.05 if self._group else left) * 1000)))
        return True

    def _has_members(self) -> bool:
        self._exits.drain()
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return bool(self._group) and any(process.alive for process in self._members())
            if pid == 0:
                return True
            if self._shell and pid == self._shell.pid:
                self._tell("exited", str(os.waitstatus_to_exitcode(status)))

    def _members(self) -> list[Process]:
        return tree_below(os.getpid(), group=self._group)

    def _tell(self, *words: str) -> None:
        try:
            self._control.sendall("\t".join(words).encode("utf-8", "replace") + b"\n")
        except OSError:
            return  # the server is gone: the next look at the socket says so, and ends everything


def _receive_request(control: socket.socket) -> CommandRequest | None:
    header = _receive_exactly(control, LENGTH.size)
    body = _receive_exactly(control, LENGTH.unpack(header)[0]) if header else None
    return CommandRequest.unpack(body) if body else None


def _receive_exactly(control: socket.socket, size: int) -> bytes | None:
    parts = []
    while size:
        part = control.recv(size)
        if not part:
            return None
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def _launch(request: CommandRequest, output: int) -> subprocess.Popen[bytes]:
    """Start the command in a session of its own. Hold on to it: let go of, it would be reaped behind our back."""
    return subprocess.Popen(
        request.argv,
        cwd=request.directory,
        env=request.environment,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        start_new_session=True,
    )


class RootSupervisor:
    """Forks a supervisor for each pair of descriptors it is sent, and ends what dead supervisors left."""

    def __init__(self, server: socket.socket) -> None:
        self._server = server
        self._exits = ChildExitPipe()
        self._supervisors: set[int] = set()
        self._strays = False
        self._open = True

    def run(self) -> None:
        poll = select.poll()
        poll.register(self._exits.read_end, select.POLLIN)
        poll.register(self._server.fileno(), select.POLLIN)
        while self._open or self._supervisors:
            ready = {descriptor for descriptor, _ in poll.poll(20 if self._strays else None)}
            self._reap()
            if self._strays:
                self._strays = self._end_strays()
            if self._server.fileno() in ready and not self._take():
                poll.unregister(self._server.fileno())
                self._open = False

    def _take(self) -> bool:
        """One request; False when the server is gone."""
        try:
            data, descriptors, _, _ = socket.recv_fds(self._server, 1, 2)
        except OSError:
            return False
        if not data or len(descriptors) != 2:
            return bool(data)
        for descriptor in descriptors:
            os.set_inheritable(descriptor, False)
        pid = os.fork()
        if pid == 0:
            self._server.close()
            code = 1
            try:
                _prctl(_PR_SET_CHILD_SUBREAPER, 1)
                with socket.socket(fileno=descriptors[0]) as control:
                    code = CommandSupervisor(control).run(descriptors[1])
            finally:
                os._exit(code)
        self._supervisors.add(pid)
        for descriptor in descriptors:
            os.close(descriptor)
        return True

    def _reap(self) -> None:
        self._exits.drain()
        try:
            while (found := os.waitpid(-1, os.WNOHANG))[0]:
                pid, status = found
                self._strays |= pid in self._supervisors and status != 0
                self._supervisors.discard(pid)
        except ChildProcessError:
            pass

    def _end_strays(self) -> bool:
        """Kill what fell to us; True while some of it is there."""
        kept = {process for pid in self._supervisors for process in tree_below(pid)}
        strays = [p for p in tree_below(os.getpid()) if p not in kept and p.pid not in self._supervisors]
        for process in strays:
            send_signal(process, signal.SIGKILL)
        return bool(strays)


def _prctl(option: int, value: int | bytes) -> None:
    if IS_LINUX:
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def main(descriptor: int) -> None:
    for name in _CAUGHT_SIGNALS:
        signal.signal(getattr(signal, name), lambda *_: None)
    _prctl(_PR_SET_NAME, b"holdfast-keeper")
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    with socket.socket(fileno=descriptor) as server:
        RootSupervisor(server).run()
