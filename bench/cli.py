"""What `holdfast run` costs over the provider's own time: wall and CPU, warm and cold, beside `python -c pass`.

The model is the scripted one, which answers at once: everything that is measured is ours. Warm: a server is there.
Cold: none is; it is started, answers, and is stopped between rounds, which is not counted. CPU is the command's own and
what the server used meanwhile. All are taken in turn, round by round, so that other work on the machine hits all alike.
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

ROUNDS = 15
AIMS = {"warm": 8.0, "cold": 40.0}
HOLDFAST = [str(Path(sys.executable).with_name("holdfast"))]
RUN = [*HOLDFAST, "run", "--quiet", "--model", "offline/demo", "hello"]
_TICK = os.sysconf("SC_CLK_TCK")


class Cost(NamedTuple):
    wall: float
    cpu: float


class House:
    """A home of its own, and bytecode of its own: what is measured does not depend on what was run before."""

    def __init__(self, base: Path) -> None:
        self.work = base / "work"
        self.work.mkdir()
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("HOLDFAST_", "PYTHON"))}
        self.env = {**kept, "HOLDFAST_HOME": str(base / "home"), "PYTHONPYCACHEPREFIX": str(base / "bytecode")}

    def do(self, command: list[str]) -> str:
        done = subprocess.run(
            command, cwd=self.work, env=self.env, check=True, capture_output=True, text=True, stdin=subprocess.DEVNULL
        )
        return done.stdout

    def cost(self, command: list[str]) -> Cost:
        """Of the command alone."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        began = time.perf_counter()
        self.do(command)
        wall = time.perf_counter() - began
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return Cost(wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)

    def server(self) -> int:
        found: int = json.loads(self.do([*HOLDFAST, "status", "--json"]))["server"]["pid"]
        return found

    def stop(self) -> None:
        self.do([*HOLDFAST, "stop"])


def cpu_of(pid: int) -> float:
    """Seconds of CPU that a process has used so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICK


def measure(house: House) -> dict[str, list[Cost]]:
    costs: dict[str, list[Cost]] = {"pass": [], "warm": [], "cold": []}
    house.do(RUN)  # everything is compiled
    for _ in range(ROUNDS):
        house.stop()
        costs["pass"].append(house.cost([sys.executable, "-c", "pass"]))
        cold = house.cost(RUN)
        pid = house.server()
        before = cpu_of(pid)
        costs["cold"].append(Cost(cold.wall, cold.cpu + before))
        warm = house.cost(RUN)
        costs["warm"].append(Cost(warm.wall, warm.cpu + cpu_of(pid) - before))
    house.stop()
    return costs


def main() -> None:
    base = Path(tempfile.mkdtemp(prefix="hfb-"))
    try:
        costs = measure(House(base))
    finally:
        shutil.rmtree(base, ignore_errors=True)
    print(f"holdfast run over the provider's own time, {ROUNDS} rounds (aim: warm at most 8 ×, cold at most 40 ×)")
    base_cost = {field: statistics.median(getattr(cost, field) for cost in costs["pass"]) for field in Cost._fields}
    for name, found in costs.items():
        parts = []
        for field in Cost._fields:
            values = [getattr(cost, field) for cost in found]
            ratio = statistics.median(values) / base_cost[field]
            parts.append(
                f"{field} {statistics.median(values) * 1000:7.1f} ms (least {min(values) * 1000:7.1f}) {ratio:5.1f} ×"
            )
        aim = f"   aim {AIMS[name]:.0f} ×" if name in AIMS else ""
        print(f"  {name:5} {'   '.join(parts)}{aim}")


if __name__ == "__main__":
    main()
