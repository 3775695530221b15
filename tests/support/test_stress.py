"""`make stress`: shares of the time, repeatable choices, and the table at the end."""

import ast
import os
import subprocess
import sys
from pathlib import Path

from hypothesis import strategies as st

from tests.support.stress import FULL_MINUTES, StressBudget, StressShare, order_for_workers

_ROOT = Path(__file__).parents[2]


def _share(
    *, seed: int = 1, name: str = "tests/a.py::test", seconds: float = 0.0, only_round: int | None = None
) -> StressShare:
    return StressShare(StressBudget(minutes=40, workers=2, seed=seed, only_round=only_round), name, seconds=seconds)


def test_the_time_of_all_workers_is_divided_by_weight() -> None:
    budget = StressBudget(minutes=1, workers=2, seed=0, only_round=None)
    assert budget.seconds_of([1, 3], others=0) == [30, 90]
    assert budget.seconds_of([1, 3], others=20) == [25, 75]
    assert budget.seconds_of([1, 3], others=10_000) == [22.5, 67.5]


def test_a_run_that_takes_much_longer_than_asked_for_says_why() -> None:
    budget = StressBudget(minutes=2, workers=2, seed=0, only_round=None)
    assert budget.overrun(2.1, property_seconds=30) is None
    said = budget.overrun(9, property_seconds=30)
    assert said is not None
    assert "longer than the 2 minutes that were asked for: the collection, 30 s of property tests" in said


def test_the_long_tests_are_shared_out_among_the_workers() -> None:
    assert order_for_workers([9, 8, 7, 6, 5, 4, 3, 2], workers=3) == [7, 4, 8, 5, 2, 9, 6, 3]
    assert order_for_workers([9, 8], workers=3) == [8, 9]
    assert order_for_workers([9, 8], workers=1) == [9, 8]


def test_least_numbers_shrink_with_the_time() -> None:
    short = StressBudget(minutes=FULL_MINUTES / 4, workers=2, seed=0, only_round=None)
    assert StressShare(short, "", seconds=1).full(10_000) == 2_500
    assert _share().full(10_000) == 10_000


def test_without_time_there_are_only_the_least_rounds() -> None:
    assert list(_share().rounds(at_least=3)) == [0, 1, 2]
    assert len(list(_share().sample(range(100), what="places", at_least=5))) == 5


def test_enough_time_tries_everything_once() -> None:
    share = _share(seconds=60)
    assert sorted(share.sample(range(100), what="places")) == list(range(100))
    assert str(share.tried) == "100 of 100 places"


def test_choices_depend_on_the_seed_and_the_test_only() -> None:
    def choices(**fields: object) -> list[int]:
        share = _share(**fields)  # type: ignore[arg-type]
        return [*share.seeds(at_least=3), *share.sample(range(1000), what="places", at_least=3)]

    assert choices() == choices(seconds=0.0)
    assert len({tuple(choices()), tuple(choices(seed=2)), tuple(choices(name="tests/b.py::test"))}) == 3


def test_one_round_can_be_repeated_alone() -> None:
    seventh = list(_share().seeds(at_least=8))[7]
    assert list(_share(seconds=1, only_round=7).seeds()) == [seventh]


def test_random_examples_repeat_with_the_seed() -> None:
    def found() -> list[int]:
        seen: list[int] = []
        _share().examples(st.integers(), seen.append, each=20)
        return seen

    assert found() == found()
    assert len(found()) == 20


_TESTS = """
import pytest

@pytest.mark.stress(weight=3)
def test_heavy_things_hold(share):
    for number in share.sample(range(5), what="places"):
        share.count("kept")

@pytest.mark.stress
@pytest.mark.parametrize("wire", ["gemini"])
def test_something_breaks(share, wire):
    for number in share.rounds():
        assert number < 2

@pytest.mark.stress
@pytest.mark.skipif(True, reason="there is no oracle")
def test_left_out(): ...

def test_property(share):
    assert list(share.rounds(at_least=2)) == [0, 1]
"""


def test_the_table_says_what_was_tried_and_lost(tmp_path: Path) -> None:
    (tmp_path / "test_sample.py").write_text(_TESTS)
    (tmp_path / "conftest.py").write_text(
        "from tests.support.stress_plugin import StressPlugin\n"
        "def pytest_configure(config): config.pluginmanager.register(StressPlugin(), 'stress')\n"
    )
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = stress\n    timeout\n")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "2", "--dist=worksteal"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(_ROOT), "HOLDFAST_TEST_SEED": "5", "HOLDFAST_TEST_STRESS_MINUTES": "0.05"},
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    lines = [" ".join(line.split()[1:]) for line in done.stdout.splitlines()]
    assert "stress: 0.05 minutes, seed 5" in done.stdout
    assert "0 heavy things hold: 5 of 5 places, 5 kept" in lines, done.stdout
    assert "1 something breaks (gemini)" in lines
    assert "0 left out: left out: there is no oracle" in lines
    assert "0 property tests with random examples: 1 tests" in lines
    assert "to repeat: make stress SEED=5 ROUND=2 ARGS='test_sample.py::test_something_breaks[gemini]'" in done.stdout


def test_every_stress_test_has_a_share_of_the_time() -> None:
    """A stress test with a fixed amount of work makes `make stress` as long as it likes."""
    marked, without = 0, []
    for path in (_ROOT / "tests").rglob("test_*.py"):
        if "mark.stress" not in (source := path.read_text()) or path == Path(__file__):
            continue
        for function in ast.walk(ast.parse(source)):
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                is_marked = any("mark.stress" in ast.unparse(mark) for mark in function.decorator_list)
                marked += is_marked
                if is_marked and "share" not in [argument.arg for argument in function.args.args]:
                    without.append(f"{path.name}::{function.name}")
    assert without == []
    assert marked > 20
