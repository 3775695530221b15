"""CPU time and memory of a process, read from /proc."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid: int, *, with_children: bool = False) -> float:
    """The CPU time of a process so far, optionally with its children that ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11 : 15 if with_children else 13])) / _TICKS_PER_SECOND


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
