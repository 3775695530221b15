"""The process table: descendants of a process, and signals that cannot reach the wrong process.

The supervisor program uses it, so it imports only the standard library.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import NamedTuple

IS_LINUX = sys.platform == "linux"


class Process(NamedTuple):
    """One entry of the process table. The pair of `pid` and `started` is never reused."""

    pid: int
    parent: int
    group: int
    state: str
    started: str

    @property
    def alive(self) -> bool:
        return not self.state.startswith(("Z", "X"))


def process_table() -> list[Process]:
    """Return all visible processes of this machine."""
    if not IS_LINUX:
        return _read_ps()
    found = (_read_stat(int(entry)) for entry in os.listdir("/proc") if entry.isdigit())
    return [process for process in found if process]


def tree_below(root: int, *, group: int = 0) -> list[Process]:
    """Return all descendants of a process, and the members of `group` if given. Parents come before their children."""
    table = process_table()
    children: dict[int, list[Process]] = {}
    for process in table:
        children.setdefault(process.parent, []).append(process)
    members = [process for process in table if group and process.group == group]
    found: dict[int, Process] = {}
    waiting = [*members, *children.get(root, ())]
    while waiting:
        process = waiting.pop()
        if process.pid not in found and process.pid != root:
            found[process.pid] = process
            waiting += children.get(process.pid, ())
    return list(found.values())


def quick_tree_below(root: int) -> list[Process]:
    """Return descendants of a process as `tree_below` does, without a look at all processes of the machine.

    The kernel's lists of children are fast, but a child may be missing from a list while another one ends. Linux
    only, and empty without these lists: use `tree_below` for what is left.
    """
    found: dict[int, Process] = {}
    waiting = _listed_children(root)
    while waiting:
        pid = waiting.pop()
        process = None if pid in found else _read_stat(pid)
        if process:
            found[pid] = process
            waiting += _listed_children(pid)
    return list(found.values())


def _listed_children(pid: int) -> list[int]:
    children: list[int] = []
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children", "rb") as file:
                children += map(int, file.read().split())
    except OSError:
        return children  # the process or the thread has ended, or the kernel has no such lists
    return children


def find_process(pid: int) -> Process | None:
    """Return the process that has this pid now."""
    if IS_LINUX:
        return _read_stat(pid)
    return next((process for process in _read_ps() if process.pid == pid), None)


def processes_with_variable(variable: str) -> list[Process]:
    """Return running processes that were started with ``NAME=value`` in their environment (Linux only)."""
    wanted = os.fsencode(variable)
    found = []
    for process in process_table() if IS_LINUX else ():
        try:
            with open(f"/proc/{process.pid}/environ", "rb") as file:
                variables = file.read().split(b"\0")
        except OSError:
            continue
        if wanted in variables and process.alive:
            found.append(process)
    return found


def process_environment(pid: int) -> str:
    """Return command line and environment of a process as `ps` shows them (macOS)."""
    done = subprocess.run(["/bin/ps", "-wwEo", "command=", "-p", str(pid)], stdout=subprocess.PIPE, check=False)
    return done.stdout.decode("utf-8", "replace")


def send_signal(process: Process, number: int) -> bool:
    """Signal this process, never a later one with the same pid. Returns False if the signal is not permitted."""
    try:
        if IS_LINUX and sys.platform == "linux":
            descriptor = os.pidfd_open(process.pid)
            try:
                if _is_still(process):
                    signal.pidfd_send_signal(descriptor, number)
            finally:
                os.close(descriptor)
        else:
            os.kill(process.pid, number)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return True


def describe_process(process: Process) -> str:
    """Return pid and command line, such as ``123 sleep 1000``, on one line of limited length."""
    text = ""
    if IS_LINUX:
        try:
            with open(f"/proc/{process.pid}/cmdline", "rb") as file:
                text = os.fsdecode(file.read(400).rstrip(b"\0").replace(b"\0", b" "))
            if not text:
                with open(f"/proc/{process.pid}/comm", encoding="utf-8", errors="replace") as file:
                    text = f"[{file.read().strip()}]"
        except OSError:
            text = ""
    line = " ".join(text.encode("utf-8", "replace").decode().split())
    return f"{process.pid} {line if len(line) <= 80 else line[:79] + '…'}".strip()


def _is_still(process: Process) -> bool:
    now = _read_stat(process.pid)
    return now is not None and now.started == process.started


def _read_stat(pid: int) -> Process | None:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].decode("ascii").split()
    except OSError:
        return None
    return Process(pid, int(fields[1]), int(fields[2]), fields[0], fields[19]) if len(fields) > 19 else None


def _read_ps() -> list[Process]:
    columns = "pid=,ppid=,pgid=,stat=,lstart="
    with subprocess.Popen(["/bin/ps", "-axo", columns], stdout=subprocess.PIPE, env={"LC_ALL": "C"}) as ps:
        output, _ = ps.communicate()
    table = []
    for line in output.decode("utf-8", "replace").splitlines():
        fields = line.split(None, 4)
        if len(fields) == 5 and fields[0].isdigit() and int(fields[0]) != ps.pid:
            table.append(Process(int(fields[0]), int(fields[1]), int(fields[2]), fields[3], fields[4]))
    return table
