"""Long tests of a fleet: faults under load, and the whole black-box suite with requests at random servers."""

import asyncio
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fleet.chaos_faults import ChaosParts
from tests.fleet.fleet_chaos import chaotic_fleet, prepared_chaos
from tests.support.stress import StressShare

_ROOT = Path(__file__).parents[2]


@pytest.fixture
def chaos_parts(tmp_path: Path, pycache: Path) -> Iterator[ChaosParts]:
    with chaotic_fleet(tmp_path, pycache) as parts:
        yield parts


@pytest.mark.stress(weight=90)
@pytest.mark.promise("W16", "R1", "R3", "R4", "R5", "R7", "C1", "E1", "E2", "W4")
async def test_no_fault_of_a_fleet_loses_or_doubles_anything(chaos_parts: ChaosParts, share: StressShare) -> None:
    async with prepared_chaos(chaos_parts, seed=share.seed) as chaos:
        try:
            for seed in share.seeds(at_least=share.full(60)):
                await chaos.play(seed)
        finally:
            for what, number in sorted(chaos.counts.items()):
                share.count(what, number)


@pytest.mark.stress(weight=5)
@pytest.mark.promise("W16")
async def test_the_black_box_suite_passes_with_requests_at_random_servers(share: StressShare) -> None:
    for seed in share.seeds():
        suite = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", "tests/e2e"),
            cwd=_ROOT,
            env={**os.environ, "HOLDFAST_E2E_FLEET": str(seed)},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        output, _ = await suite.communicate()
        said = output.decode(errors="replace")
        assert suite.returncode == 0, said[-6000:]
        share.count("suites")
        share.count("tests", int(re.findall(r"(\d+) passed", said)[-1]))
        share.count("requests", int(re.findall(r"(\d+) requests at random servers", said)[-1]))
