"""The supervisor program, which starts commands and kills their process trees.

It imports only the standard library, `process_table`, `landlock` and `mount_namespace`, so that it starts fast. A
server has one program for the agent's commands and one for a person's own. Its root supervisor forks a command
supervisor in advance; that waits for a request and starts the command, confined as the request says. A command
supervisor is a child subreaper: every descendant of the command stays below it, in any session or process group, also
after daemonizing. When it has no children left, the whole tree has ended. No other process is signalled. The server may
then keep the supervisor for another command, which saves a fork; it does so only after it has read that the tree ended,
so that it never signals a supervisor that has a command of somebody else.

A request waits in the socket of its command before a supervisor gets that socket. A supervisor takes the request by
reading it; until then the server can read it back, and then the command is never started.

If a command supervisor is killed, its processes become children of the root supervisor, which kills them. If the server
dies, its sockets close, and all supervisors kill their processes and exit.

On systems other than Linux there are no subreapers: the command's process group and `ps` are used instead.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import gc
import os
import select
import signal
import socket
import struct
import subprocess
import threading
import time
from typing import NamedTuple, NoReturn

from holdfast.tools.process.landlock import landlock_version, restrict_thread
from holdfast.tools.process.mount_namespace import (
    NamespaceView,
    enter_namespace,
    prepare_namespace,
    prepare_namespaces,
)
from holdfast.tools.process.process_table import (
    IS_LINUX,
    Process,
    describe_process,
    find_process,
    quick_tree_below,
    send_signal,
    tree_below,
)

LENGTH = struct.Struct("!I")
"""Header of a packed `CommandRequest`: the number of bytes that follow."""

KILL_MESSAGE = b"k"
"""The server sends this to kill a command. Closing the socket has the same effect."""

KEEP_MESSAGE = b"n"
"""The server sends this when a command's tree has ended, so that its supervisor waits for the next command."""

_PR_SET_PDEATHSIG = 1
_PR_SET_NAME = 15
_PR_SET_CHILD_SUBREAPER = 36
_CAUGHT_SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT")
"""These are handled and not ignored, because the command would inherit an ignored signal."""
_IGNORED_SIGNALS = ("SIGPIPE", "SIGXFSZ")
"""Python ignores these; a command must not."""
_MAX_PROBLEM = 4096
_MAX_DESCRIPTORS = 5
_HIGHEST_DESCRIPTOR = 1024
_MAX_NAMES = 32
_FREEZE_PASSES = 20
_SPARE_SECONDS = 0.2
"""How long no supervisor may wait for a request, before one is forked in advance."""
_QUICK_SECONDS = 0.03
"""How long interrupted processes may take to end, before those that appeared meanwhile are interrupted."""


class CommandKind(NamedTuple):
    """Announces a command. It is one byte, which comes with the descriptors."""

    piped: bool
    """Whether it has pipes for stdin, stdout and stderr. Otherwise it has one output, and no input."""
    in_namespace: bool
    network: bool = True
    """Whether it has the network. Only a command in a namespace may have none."""

    def pack(self) -> bytes:
        return bytes([self.piped + 2 * self.in_namespace + 4 * self.network])

    @classmethod
    def unpack(cls, data: bytes) -> CommandKind:
        return cls(bool(data[0] & 1), bool(data[0] & 2), bool(data[0] & 4))


class SupervisorNote(NamedTuple):
    """What a command supervisor tells the root supervisor."""

    pid: int
    kind: CommandKind | None
    """The command that it has taken. None: it waits for another one."""

    def pack(self) -> bytes:
        return _NOTE.pack(self.pid, b"-" if self.kind is None else self.kind.pack())

    @classmethod
    def unpack_all(cls, data: bytes) -> list[SupervisorNote]:
        return [cls(pid, None if kind == b"-" else CommandKind.unpack(kind)) for pid, kind in _NOTE.iter_unpack(data)]


_NOTE = struct.Struct("=ic")
_NOTES_BYTES = _NOTE.size * 100


