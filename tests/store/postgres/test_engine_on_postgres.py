"""The tests of the engine and of turns, which use a SQLite file in `make test`, on PostgreSQL."""

import asyncio
import os
import re
import sys
from pathlib import Path

import pytest

from tests.support.stress import StressShare

_ROOT = Path(__file__).parents[3]
_HARNESSES = ("engine_harness", "real_turns", "app_harness", "wire_server")
_AT_ONCE = 6
"""So many files run in one process, which starts one PostgreSQL."""


def _files() -> list[str]:
    """The files whose tests open a store with `open_any_store`."""
    found = [*(_ROOT / "tests" / "runs").glob("test_*.py"), *(_ROOT / "tests" / "agent").glob("test_*.py")]
    used = [file for file in found if any(name in file.read_text() for name in _HARNESSES)]
    return sorted(str(file.relative_to(_ROOT)) for file in used)


@pytest.mark.stress(weight=6)
@pytest.mark.promise("R1", "R3", "R4", "R5", "R7", "C1", "W6")
async def test_the_tests_of_the_engine_and_of_turns_pass_on_postgresql(share: StressShare) -> None:
    files = await asyncio.to_thread(_files)
    share.random.shuffle(files)
    groups = [files[start : start + _AT_ONCE] for start in range(0, len(files), _AT_ONCE)]
    for group in share.sample(groups, what="groups of files"):
        tests = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", *group),
            cwd=_ROOT,
            env={**os.environ, "HOLDFAST_TEST_STORE": "postgres"},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        output, _ = await tests.communicate()
        said = output.decode(errors="replace")
        assert tests.returncode == 0, said[-6000:]
        for what in ("passed", "skipped"):
            share.count(f"tests {what}", sum(int(number) for number in re.findall(rf"(\d+) {what}", said)))
