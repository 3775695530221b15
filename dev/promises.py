"""Print the tests that prove each promise of docs/promises.md.

Run by `make promises`. A test proves a promise by naming it: `@pytest.mark.promise("R1", "C3")`. A promise without a
test is printed as missing. The exit status is 1 if a test names an id that is not in the document, or if the tests
cannot be collected.
"""

import argparse
import contextlib
import io
import re
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

_ROW = re.compile(r"^\|\s*([A-Z]\d+)\s*\|", re.MULTILINE)
_MISSING = "MISSING"


class Collector:
    """A pytest plugin that counts the cases of each test per promise that it names."""

    def __init__(self) -> None:
        self.cases: Counter[tuple[str, str]] = Counter()

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        for item in session.items:
            test = item.nodeid.partition("[")[0]
            ids = {str(id_) for marker in item.iter_markers("promise") for id_ in marker.args}
            self.cases.update((id_, test) for id_ in ids)


def promised_ids(document: str) -> list[str]:
    """The ids of the document's rows, in order."""
    return _ROW.findall(document)


def report(promised: Iterable[str], cases: Mapping[tuple[str, str], int]) -> tuple[list[str], list[str]]:
    """The lines to print, and one error per test that names an unknown id."""
    promised = list(promised)
    lines = []
    for id_ in promised:
        tests = sorted(test for known, test in cases if known == id_)
        lines.append(_plain(id_) if tests else f"{_MISSING} {id_}")
        lines.extend(f"  {_plain(test)}{_times(cases[id_, test])}" for test in tests)
    unknown = sorted((test, id_) for id_, test in cases if id_ not in promised)
    return lines, [_plain(f"{test} names {id_!r}, which is not in the document") for test, id_ in unknown]


def collect(directory: Path) -> tuple[Collector, str | None]:
    """Collect all tests, stress tests included; also returns pytest's output if that failed."""
    collector, output = Collector(), io.StringIO()
    arguments = ["--collect-only", "-q", "-m", "", "-p", "no:cacheprovider", str(directory)]
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
        status = pytest.main(arguments, plugins=[collector])
    succeeded = status in {pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED}
    return collector, None if succeeded else output.getvalue()


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--document", type=Path, default=Path("docs/promises.md"))
    parser.add_argument("--tests", type=Path, default=Path("tests"))
    options = parser.parse_args(argv)
    collector, failure = collect(options.tests)
    if failure is not None:
        print(_plain(failure), file=sys.stderr)
        return 1
    lines, errors = report(promised_ids(options.document.read_text(encoding="utf-8")), collector.cases)
    print("\n".join(lines))
    for error in errors:
        print(error, file=sys.stderr)
    return 1 if errors else 0


def _times(cases: int) -> str:
    return f" ({cases} cases)" if cases > 1 else ""


def _plain(text: str) -> str:
    """The text without the word that marks a missing promise, which a test name could contain by chance."""
    return text.replace(_MISSING, _MISSING.lower())


if __name__ == "__main__":
    sys.exit(main())
