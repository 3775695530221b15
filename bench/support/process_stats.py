"""CPU time and memory of a process, as the kernel counts them."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_ALL_ITS_THREADS = 2
"""In the number of a clock: count what the scheduler counts, in nanoseconds, also of threads that ended."""


def cpu_seconds(pid: int, *, with_children: bool = False) -> float:
    """The CPU time of a process so far, optionally with its children that ended (in ticks of usually 10 ms)."""
    own = time.clock_gettime(~pid << 3 | _ALL_ITS_THREADS)
    if not with_children:
        return own
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return own + sum(map(int, fields[13:15])) / _TICKS_PER_SECOND


def resident_megabytes(pid: int) -> float:
    return int(Path(f"/proc/{pid}/status").read_text().split("VmRSS:")[1].split()[0]) / 1024


def tree_cpu_seconds(pid: int) -> float:
    """The CPU time of a process, of all processes below it, and of those below it that ended."""
    parents = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parents[int(path.parent.name)] = int(path.read_text().rpartition(")")[2].split()[1])
    found = [pid]
    for one in found:
        found += [other for other, parent in parents.items() if parent == one]
    return sum(cpu_seconds(one, with_children=True) for one in found)
