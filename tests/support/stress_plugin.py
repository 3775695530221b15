"""The pytest side of `make stress`: shares for the stress tests, and the table at the end."""

import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field

import pytest

from tests.support.stress import StressBudget, StressShare, Tried, order_for_workers

_KEY = "stress"
_seconds = pytest.StashKey[float]()


@dataclass(slots=True)
class TableRow:
    """What one test did, or all property tests together."""

    name: str
    number: int = 0
    seconds: float = 0.0
    lost: int = 0
    skipped: str = ""
    tried: Tried = field(default_factory=Tried)

    def line(self) -> str:
        what = self.skipped or str(self.tried)
        return f"{self.seconds:8.1f} {self.lost:5}  {self.name}{': ' if what else ''}{what}"


class StressPlugin:
    """Does nothing unless stress tests are selected."""

    def __init__(self) -> None:
        self.budget = StressBudget.from_environment()
        self._rows: dict[str, TableRow] = {}
        self._properties = TableRow("property tests with random examples")
        self._began = time.monotonic()

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """The longest tests come first, so that all workers end at about the same time."""
        marked = [(item, mark) for item in items if (mark := item.get_closest_marker("stress")) is not None]
        if not marked:
            return
        weights = [float(mark.kwargs.get("weight", 1.0)) for _, mark in marked]
        shares = self.budget.seconds_of(weights, others=len(items) - len(marked))
        for (item, _), seconds in zip(marked, shares, strict=True):
            item.stash[_seconds] = seconds
            item.add_marker(pytest.mark.timeout(seconds * 4 + 600), append=False)
        items.sort(key=lambda item: -item.stash.get(_seconds, 0.0))
        items[:] = order_for_workers(items, self.budget.workers)

    @pytest.fixture
    def share(self, request: pytest.FixtureRequest) -> StressShare:
        """This test's part of the time of `make stress`."""
        return StressShare(self.budget, request.node.nodeid, seconds=request.node.stash.get(_seconds, 0.0))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
        if _seconds in item.stash and call.when == "call":
            share = getattr(item, "funcargs", {}).get("share")
            item.user_properties.append((_KEY, asdict(share.tried if share is not None else Tried())))
        elif _seconds in item.stash and call.when == "setup":
            item.user_properties.append((_KEY, asdict(Tried())))
        return (yield)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        tried = dict(report.user_properties).get(_KEY)
        if tried is None:
            row = self._properties
            row.number += report.when == "call"
        else:
            row = self._rows.setdefault(report.nodeid, TableRow(_sentence(report.nodeid), number=1))
            row.tried = Tried(**tried)
            if report.skipped:
                row.skipped = f"left out: {_reason(report)}"
        row.seconds += report.duration
        row.lost += report.failed

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if not self._rows:
            return
        budget, write = self.budget, terminalreporter.write_line
        terminalreporter.section(f"stress: {budget.minutes:g} minutes, seed {budget.seed}")
        write(f"{'seconds':>8} {'lost':>5}  what was tried")
        rows = [*self._rows.values()]
        if self._properties.number:
            self._properties.tried.counts = {"tests": self._properties.number}
            rows.append(self._properties)
        for row in rows:
            write(row.line())
        lost, minutes = sum(row.lost for row in rows), (time.monotonic() - self._began) / 60
        write(f"{sum(row.seconds for row in rows):8.1f} {lost:5}  in all, in {minutes:.1f} minutes")
        if overrun := budget.overrun(minutes, property_seconds=self._properties.seconds):
            write(overrun)
        for nodeid, row in self._rows.items():
            if row.lost:
                at = "" if row.tried.last_round is None else f" ROUND={row.tried.last_round}"
                write(f"to repeat: make stress SEED={budget.seed}{at} ARGS='{nodeid}'")


def _sentence(nodeid: str) -> str:
    """The name of a test as a sentence, with its parameters."""
    name, bracket, parameters = nodeid.rpartition("::")[2].partition("[")
    return name.removeprefix("test_").replace("_", " ") + (f" ({parameters.rstrip(']')})" if bracket else "")


def _reason(report: pytest.TestReport) -> str:
    found = report.longrepr
    return str(found[2]).removeprefix("Skipped: ") if isinstance(found, tuple) else str(found)
