"""Finds out whether the other end of a connection is a process that the agent's tools started, or a descendant of one.

The server refuses such peers: a command could otherwise approve its own calls through the server's socket. Every
descendant of a command stays below its supervisor, also after daemonizing (see `supervisor`), so descent is the whole
rule. A person's own commands have supervisors of their own and are not refused.

The kernel names the peer of a Unix socket by a descriptor that cannot refer to a later process with the same pid
(Linux 6.5; before that by pid). A process whose ancestors cannot be read counts as a tool's process.
"""

from __future__ import annotations

import errno
import ipaddress
import os
import socket
import struct
from collections.abc import Iterable, Iterator

from holdfast.tools.process.command_process import MARK_VARIABLE, CommandLauncher
from holdfast.tools.process.process_table import (
    IS_LINUX,
    Process,
    find_process,
    process_environment,
    process_table,
    tree_below,
)

_SO_PEERCRED, _SO_PEERPIDFD = 17, 77
_SOL_LOCAL, _LOCAL_PEERPID = 0, 2
"""Of macOS."""
_TRIES = 5
_CREDENTIALS = struct.Struct("iII")


class ToolPeers:
    """Recognises connections of processes below the supervisors of tools."""

    def __init__(self, *, tools: CommandLauncher, person: CommandLauncher, adopts_orphans: bool) -> None:
        self._tools = tools
        self._person = person
        self._adopts_orphans = adopts_orphans
        """Whether this process is a child subreaper: processes whose supervisors were killed become its children."""

    @property
    def exist(self) -> bool:
        """Whether a tool has started any process so far."""
        return self._tools.has_started

    def is_unix_peer(self, connection: socket.socket) -> bool:
        """Whether the peer of a Unix socket is a tool's process. Reads a few files of ``/proc``."""
        if not self.exist:
            return False
        try:
            descriptor = _peer_descriptor(connection)
        except OSError:
            return True  # the process that connected has ended; another one uses its connection
        if descriptor is None:
            pid = _peer_pid(connection)
            return pid < 0 or (pid > 0 and self._is_tool(pid))
        try:
            pid = _pid_of(descriptor)
            if pid == 0:  # of an outer pid namespace, so it is no descendant of this process
                return False
            return pid < 0 or self._is_tool(pid) or _pid_of(descriptor) != pid
        finally:
            os.close(descriptor)

    def is_tcp_peer(self, client: tuple[str, int], server: tuple[str, int]) -> bool:
        """Whether the client of a TCP connection is a tool's process of this machine. Blocking: call it in a thread."""
        if not self.exist or not IS_LINUX or not _is_local(client[0], server[0]):
            return False
        links = {f"socket:[{inode}]" for inode in _socket_inodes(client[1], server[1])}
        below = self._tool_processes()
        if any(_may_hold(process.pid, links) for process in below):
            return True
        tool_pids = {process.pid for process in below}
        others = [process for process in process_table() if process.pid not in tool_pids and process.alive]
        return not any(_may_hold(process.pid, links) for process in others)  # a descriptor in flight is held by none

    def _is_tool(self, pid: int) -> bool:
        """Whether a process is below a tool's supervisor, or below this process without a person's supervisor."""
        ancestors = _ancestors(pid)
        if ancestors is None:
            return True
        identities = {(process.pid, process.started) for process in ancestors}
        if identities & self._person.programs:
            return False
        if identities & self._tools.programs:
            return True
        if self._adopts_orphans and any(process.pid == os.getpid() for process in ancestors[1:]):
            return True
        return not IS_LINUX and f"{MARK_VARIABLE}=" in process_environment(pid)

    def _tool_processes(self) -> list[Process]:
        roots = [pid for pid, _ in self._tools.programs]
        found = {process.pid: process for root in roots for process in tree_below(root)}
        if self._adopts_orphans:
            started_here = {*roots, *(pid for pid, _ in self._person.programs)}
            exempt = {process.pid for root in started_here - {*roots} for process in tree_below(root)} | started_here
            found |= {process.pid: process for process in tree_below(os.getpid()) if process.pid not in exempt}
        return list(found.values())


def _peer_descriptor(connection: socket.socket) -> int | None:
    """Return a pidfd of the process that connected; ``None`` if the kernel has none. `OSError` if it has ended."""
    if not IS_LINUX:
        return None
    try:
        return connection.getsockopt(socket.SOL_SOCKET, _SO_PEERPIDFD)
    except OSError as error:
        if error.errno == errno.ENOPROTOOPT:
            return None
        raise


def _peer_pid(connection: socket.socket) -> int:
    """Return the pid of the process that connected; -1 if it is unknown."""
    try:
        if not IS_LINUX:
            return connection.getsockopt(_SOL_LOCAL, _LOCAL_PEERPID)
        size = _CREDENTIALS.size
        pid: int = _CREDENTIALS.unpack(connection.getsockopt(socket.SOL_SOCKET, _SO_PEERCRED, size))[0]
        return pid
    except OSError:
        return -1


def _pid_of(descriptor: int) -> int:
    """Return the pid of a pidfd: 0 if it is in an outer namespace, -1 if the process has ended."""
    with open(f"/proc/self/fdinfo/{descriptor}", "rb") as file:
        for line in file:
            if line.startswith(b"Pid:"):
                return int(line[4:])
    return -1


def _ancestors(pid: int) -> list[Process] | None:
    """Return a process and its ancestors; ``None`` if they cannot be read."""
    for _ in range(_TRIES):
        if chain := _read_ancestors(pid):
            return chain
    return None


def _read_ancestors(pid: int) -> list[Process] | None:
    """Read the chain once. A parent that is younger than its child has taken over the pid of the real one."""
    table = {} if IS_LINUX else {process.pid: process for process in process_table()}
    chain: list[Process] = []
    while pid > 0:
        process = find_process(pid) if IS_LINUX else table.get(pid)
        if process is None or (IS_LINUX and chain and int(process.started) > int(chain[-1].started)):
            return None
        chain.append(process)
        pid = process.parent
    return chain


def _is_local(client: str, server: str) -> bool:
    return client == server or ipaddress.ip_address(client.partition("%")[0]).is_loopback


def tcp_peer_uid(client: tuple[str, int], server: tuple[str, int]) -> int | None:
    """The user whose process is the client of a TCP connection on this machine; ``None`` if it is unknown. Blocking."""
    if not IS_LINUX or not _is_local(client[0], server[0]):
        return None
    return next((int(fields[7]) for fields in _socket_rows(client[1], server[1])), None)


def _socket_inodes(client_port: int, server_port: int) -> Iterator[str]:
    return (fields[9] for fields in _socket_rows(client_port, server_port))


def _socket_rows(client_port: int, server_port: int) -> Iterator[list[str]]:
    """The rows of sockets from one port to the other. Only processes of this network namespace are listed."""
    for name in ("tcp", "tcp6"):
        try:
            with open(f"/proc/net/{name}", encoding="ascii") as file:
                lines = file.read().splitlines()[1:]
        except OSError:
            continue
        for fields in map(str.split, lines):
            if len(fields) > 9 and (_port(fields[1]), _port(fields[2])) == (client_port, server_port):
                yield fields


def _port(address: str) -> int:
    return int(address.rpartition(":")[2], 16)


def _may_hold(pid: int, links: Iterable[str]) -> bool:
    """Whether a process has one of these descriptors open, or does not let us look."""
    directory = f"/proc/{pid}/fd"
    try:
        entries = os.listdir(directory)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    for entry in entries:
        try:
            if os.readlink(f"{directory}/{entry}") in links:
                return True
        except OSError:
            continue
    return False
