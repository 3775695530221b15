"""Commands that resist being killed. Each prints ``ready PID`` for every process that a kill must reach."""

import asyncio
import os
import select
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from holdfast.tools.process.command_process import MARK_VARIABLE, CommandSpec, RunningCommand
from holdfast.tools.process.process_table import Process, find_process, processes_with_variable


class StubbornCommand(NamedTuple):
    script: str
    ready: int = 1
    """How many ``ready`` lines it prints."""


def _python(source: str) -> str:
    return f"exec {sys.executable} -c '{source}'"


_STAY = "echo ready $BASHPID; exec sleep 1000"

STUBBORN_COMMANDS: Mapping[str, StubbornCommand] = {
    "plain": StubbornCommand(_STAY),
    "ignores_signals": StubbornCommand('trap "" INT TERM HUP QUIT; echo ready $$; sleep 1000; sleep 1000'),
    "own_session": StubbornCommand(f"setsid -f bash -c '{_STAY}'; {_STAY}", ready=2),
    "own_group": StubbornCommand(f"set -m; ({_STAY}) & {_STAY}", ready=2),
    "double_fork": StubbornCommand(f"( ( ({_STAY}) & ) & ); {_STAY}", ready=2),
    "clears_its_environment": StubbornCommand(f"env -i setsid -f bash -c '{_STAY}'; {_STAY}", ready=2),
    "daemon": StubbornCommand(
        _python(
            "import os, signal\n"
            "if os.fork(): os._exit(0)\n"
            "os.setsid()\n"
            "if os.fork(): os._exit(0)\n"
            'os.chdir("/"); signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 32))\n'
            'os.write(1, b"ready %d\\n" % os.getpid()); os.closerange(0, 100); signal.pause()'
        )
    ),
    "holds_the_pipe": StubbornCommand(f"({_STAY}) & exit 3"),
    "closes_its_output": StubbornCommand("echo ready $$; exec >&- 2>&-; sleep 1000; sleep 1000"),
    "fifty": StubbornCommand(f"for i in $(seq 50); do (trap '' INT; {_STAY}) & done; wait", ready=50),
    "keeps_forking": StubbornCommand('trap "" INT; echo ready $$; while :; do true & wait; done'),
    "forks_when_interrupted": StubbornCommand(
        "trap 'for i in 1 2 3 4 5; do setsid -f sleep 1000; done' INT; echo ready $$; while :; do sleep 1000; done"
    ),
    "stopped": StubbornCommand(
        _python(
            "import os, signal\n"
            "pid = os.fork()\n"
            "if not pid: os.kill(os.getpid(), signal.SIGSTOP); signal.pause()\n"
            "os.waitpid(pid, os.WUNTRACED)\n"
            'os.write(1, b"ready %d\\nready %d\\n" % (pid, os.getpid())); signal.pause()'
        ),
        ready=2,
    ),
    "zombie_maker": StubbornCommand(
        _python(
            "import os, signal\n"
            "signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
            "pids = [os.fork() or os._exit(0) for _ in range(20)]\n"
            'for pid in pids: os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT); os.write(1, b"ready %d\\n" % pid)\n'
            'os.write(1, b"ready %d\\n" % os.getpid()); signal.pause()'
        ),
        ready=21,
    ),
    "subreaper": StubbornCommand(
        _python(
            "import ctypes, os, signal\n"
            "ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)\n"
            "signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
            "if not os.fork():\n"
            "    if os.fork(): os._exit(0)\n"
            '    os.setsid(); os.write(1, b"ready %d\\n" % os.getpid()); signal.pause()\n'
            'os.write(1, b"ready %d\\n" % os.getpid()); signal.pause()'
        ),
        ready=2,
    ),
}


def command(script: str, mark: str, *, directory: Path = Path("/")) -> CommandSpec:
    environment = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(directory)}
    return CommandSpec(("bash", "-c", script), directory, environment, unique(mark))


def wait_until_dead(processes: list[Process]) -> None:
    """Wait until the kernel reports the end of all processes."""
    for process in processes:
        try:
            descriptor = os.pidfd_open(process.pid)
        except ProcessLookupError:
            continue
        try:
            now = find_process(process.pid)
            if now and now.started == process.started:
                assert select.select([descriptor], [], [], 10)[0], f"{process} did not end"
        finally:
            os.close(descriptor)


def unique(mark: str) -> str:
    """Make the mark unique among parallel test processes."""
    return f"{mark}-{os.getpid()}"


async def until_ready(running: RunningCommand, count: int = 1) -> list[Process]:
    """Return the processes that printed ``ready``, from the process table."""
    found = []
    while len(found) < count:
        line = await running.output.readline()
        assert line, f"the output ended after {len(found)} of {count}"
        if line.startswith(b"ready "):
            process = await asyncio.to_thread(find_process, int(line.split()[1]))
            assert process, line
            found.append(process)
    return found


async def still_there(processes: list[Process], mark: str | None = None) -> list[Process]:
    """Return the processes that still exist, zombies included, and all processes with the mark."""
    return await asyncio.to_thread(_still_there, processes, mark)


def _still_there(processes: list[Process], mark: str | None) -> list[Process]:
    found = [p for p in processes if (now := find_process(p.pid)) is not None and now.started == p.started]
    marks = (unique(mark), mark) if mark else ()
    return found + [process for name in marks for process in processes_with_variable(f"{MARK_VARIABLE}={name}")]