class CommandRequest(NamedTuple):
    """A command for a supervisor to run."""

    directory: str
    argv: list[str]
    environment: dict[str, str]
    grace: float
    """Seconds between SIGINT and SIGKILL."""
    limit: float
    """Seconds after which a kill gives up and names the survivors."""
    view: NamespaceView | None = None
    """What the command sees in namespaces of its own. Needs a ruleset that restricts signals."""

    def pack(self) -> bytes:
        """Raises `ValueError` if a field has a zero byte."""
        variables = [f"{name}={value}" for name, value in self.environment.items()]
        view = self.view.pack() if self.view else []
        counts = [str(len(view)), str(len(self.argv))]
        fields = [self.directory, str(self.grace), str(self.limit), *counts, *view, *self.argv, *variables]
        body = os.fsencode("\0".join(fields))
        if body.count(0) != len(fields) - 1:
            raise ValueError("it contains a zero byte; remove it")
        return LENGTH.pack(len(body)) + body

    @classmethod
    def unpack(cls, body: bytes) -> CommandRequest:
        directory, grace, limit, paths, words, *rest = os.fsdecode(body).split("\0")
        view, rest = rest[: int(paths)], rest[int(paths) :]
        argv, variables = rest[: int(words)], rest[int(words) :]
        environment = dict(variable.split("=", 1) for variable in variables)
        return cls(
            directory, argv, environment, float(grace), float(limit), NamespaceView.unpack(view) if view else None
        )


class KillTimes(NamedTuple):
    """The part of a packed `CommandRequest` that its supervisor needs if another process unpacks the rest."""

    grace: float
    limit: float

    @classmethod
    def unpack(cls, body: bytes) -> KillTimes:
        _, grace, limit, _ = body.split(b"\0", 3)
        return cls(float(grace), float(limit))


class CommandStreams(NamedTuple):
    """The descriptors that a command gets as its standard streams."""

    output: int
    input: int = subprocess.DEVNULL
    errors: int = subprocess.STDOUT

    @property
    def descriptors(self) -> list[int]:
        return [descriptor for descriptor in self if descriptor >= 0]

    def close(self) -> None:
        for descriptor in self.descriptors:
            os.close(descriptor)

    def replace_standard(self) -> None:
        """Make them the standard streams of the calling process."""
        os.dup2(os.open(os.devnull, os.O_RDONLY) if self.input < 0 else self.input, 0)
        os.dup2(self.output, 1)
        os.dup2(self.output if self.errors < 0 else self.errors, 2)


