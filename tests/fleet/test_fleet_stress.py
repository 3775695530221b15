"""Long tests of a fleet: faults under load, and the whole black-box suite with requests at random servers."""

import asyncio
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fleet.fleet_chaos import FleetChaos, chaotic_fleet
from tests.support.stress import StressShare

_ROOT = Path(__file__).parents[2]


@pytest.fixture
def chaos_parts(tmp_path: Path, pycache: Path) -> Iterator[tuple[object, ...]]:
    with chaotic_fleet(tmp_path, pycache) as parts:
        yield parts


@pytest.mark.stress(weight=8)
@pytest.mark.timeout(0)
@pytest.mark.promise("W16", "R1", "R3", "R7", "E1", "E2")
async def test_no_fault_of_a_fleet_loses_or_doubles_anything(
    chaos_parts: tuple[object, ...], tmp_path: Path, share: StressShare
) -> None:
    chaos = FleetChaos(*chaos_parts)  # type: ignore[arg-type]
    await chaos.prepare(tmp_path)
    try:
        for seed in share.seeds(at_least=share.full(60)):
            share.count("rounds")
            await chaos.play(seed)
        await chaos.check()
    finally:
        for what, number in sorted(chaos.counts.items()):
            share.count(what, number)
        await chaos.close()


@pytest.mark.stress(weight=4)
@pytest.mark.timeout(0)
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
        assert suite.returncode == 0, output.decode(errors="replace")[-4000:]
        share.count("suites")
