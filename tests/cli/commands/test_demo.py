"""The offline tour, as `make demo` runs it."""

import signal
from collections.abc import Iterator

from dev.record_demo import COLUMNS, TARGET, text_of
from tests.cli.cli_shell import open_shell, processes_of


def test_the_tour_mends_the_test_and_leaves_nothing_behind() -> None:
    with open_shell(provider=False) as sh:
        told = sh.ok("demo")
        assert "AssertionError: slug('Hold  Fast!') is 'hold--fast'" in told
        assert told.index("AssertionError") < told.index("✓ edit slug.py") < told.index("+    return")
        assert told.index("✓ edit slug.py") < told.index("3 titles, all fine")
        assert list((sh.base / "tmp").iterdir()) == []
        assert not sh.locations.data_dir.exists()
        assert processes_of(sh.base) == []
        assert sorted(text_of(TARGET.read_text("utf-8"))) == sorted(_rows(told)), "run: python -m dev.record_demo"


def _rows(told: str) -> Iterator[str]:
    """As a terminal as wide as the recorded one shows it; calls that run side by side may end in any order."""
    for line in filter(str.strip, told.splitlines()):
        yield from (line[start : start + COLUMNS] for start in range(0, len(line), COLUMNS))


def test_a_tour_that_is_left_leaves_nothing_behind_either() -> None:
    with open_shell(provider=False) as sh:
        running = sh.start("demo")
        running.until("hold--fast")
        running.signal(signal.SIGINT)
        assert running.end().status == 130
        assert list((sh.base / "tmp").iterdir()) == []
        assert processes_of(sh.base / "tmp") == []
