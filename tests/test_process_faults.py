"""Fault schedules on a real server process, with a provider on all four wires: nothing is lost or doubled."""

from pathlib import Path

import pytest

from tests.support.process_schedule import process_schedules
from tests.support.stress import StressShare

PROMISES = ("R1", "R3", "R5", "R7", "R9", "R13", "R14", "C1", "C6", "C7", "E2", "W5", "W6")


@pytest.mark.promise(*PROMISES)
async def test_no_fault_of_a_process_loses_a_prompt(home: Path) -> None:
    async with process_schedules(home) as schedules:
        for seed, fault in enumerate(schedules.faults):
            counts = await schedules.play(seed, fault=fault)
            assert counts["prompts"] >= 2


@pytest.mark.stress(weight=45)
@pytest.mark.promise(*PROMISES)
async def test_no_schedule_of_process_faults_loses_a_prompt(home: Path, share: StressShare) -> None:
    async with process_schedules(home) as schedules:
        for seed in share.seeds(at_least=share.full(300)):
            share.count("schedules")
            for what, number in (await schedules.play(seed)).items():
                share.count(what, number)


@pytest.mark.stress(weight=4)
@pytest.mark.promise(*PROMISES)
async def test_no_schedule_of_process_faults_loses_a_prompt_on_postgresql(
    home: Path, postgres_database: str, share: StressShare
) -> None:
    async with process_schedules(home, database=postgres_database) as schedules:
        for seed in share.seeds(at_least=share.full(40)):
            share.count("schedules")
            for what, number in (await schedules.play(seed)).items():
                share.count(what, number)
