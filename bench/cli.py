"""Wall and CPU time of `holdfast run` without the provider's own time, warm and cold, beside `python -c pass`.

The scripted model answers at once, so only our own time is measured. Warm: a server is running. Cold: the command
starts one; it is stopped between the rounds, which is not counted. CPU time is that of the command and of the server
meanwhile. Rounds alternate, so that other load on the machine affects all cases alike. The package is measured as it is
installed, not in its source tree (`bench/support/installed_package.py`), which saves each command 4 ms.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from support.figures import show
from support.installed_package import install_package
from support.process_stats import cpu_seconds

ROUNDS = 15
MOST = {("warm", "wall"): 80.0}
"""Milliseconds."""
HOLDFAST = [str(Path(sys.executable).with_name("holdfast"))]
RUN = [*HOLDFAST, "run", "--quiet", "--model", "offline/demo", "hello"]


class Cost(NamedTuple):
    wall: float
    cpu: float


class Environment:
    """A separate home directory and bytecode cache, so that earlier runs have no effect."""

    def __init__(self, base: Path) -> None:
        self.work = base / "work"
        self.work.mkdir()
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("HOLDFAST_", "PYTHON"))}
        self.env = {
            **inherited,
            "HOLDFAST_HOME": str(base / "home"),
            "PYTHONPATH": install_package(base),
            "PYTHONPYCACHEPREFIX": str(base / "bytecode"),
        }

    def run(self, command: list[str]) -> str:
        done = subprocess.run(
            command, cwd=self.work, env=self.env, check=True, capture_output=True, text=True, stdin=subprocess.DEVNULL
        )
        return done.stdout

    def measure(self, command: list[str]) -> Cost:
        """The cost of the command alone."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        began = time.perf_counter()
        self.run(command)
        wall = time.perf_counter() - began
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return Cost(wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)

    def server_pid(self) -> int:
        pid: int = json.loads(self.run([*HOLDFAST, "status", "--json"]))["server"]["pid"]
        return pid

    def stop_server(self) -> None:
        self.run([*HOLDFAST, "stop"])


def measure(environment: Environment) -> dict[str, list[Cost]]:
    costs: dict[str, list[Cost]] = {"pass": [], "warm": [], "cold": []}
    environment.run(RUN)  # compiles all modules
    for _ in range(ROUNDS):
        environment.stop_server()
        costs["pass"].append(environment.measure([sys.executable, "-c", "pass"]))
        cold = environment.measure(RUN)
        pid = environment.server_pid()
        before = cpu_seconds(pid)
        costs["cold"].append(Cost(cold.wall, cold.cpu + before))
        warm = environment.measure(RUN)
        costs["warm"].append(Cost(warm.wall, warm.cpu + cpu_seconds(pid) - before))
    environment.stop_server()
    return costs


def main() -> None:
    base = Path(tempfile.mkdtemp(prefix="hfb-"))
    try:
        costs = measure(Environment(base))
    finally:
        shutil.rmtree(base, ignore_errors=True)
    print(f"holdfast run over the provider's own time, {ROUNDS} rounds; beside `python -c pass`")
    base_cost = {field: statistics.median(getattr(cost, field) for cost in costs["pass"]) for field in Cost._fields}
    for name in ("warm", "cold"):
        for field in Cost._fields:
            value = statistics.median(getattr(cost, field) for cost in costs[name]) * 1e3
            aim = MOST.get((name, field))
            show(f"holdfast run, {name}, {field}", value, "ms", base=base_cost[field] * 1e3, base_name="pass", most=aim)


if __name__ == "__main__":
    main()
