"""The offline tour, as `make demo` runs it."""

import signal

from tests.cli.shell import processes_of, shell


def test_the_tour_mends_the_test_and_leaves_nothing_behind() -> None:
    with shell(provider=False) as sh:
        told = sh.ok("demo")
        assert "AssertionError: slug('Hold  Fast!') is 'hold--fast'" in told
        assert told.index("AssertionError") < told.index("✓ edit slug.py") < told.index("+    return")
        assert told.index("✓ edit slug.py") < told.index("3 titles, all fine")
        assert list((sh.base / "tmp").iterdir()) == []
        assert not sh.locations.data_dir.exists()
        assert processes_of(sh.base) == []


def test_a_tour_that_is_left_leaves_nothing_behind_either() -> None:
    with shell(provider=False) as sh:
        running = sh.start("demo")
        running.until("hold--fast")
        running.signal(signal.SIGINT)
        assert running.end().status == 130
        assert list((sh.base / "tmp").iterdir()) == []
        assert processes_of(sh.base / "tmp") == []
