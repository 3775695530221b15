"""CPU and wall time of `bash true` and of a command with much output, beside a bare subprocess in the same run.

The tool runs as in a turn: plan, then run, with a supervisor that can end the whole process tree. *Bare* is asyncio's
subprocess with a pipe, which can end one process. Rounds alternate, so that other load affects both alike; medians are
compared. CPU time is that of this process, of the supervisor and of their descendants that ended.
"""

from __future__ import annotations

import argparse
import asyncio
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from support.process_stats import cpu_seconds

sys.path.insert(0, str(Path(__file__).parents[1]))

from holdfast.tools.bash import BashArguments, BashTool
from holdfast.tools.process.command_process import CommandLauncher
from tests.support.stubborn_commands import STUBBORN_COMMANDS
from tests.support.tool_contexts import ToolWorkspace

Work = Callable[[], Awaitable[object]]

_LARGE_OUTPUT = "head -c 50000000 /dev/zero | tr '\\0' x"


class Timings:
    def __init__(self, bash: BashTool) -> None:
        self._bash = bash
        self.wall: list[float] = []
        self.cpu: list[float] = []

    async def measure(self, work: Work) -> None:
        wall, cpu = time.perf_counter(), self._cpu()
        await work()
        self.wall.append(time.perf_counter() - wall)
        self.cpu.append(self._cpu() - cpu)

    def _cpu(self) -> float:
        usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
        total = sum(usage.ru_utime + usage.ru_stime for usage in usages)
        if pid := self._bash.launcher.pid:
            total += cpu_seconds(pid, with_children=True)
        return total


async def _compare(name: str, bash: BashTool, bare: Work, tool: Work, *, rounds: int) -> None:
    bares, tools = Timings(bash), Timings(bash)
    for _ in range(2):
        await bare()
        await tool()
    for _ in range(rounds):
        await bares.measure(bare)
        await tools.measure(tool)
    for kind, timings in (("bare", bares), ("tool", tools)):
        wall, cpu = statistics.median(timings.wall), statistics.fmean(timings.cpu)
        ratio = f"{wall / statistics.median(bares.wall):5.1f}x"
        print(f"{name:<12} {kind:<5} wall {wall * 1e3:8.2f} ms {ratio}   cpu {cpu * 1e3:8.2f} ms")


async def _bare(command: str, directory: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        *("bash", "-c", command),
        cwd=directory,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    await process.communicate()


async def _tool(bash: BashTool, workspace: ToolWorkspace, command: str) -> None:
    context, arguments = workspace.context(), BashArguments(command)
    output = await bash.run(arguments, context, await bash.plan(arguments, context))
    assert output.status == "ok", output.text


async def _measure_cancels(bash: BashTool, workspace: ToolWorkspace, *, rounds: int) -> None:
    """The time from the cancel until no process of the tree is left."""
    for name in ("plain", "ignores_signals", "fifty"):
        took = []
        for _ in range(rounds):
            workspace.live.clear()
            context, arguments = workspace.context(), BashArguments(STUBBORN_COMMANDS[name].script)
            running = asyncio.create_task(bash.run(arguments, context, await bash.plan(arguments, context)))
            await workspace.wait_for_output("ready", times=STUBBORN_COMMANDS[name].ready)
            began = time.perf_counter()
            running.cancel()
            output = await running
            took.append(time.perf_counter() - began)
            assert output.status == "cancelled"
            assert not output.left_running
        print(f"cancel       {name:<16} median {statistics.median(took) * 1e3:7.1f} ms   max {max(took) * 1e3:7.1f} ms")


async def main(rounds: int) -> None:
    with tempfile.TemporaryDirectory() as directory:
        bash, workspace = BashTool(CommandLauncher()), ToolWorkspace(Path(directory))
        where = workspace.directory
        await _compare(
            "bash true", bash, lambda: _bare("true", where), lambda: _tool(bash, workspace, "true"), rounds=rounds
        )
        few = max(3, rounds // 20)
        await _compare(
            "50 MB output",
            bash,
            lambda: _bare(_LARGE_OUTPUT, where),
            lambda: _tool(bash, workspace, _LARGE_OUTPUT),
            rounds=few,
        )
        await _measure_cancels(bash, workspace, rounds=few)
        await workspace.table.close()
        await bash.launcher.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=200)
    asyncio.run(main(parser.parse_args().rounds))
