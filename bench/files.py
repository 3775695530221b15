"""CPU and wall time of one `view`, `grep` and `edit` without a model, beside the bare system calls in the same run.

The tools run as in a turn: plan, then run, with the real store (SQLite, every commit flushed) and snapshots. *Bare*
does the least with the same effect: read the file; run ripgrep and read its output; write a temporary file, flush it,
rename it, flush the directory. Rounds alternate, so that other load affects both alike; medians are compared.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.figures import show

from holdfast.store import open_store
from holdfast.tools.edit import EditTool
from holdfast.tools.grep import GrepTool
from holdfast.tools.search.ripgrep import ripgrep_command
from tests.store.batches import new_session, new_workspace
from tests.support.file_sessions import FileWorkspace

_FILES = 400
_LINES = 300

Work = Callable[[int], Awaitable[object]]


def _cpu() -> float:
    """The CPU time of this process, all its threads, and its children that ended."""
    usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


class Timings:
    def __init__(self) -> None:
        self.wall: list[float] = []
        self.cpu: list[float] = []

    async def measure(self, work: Work, number: int) -> None:
        wall, cpu = time.perf_counter(), _cpu()
        await work(number)
        self.wall.append(time.perf_counter() - wall)
        self.cpu.append(_cpu() - cpu)

    def medians(self) -> tuple[float, float]:
        return statistics.median(self.wall), statistics.median(self.cpu)


async def _compare(name: str, bare: Work, tool: Work, *, rounds: int) -> None:
    bares, tools = Timings(), Timings()
    for number in range(-2, rounds):  # the first two are warm-up
        await bares.measure(bare, number)
        await tools.measure(tool, number)
        if number < 0:
            bares, tools = Timings(), Timings()
    (bare_wall, bare_cpu), (tool_wall, tool_cpu) = bares.medians(), tools.medians()
    show(f"{name}, wall", tool_wall * 1e3, "ms", base=bare_wall * 1e3)
    show(f"{name}, CPU", tool_cpu * 1e3, "ms", base=max(bare_cpu, 1e-6) * 1e3)


def _fill(workspace: FileWorkspace) -> None:
    for number in range(_FILES):
        lines = (f"def function_{number}_{line}(argument): return argument + {line}\n" for line in range(_LINES))
        workspace.put(f"package_{number % 20}/module_{number}.py", "".join(lines))
    workspace.put(".gitignore", "*.pyc\nbuild/\n")


def _write_bare(path: Path, old: bytes, new: bytes) -> None:
    data = path.read_bytes().replace(old, new, 1)
    temp = path.with_suffix(".tmp")
    with temp.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.rename(temp, path)
    directory = os.open(path.parent, os.O_RDONLY)
    os.fsync(directory)
    os.close(directory)


async def main(rounds: int) -> None:
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as directory:
        root = Path(directory).resolve()
        store = await open_store(root / "ledger" / "holdfast.db")
        try:
            await store.commit(new_workspace())
            await store.commit(new_session())
            workspace = FileWorkspace(root, ledger=store)
            _fill(workspace)
            await _measure(workspace, rounds=rounds)
        finally:
            await store.close()


async def _measure(workspace: FileWorkspace, *, rounds: int) -> None:
    session = workspace.session()
    one, other = workspace.put("bare.py", workspace.text("package_0/module_0.py")), "package_0/module_0.py"
    search = ripgrep_command(os.environ, workspace.directory, workspace=workspace.directory)
    if search is None:
        sys.exit("ripgrep was not found; install the packages in lock/dev.txt, or put rg on the PATH")
    print(f"{_FILES} files of {_LINES} lines; medians of {rounds} rounds")

    async def bare_view(number: int) -> None:
        one.read_bytes().decode()

    async def bare_grep(number: int) -> None:
        subprocess.run([*search, "-n", "_7_29", "./"], cwd=workspace.directory, capture_output=True, check=True)

    async def bare_edit(number: int) -> None:
        _write_bare(one, _name(number), _name(number + 1))

    async def tool_edit(number: int) -> None:
        names = _name(number).decode(), _name(number + 1).decode()
        await session.call(EditTool(), path=other, old_text=names[0], new_text=names[1])

    await _compare("view", bare_view, lambda number: session.view(other), rounds=rounds)
    await _compare("grep", bare_grep, lambda number: session.call(GrepTool(), pattern="_7_29"), rounds=rounds)
    await session.view(other)
    await _compare("edit", bare_edit, tool_edit, rounds=rounds)


def _name(number: int) -> bytes:
    """The text in the file after this many edits."""
    return b"function_0_150(" if number == -2 else f"function_{number}_edited(".encode()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--rounds", type=int, default=60)
    asyncio.run(main(parser.parse_args().rounds))
