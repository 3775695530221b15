"""`make stress`: each long test gets its share of the time, and one table at the end tells what was tried.

A long test is marked ``@pytest.mark.stress(weight=…)`` and takes the fixture ``share``. Its share of the time is its
weight among all selected stress tests. All random choices follow from one seed and the test's name, so that a test
repeats its choices whichever tests run beside it. A test without the mark may take a share too; it has no time, only
the least number of rounds.
"""

import os
import random
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeVar

import hypothesis
from hypothesis.strategies import SearchStrategy

T = TypeVar("T")

FULL_MINUTES = 40
"""The minutes of a whole `make stress`. Least numbers are given for this time and are smaller in a shorter one."""
_MINUTES_WITHOUT_MAKE = 1.0
_PROPERTY_SECONDS = 1.0
"""About the time of one property test, which is not a stress test and has no share."""
_MOST_FOR_PROPERTIES = 0.25
_LONGER = 1.25
"""A run that takes this many times what was asked for says why."""


@dataclass(frozen=True, slots=True)
class StressBudget:
    """What `make stress` was asked for."""

    minutes: float
    workers: int
    seed: int
    only_round: int | None

    @classmethod
    def from_environment(cls) -> "StressBudget":
        only_round = os.environ.get("HOLDFAST_TEST_ROUND")
        return cls(
            minutes=float(os.environ.get("HOLDFAST_TEST_STRESS_MINUTES") or _MINUTES_WITHOUT_MAKE),
            workers=int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")),
            seed=int(os.environ.get("HOLDFAST_TEST_SEED") or 0),
            only_round=int(only_round) if only_round else None,
        )

    def seconds_of(self, weights: list[float], *, others: int) -> list[float]:
        """Divide the time among tests. ``others``: how many selected tests have no share."""
        total = self.minutes * 60 * self.workers
        total -= min(others * _PROPERTY_SECONDS, total * _MOST_FOR_PROPERTIES)
        return [total * weight / sum(weights) for weight in weights]

    def overrun(self, minutes: float, *, property_seconds: float) -> str | None:
        """Say why it took longer than asked for, if it did."""
        if minutes <= _LONGER * self.minutes:
            return None
        return (
            f"longer than the {self.minutes:g} minutes that were asked for: the collection, "
            f"{property_seconds:.0f} s of property tests and the least work of each part do not shrink"
        )


def order_for_workers(longest_first: list[T], workers: int) -> list[T]:
    """Order tests for ``--dist worksteal``, which begins by giving each worker one run of the list.

    Each run begins with its share of the long ones. The short ones at its end go to the worker that is ready first.
    """
    shares = [longest_first[worker::workers] for worker in range(workers)]
    return [test for share in reversed(shares) for test in share]


@dataclass(slots=True)
class Tried:
    """What one test tried. It travels with the test's report, also from a worker process."""

    counts: dict[str, int] = field(default_factory=dict)
    totals: dict[str, int] = field(default_factory=dict)
    """How many there are, of what only a sample was tried."""
    notes: list[str] = field(default_factory=list)
    last_round: int | None = None

    def __str__(self) -> str:
        parts = []
        for what, number in self.counts.items():
            of = f" of {self.totals[what]:,}" if what in self.totals else ""
            parts.append(f"{number:,}{of} {what}")
        return ", ".join([*parts, *self.notes])


class StressShare:
    """A test's part of the time, its random numbers and its counts."""

    def __init__(self, budget: StressBudget, name: str, *, seconds: float) -> None:
        self.seconds = seconds
        self.seed = random.Random(f"{budget.seed} {name}").getrandbits(32)
        self.random = random.Random(self.seed)
        self.tried = Tried()
        self._budget = budget
        self._until: float | None = None

    def over(self) -> bool:
        """Whether the time is used. It begins with the first question."""
        now = time.monotonic()
        if self._until is None:
            self._until = now + self.seconds
        return now >= self._until

    def full(self, number: int) -> int:
        """Return the number if this is a whole `make stress`, and proportionally less in a shorter one."""
        return max(1, int(number * min(1.0, self._budget.minutes / FULL_MINUTES)))

    def rounds(self, *, at_least: int = 1) -> Iterator[int]:
        """Number the rounds until the time is used."""
        if self._budget.only_round is not None and self.seconds:
            self.tried.last_round = self._budget.only_round
            yield self._budget.only_round
            return
        number = 0
        while not self.over() or number < at_least:
            self.tried.last_round = number
            yield number
            number += 1

    def seed_of(self, number: int) -> int:
        """The seed of a round. It does not depend on the rounds before."""
        return random.Random(f"{self.seed} {number}").getrandbits(32)

    def seeds(self, *, at_least: int = 1) -> Iterator[int]:
        """The seeds of the rounds until the time is used."""
        for number in self.rounds(at_least=at_least):
            yield self.seed_of(number)

    def sample(self, items: Iterable[T], *, what: str, at_least: int = 1) -> Iterator[T]:
        """All items in random order, until the time is used. The table says how many of them were tried."""
        order = list(items)
        random.Random(self.seed).shuffle(order)
        self.tried.totals[what] = len(order)
        for number in self.rounds(at_least=at_least):
            if number >= len(order):
                return
            self.count(what)
            yield order[number]

    def examples(self, strategy: SearchStrategy[T], check: Callable[[T], object], *, each: int = 100) -> None:
        """Check random examples of a strategy, in rounds of ``each``."""
        for seed in self.seeds():

            @hypothesis.seed(seed)
            @hypothesis.settings(
                max_examples=each,
                deadline=None,
                database=None,
                derandomize=False,
                suppress_health_check=list(hypothesis.HealthCheck),
            )
            @hypothesis.given(strategy)
            def one_round(example: T) -> None:
                self.count("examples")
                check(example)

            one_round()

    def count(self, what: str, number: int = 1) -> None:
        self.tried.counts[what] = self.tried.counts.get(what, 0) + number

    def note(self, text: str) -> None:
        """Add a sentence to the test's line in the table."""
        self.tried.notes.append(text)