class ChildExitPipe:
    """A pipe that becomes readable when a child exits."""

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
    """Starts one command, reaps its processes, and kills all of them on request."""

    def __init__(
        self,
        control: socket.socket,
        kind: CommandKind,
        *,
        process: Process | None,
        exits: ChildExitPipe,
        starter: ConfinedStarter | None = None,
    ) -> None:
        """``process`` is the calling process, which the server is told."""
        self._process = process
        self._control = control
        self._kind = kind
        self._starter = starter
        self._exits = exits
        self._poll = select.poll()
        self._poll.register(self._exits.read_end, select.POLLIN)
        self._command: subprocess.Popen[bytes] | None = None
        self._pid = 0
        self._group = 0
        self._unsent = b""
        """Reports that are sent with the next one."""
        self._mounts: int | None = None
        """Keeps the namespace of a confined command until its end is reported: to remove the mounts takes time."""

    def run(self, streams: CommandStreams, ruleset: int | None = None) -> int:
        """Run until the command's tree has ended. Returns 0 if no process is left, else 1."""
        body = _receive_body(self._control)
        if body is None:
            return 0
        try:
            self._pid = self._launch(body, streams, ruleset)
        except OSError as error:
            reason = f"{error.strerror or error}: {error.filename or CommandRequest.unpack(body).argv[0]!r}"
            self._report("failed", str(error.errno or 0), reason)
            return 0
        finally:
            streams.close()
        self._group = 0 if IS_LINUX else self._pid
        self._report("started", *map(str, self._process or ()))
        try:
            return self._follow(KillTimes.unpack(body))
        finally:
            if self._mounts is not None:
                os.close(self._mounts)

    def _follow(self, times: KillTimes) -> int:
        """Reap processes until none is left, or kill them on request."""
        self._poll.register(self._control.fileno(), select.POLLIN)
        while True:
            ready = {descriptor for descriptor, _ in self._poll.poll()}
            if not self._has_members():
                self._report("empty")
                return 0
            if self._control.fileno() in ready:
                return self._kill(times)

    def is_kept(self) -> bool:
        """Wait until the server knows that the tree has ended. Returns whether another command may come."""
        try:
            return self._control.recv(1) == KEEP_MESSAGE
        except OSError:
            return False

    def _launch(self, body: bytes, streams: CommandStreams, ruleset: int | None) -> int:
        if self._kind.in_namespace:
            starter = self._starter
            if starter is None or not starter.is_ready(network=self._kind.network):
                if starter:
                    starter.end()
                starter = ConfinedStarter(network=self._kind.network)
            pid = starter.start(body, streams, ruleset)
            with contextlib.suppress(OSError):  # it has ended already
                self._mounts = os.open(f"/proc/{pid}/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
            return pid
        if self._starter:
            self._starter.end()
        request = CommandRequest.unpack(body)
        if request.view is not None:
            raise OSError(errno.EINVAL, "it was not announced as a command in a namespace")
        self._command = _launch(request, streams) if ruleset is None else _launch_confined(request, streams, ruleset)
        return self._command.pid

    def _kill(self, times: KillTimes) -> int:
        self._poll.unregister(self._control.fileno())
        begin = time.monotonic()
        killed = _signal_each(self._quick_members(), signal.SIGINT)
        gone = self._gone_by(begin + min(_QUICK_SECONDS, times.grace))
        if not gone:
            missed = [process for process in self._quick_members() if (process.pid, process.started) not in killed]
            killed |= _signal_each(missed, signal.SIGINT)
            gone = self._gone_by(begin + times.grace)
        while not gone and time.monotonic() < begin + times.limit:
            killed |= self._freeze()
            killed |= _signal_each(self._quick_members(), signal.SIGKILL)
            gone = self._gone_by(min(time.monotonic() + 0.05, begin + times.limit))
        left = [] if gone else [process for process in self._members() if process.alive]
        for process in left:
            killed.pop((process.pid, process.started), None)
            self._report("left", describe_process(process))
        names = list(killed.values())
        for name in names[:_MAX_NAMES]:
            self._report("killed", name)
        if len(names) > _MAX_NAMES:
            self._report("killed", f"{len(names) - _MAX_NAMES} more")
        self._report("ended")
        return 0 if gone else 1

    def _freeze(self) -> dict[tuple[int, str], str]:
        """Stop all processes until no new one appears, so that none can fork before the kill that follows."""
        names: dict[tuple[int, str], str] = {}
        for _ in range(_FREEZE_PASSES):
            new = _new_ones(quick_tree_below(os.getpid()), names) or _new_ones(self._members(), names)
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
        """Whether a process is left. If not, the exit of the command is reported with the report that follows."""
        self._exits.drain()
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                if not self._group or not any(process.alive for process in self._members()):
                    return False
                break
            if pid == 0:
                break
            if pid == self._pid:
                code = os.waitstatus_to_exitcode(status)
                if self._command is not None:
                    self._command.returncode = code  # subprocess must not wait for it: its number may be used again
                self._unsent += f"exited\t{code}\n".encode()
        self._send_unsent()
        return True

    def _quick_members(self) -> list[Process]:
        """The members. One may be missing while another ends; of frozen ones none is missing."""
        return quick_tree_below(os.getpid()) or self._members()

    def _members(self) -> list[Process]:
        return tree_below(os.getpid(), group=self._group)

    def _report(self, *fields: str) -> None:
        self._unsent += "\t".join(fields).encode("utf-8", "replace") + b"\n"
        self._send_unsent()

    def _send_unsent(self) -> None:
        reports, self._unsent = self._unsent, b""
        try:
            if reports:
                self._control.sendall(reports)
        except OSError:
            return  # the server has ended; the next poll reports the closed socket, which kills the command


def _new_ones(processes: list[Process], known: dict[tuple[int, str], str]) -> list[Process]:
    return [process for process in processes if process.alive and (process.pid, process.started) not in known]


def _signal_each(processes: list[Process], number: int) -> dict[tuple[int, str], str]:
    """Signal these processes and continue stopped ones. Returns their descriptions."""
    names = {}
    for process in processes:
        if process.alive:
            names[process.pid, process.started] = describe_process(process)
            send_signal(process, number)
            if process.state.startswith("T"):
                send_signal(process, signal.SIGCONT)
    return names


def _receive_body(control: socket.socket) -> bytes | None:
    """Receive a packed `CommandRequest`. None if the other side has closed the socket."""
    header = _receive_exactly(control, LENGTH.size)
    return _receive_exactly(control, LENGTH.unpack(header)[0]) if header else None


def _receive_exactly(control: socket.socket, size: int) -> bytes | None:
    parts = []
    while size:
        part = control.recv(size)
        if not part:
            return None
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def _launch(request: CommandRequest, streams: CommandStreams) -> subprocess.Popen[bytes]:
    """Start the command in its own session. The caller must keep the object, or subprocess reaps the command."""
    return subprocess.Popen(
        request.argv,
        cwd=request.directory,
        env=request.environment,
        stdin=streams.input,
        stdout=streams.output,
        stderr=streams.errors,
        start_new_session=True,
    )


def _launch_confined(request: CommandRequest, streams: CommandStreams, ruleset: int) -> subprocess.Popen[bytes]:
    """Start the command from a thread that has confined itself. The supervisor itself stays unconfined."""
    results: list[subprocess.Popen[bytes] | OSError] = []

    def launch() -> None:
        try:
            restrict_thread(ruleset)
            results.append(_launch(request, streams))
        except OSError as error:
            results.append(error)

    thread = threading.Thread(target=launch)
    thread.start()
    thread.join()
    os.close(ruleset)
    if isinstance(results[0], OSError):
        raise results[0]
    return results[0]


class ConfinedStarter:
    """A process that waits for a request and becomes its command, in namespaces of its own.

    It is forked in advance if the command before had namespaces, to save the time. Its namespaces have the mounts of
    that moment, so it is of no use after one has changed: it would not see what was mounted, and would keep what was
    unmounted. It ends with its supervisor.
    """

    def __init__(self, *, network: bool) -> None:
        self._network = network
        self._has_ended = False
        self.mounts = os.open("/proc/self/mountinfo", os.O_RDONLY | os.O_CLOEXEC)
        """Polled: an error condition says that a mount of the supervisor has changed since it was opened."""
        self._socket, theirs = socket.socketpair()
        self._pid = os.fork()
        if self._pid == 0:
            _become_command(theirs, network=network)
        theirs.close()

    def is_ready(self, *, network: bool) -> bool:
        """Whether it can become a command with or without the network."""
        if self._has_ended:
            return False
        poll = select.poll()
        poll.register(self.mounts, select.POLLPRI)
        poll.register(self._socket.fileno(), select.POLLIN)  # it has failed, and says why
        return network == self._network and not poll.poll(0)

    def start(self, body: bytes, streams: CommandStreams, ruleset: int | None) -> int:
        """Start the command of a packed request; return its pid. Raises the `OSError` of the process."""
        descriptors = streams.descriptors if ruleset is None else [*streams.descriptors, ruleset]
        os.close(self.mounts)
        with self._socket:
            socket.send_fds(self._socket, [b"c"], descriptors)
            self._socket.sendall(LENGTH.pack(len(body)) + body)
            problem = self._socket.recv(_MAX_PROBLEM)  # nothing: the start of the command closed the socket
        if ruleset is not None:
            os.close(ruleset)
        if problem:
            os.waitpid(self._pid, 0)
            number, text, name = problem.decode("utf-8", "replace").split("\0")
            raise OSError(int(number), text, name)
        return self._pid

    def end(self) -> None:
        """End it without a command. It is reaped with the processes of the next command."""
        if not self._has_ended:
            self._has_ended = True
            os.close(self.mounts)
            self._socket.close()


def _become_command(connection: socket.socket, *, network: bool) -> NoReturn:
    """Wait for a request, confine the calling process, and replace it by the command."""
    try:
        os.setsid()
        signal.set_wakeup_fd(-1)
        os.closerange(3, connection.fileno())
        os.closerange(connection.fileno() + 1, _HIGHEST_DESCRIPTOR)
        for name in _IGNORED_SIGNALS:
            signal.signal(getattr(signal, name), signal.SIG_DFL)
        prepared = prepare_namespace(network=network)
        _, descriptors, _, _ = socket.recv_fds(connection, 1, _MAX_DESCRIPTORS)
        body = _receive_body(connection)
        request = CommandRequest.unpack(body) if body else None
        if request is not None and request.view is not None:
            enter_namespace(request.view, directory=request.directory, prepared=prepared)
            *streams, ruleset = descriptors
            restrict_thread(ruleset)
            CommandStreams(*streams).replace_standard()
            for descriptor in descriptors:
                os.set_inheritable(descriptor, False)
            os.execvpe(request.argv[0], request.argv, request.environment)
    except OSError as error:
        connection.sendall(f"{error.errno or 0}\0{error.strerror or error}\0{error.filename or ''}".encode())
    except Exception as error:  # noqa: BLE001 - reported by the parent, because nothing else can
        connection.sendall(f"0\0{type(error).__name__}: {error}\0".encode())
    finally:
        os._exit(1)


class RootSupervisor:
    """Keeps a command supervisor waiting for the next request, and kills the processes of supervisors that died.

    One is forked when a request finds none waiting, or when none has waited for a while.
    """

    def __init__(self, server: socket.socket) -> None:
        self._server = server
        self._exits = ChildExitPipe()
        self._supervisors: set[int] = set()
        self._waiting: set[int] = set()
        """Those that wait for a request."""
        self._has_orphans = False
        self._last_kind: CommandKind | None = None
        """The kind of the last command. The next one probably has the same."""
        self._open = True
        self._notes, self._note = os.pipe()
        """Supervisors write to this pipe when they take a request, and when they wait for another one."""

    def run(self) -> None:
        poll = select.poll()
        poll.register(self._exits.read_end, select.POLLIN)
        poll.register(self._notes, select.POLLIN)
        poll.register(self._server.fileno())
        self._add_supervisor()
        while self._open or self._supervisors:
            if self._open:  # a hang-up is always reported
                poll.modify(self._server.fileno(), 0 if self._waiting else select.POLLIN)
            ready = dict(poll.poll(self._patience()))
            if self._notes in ready:
                self._read_notes()
            self._reap()
            if self._has_orphans:
                self._has_orphans = self._kill_orphans()
            if self._open and ready.get(self._server.fileno(), 0) & ~select.POLLIN:
                poll.unregister(self._server.fileno())
                self._open = False
            if self._open and not self._waiting and (not ready or self._server.fileno() in ready):
                self._add_supervisor()

    def _patience(self) -> int | None:
        """The milliseconds after which there is something to do if nothing happens."""
        if self._has_orphans:
            return 20
        return int(_SPARE_SECONDS * 1000) if self._open and not self._waiting else None

    def _read_notes(self) -> None:
        for pid, kind in SupervisorNote.unpack_all(os.read(self._notes, _NOTES_BYTES)):
            if kind is None:
                self._waiting.add(pid)
            else:
                self._waiting.discard(pid)
                self._last_kind = kind

    def _add_supervisor(self) -> None:
        """Fork a supervisor that waits for a request of the server. It ends with this process until it has one."""
        parent = os.getpid()
        pid = os.fork()
        if pid:
            self._supervisors.add(pid)
            self._waiting.add(pid)
            return
        code = 1
        try:
            _prctl(_PR_SET_CHILD_SUBREAPER, 1)
            code = self._supervise(parent)
        finally:
            os._exit(code)

    def _supervise(self, parent: int) -> int:
        """Take requests of the server and run their commands, as long as the server wants. Returns the exit status."""
        exits = ChildExitPipe()
        process = find_process(os.getpid())
        gc.freeze()  # what is shared with the root supervisor is never looked at
        while True:
            _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != parent:
                return 0
            last = self._last_kind
            starter = ConfinedStarter(network=last.network) if last and last.in_namespace else None
            kind, descriptors = self._take_request(starter)
            if kind is None:
                return 0
            _prctl(_PR_SET_PDEATHSIG, 0)
            self._tell_root(kind)
            count = 4 if kind.piped else 2
            with socket.socket(fileno=descriptors[0]) as control:
                supervisor = CommandSupervisor(control, kind, process=process, exits=exits, starter=starter)
                status = supervisor.run(CommandStreams(*descriptors[1:count]), *descriptors[count:])
                if status or not supervisor.is_kept():
                    return status
            self._last_kind = kind
            self._tell_root(None)
            del supervisor
            gc.collect()

    def _take_request(self, starter: ConfinedStarter | None) -> tuple[CommandKind | None, list[int]]:
        """Wait for a request. Returns its kind and the descriptors that come with it; no kind if the server ended.

        The starter is ended as soon as a mount changes.
        """
        data, descriptors = b"", list[int]()
        poll = select.poll()
        poll.register(self._server.fileno(), select.POLLIN)
        if starter is not None:
            poll.register(starter.mounts, select.POLLPRI)
        while len(descriptors) < 2:
            if starter is not None and starter.mounts in (ready for ready, _ in poll.poll()):
                poll.unregister(starter.mounts)
                starter.end()
                starter = None
            try:
                flags = socket.MSG_DONTWAIT if starter is not None else 0
                data, descriptors, _, _ = socket.recv_fds(self._server, 1, _MAX_DESCRIPTORS, flags)
            except BlockingIOError:
                continue  # another supervisor has taken it
            except OSError:
                return None, []
            if not data:
                return None, []
        for descriptor in descriptors:
            os.set_inheritable(descriptor, False)
        return CommandKind.unpack(data), descriptors

    def _tell_root(self, kind: CommandKind | None) -> None:
        os.write(self._note, SupervisorNote(os.getpid(), kind).pack())

    def _reap(self) -> None:
        self._exits.drain()
        try:
            while (found := os.waitpid(-1, os.WNOHANG))[0]:
                pid, status = found
                self._has_orphans |= pid in self._supervisors and status != 0
                self._supervisors.discard(pid)
                self._waiting.discard(pid)
        except ChildProcessError:
            pass

    def _kill_orphans(self) -> bool:
        """Kill processes whose supervisor died. Returns True while some exist."""
        supervised = {process for pid in self._supervisors for process in tree_below(pid)}
        orphans = [p for p in tree_below(os.getpid()) if p not in supervised and p.pid not in self._supervisors]
        for process in orphans:
            send_signal(process, signal.SIGKILL)
        return bool(orphans)


def _prctl(option: int, value: int | bytes) -> None:
    if IS_LINUX:
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def main(descriptor: int) -> None:
    for name in _CAUGHT_SIGNALS:
        signal.signal(getattr(signal, name), lambda *_: None)
    _prctl(_PR_SET_NAME, b"holdfast-superv")
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    gc.disable()  # a collection would copy the memory that forked processes share
    if IS_LINUX:
        prepare_namespaces()
        landlock_version()  # loads what a command needs later
    with socket.socket(fileno=descriptor) as server:
        RootSupervisor(server).run()
