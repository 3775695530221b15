"""`holdfast demo`."""

import signal
from collections.abc import Iterator

from dev.record_demo import COLUMNS, TARGET, text_of
from tests.cli.cli_shell import open_shell, processes_of


def test_the_demo_fixes_the_test_and_leaves_no_files() -> None:
    with open_shell(provider=False) as sh:
        output = sh.ok("demo")
        assert "AssertionError: slug('Hold  Fast!') is 'hold--fast'" in output
        assert output.index("AssertionError") < output.index("✓ edit slug.py") < output.index("+    return")
        assert output.index("✓ edit slug.py") < output.index("3 titles, all fine")
        assert list((sh.base / "tmp").iterdir()) == []
        assert not sh.locations.data_dir.exists()
        assert processes_of(sh.base) == []
        assert sorted(text_of(TARGET.read_text("utf-8"))) == sorted(_rows(output)), "run: python -m dev.record_demo"


def _rows(output: str) -> Iterator[str]:
    """The lines as a terminal of the recorded width shows them. Parallel calls may end in any order."""
    for line in filter(str.strip, output.splitlines()):
        yield from (line[start : start + COLUMNS] for start in range(0, len(line), COLUMNS))


def test_an_interrupted_demo_leaves_no_files() -> None:
    with open_shell(provider=False) as sh:
        running = sh.start("demo")
        running.until("hold--fast")
        running.signal(signal.SIGINT)
        assert running.end().status == 130
        assert list((sh.base / "tmp").iterdir()) == []
        assert processes_of(sh.base / "tmp") == []
