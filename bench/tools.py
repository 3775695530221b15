"""CPU and wall time of `bash true` and of a command with much output, beside a bare subprocess in the same run.

The tool runs as in a turn: plan, then run, with a supervisor that can end the whole process tree; without a sandbox
(*tool*), and confined by each sandbox that works here. *Bare* is asyncio's subprocess with a pipe, which can end one
process. Rounds alternate, so that other load affects all alike; medians are compared. The last columns are what a
sandbox adds to the tool: the difference of the medians, and of the best rounds, which other load did not disturb. CPU
time is that of this process, of the supervisors and of their descendants that ended.
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
from functools import partial
from pathlib import Path
from typing import get_args

from support.figures import show
from support.process_stats import cpu_seconds

sys.path.insert(0, str(Path(__file__).parents[1]))

from holdfast.tools.bash import BashArguments, BashTool
from holdfast.tools.process.command_process import CommandLauncher
from holdfast.tools.process.sandbox import CommandSandbox, SandboxBackend, probe_sandboxes
from tests.support.stubborn_commands import STUBBORN_COMMANDS
from tests.support.tool_contexts import ToolWorkspace

Work = Callable[[], Awaitable[object]]

_LARGE_OUTPUT = "head -c 50000000 /dev/zero | tr '\\0' x"


class Timings:
    def __init__(self, tools: list[BashTool]) -> None:
        self._tools = tools
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
        pids = [tool.launcher.pid for tool in self._tools]
        return total + sum(cpu_seconds(pid, with_children=True) for pid in pids if pid)


async def _compare(name: str, tools: dict[str, BashTool], works: dict[str, Work], *, rounds: int) -> None:
    """Measure the works in turn. The first one is the measure of the others."""
    timings = {kind: Timings(list(tools.values())) for kind in works}
    for _ in range(2):
        for work in works.values():
            await work()
    for _ in range(rounds):
        for kind, work in works.items():
            await timings[kind].measure(work)
    medians = {kind: statistics.median(found.wall) for kind, found in timings.items()}
    best = {kind: min(found.wall) for kind, found in timings.items()}
    for kind, wall in medians.items():
        if kind == "bare":
            continue
        where = "unconfined" if kind == "tool" else kind
        aims = {"wall": 9.0, "CPU": 8.0} if (name, kind) == ("bash true", "tool") else {}
        cpu, bare_cpu = (statistics.fmean(timings[each].cpu) for each in (kind, "bare"))
        show(f"{name}, {where}, wall", wall * 1e3, "ms", base=medians["bare"] * 1e3, most=aims.get("wall"))
        show(f"{name}, {where}, CPU", cpu * 1e3, "ms", base=bare_cpu * 1e3, most=aims.get("CPU"))
        if kind != "tool" and name == "bash true":
            show(
                f"{name}, {where}, best",
                best[kind] * 1e3,
                "ms",
                base=best["tool"] * 1e3,
                base_name="unconfined",
                most_above=5,
            )


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
        show(
            f"cancelled command dead after, {name}",
            statistics.median(took) * 1e3,
            "ms",
            most=5 if name == "plain" else None,
        )


async def _tools() -> dict[str, BashTool]:
    """A tool without a sandbox, and one for each sandbox that works."""
    available = await asyncio.to_thread(probe_sandboxes)
    tools = {"tool": BashTool(CommandLauncher(), is_persons=True)}
    for backend in get_args(SandboxBackend):
        problem = getattr(available, backend)
        if problem:
            print(f"no figures for {backend}: {problem}")
            continue
        tools[backend] = BashTool(CommandLauncher())
        tools[backend].launcher.sandbox = CommandSandbox(backend=backend)
    return tools


async def main(rounds: int) -> None:
    with tempfile.TemporaryDirectory() as directory:
        tools, workspace = await _tools(), ToolWorkspace(Path(directory))
        where, few = workspace.directory, max(3, rounds // 20)
        await (await asyncio.create_subprocess_exec("git", "init", "-q", str(where))).wait()
        for name, command, count in (("bash true", "true", rounds), ("50 MB output", _LARGE_OUTPUT, few)):
            works: dict[str, Work] = {"bare": partial(_bare, command, where)}
            works |= {kind: partial(_tool, tool, workspace, command) for kind, tool in tools.items()}
            await _compare(name, tools, works, rounds=count)
        await _measure_cancels(tools["tool"], workspace, rounds=few)
        await workspace.table.close()
        for tool in tools.values():
            await tool.launcher.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=200)
    asyncio.run(main(parser.parse_args().rounds))
