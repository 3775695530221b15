"""`make promises` prints which test proves which promise."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dev import promises

_ROOT = Path(__file__).parents[2]
_DOCUMENT = "| id | promise |\n|---|---|\n| R1 | **One.** Not R9. |\n| R2 | Two. |\n| C1 | Three. |\n"


def _run(tmp_path: Path, tests: str) -> subprocess.CompletedProcess[str]:
    """Run the program as make does, on a small project."""
    (tmp_path / "promises.md").write_text(_DOCUMENT)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = promise\n    stress\naddopts = -m 'not stress'\n")
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_it.py").write_text(f"import pytest\nproves = pytest.mark.promise\n{tests}")
    program = [sys.executable, str(_ROOT / "dev" / "promises.py"), "--document", "promises.md", "--tests", "tests"]
    quick = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    return subprocess.run(program, cwd=tmp_path, env=quick, capture_output=True, text=True, check=False, timeout=50)


def test_each_promise_is_followed_by_its_tests_or_reported_as_missing(tmp_path: Path) -> None:
    done = _run(
        tmp_path,
        "@proves('C1', 'R1')\ndef test_b(): ...\n"
        "@proves('R1')\n@pytest.mark.parametrize('word', ['MISSING', 'other'])\ndef test_a(word): ...\n"
        "def test_without_a_promise(): ...\n",
    )
    assert done.stdout.splitlines() == [
        "R1",
        "  tests/test_it.py::test_a (2 cases)",
        "  tests/test_it.py::test_b",
        "MISSING R2",
        "C1",
        "  tests/test_it.py::test_b",
    ]
    assert (done.returncode, done.stderr) == (0, "")


def test_stress_tests_prove_promises_too(tmp_path: Path) -> None:
    done = _run(tmp_path, "@proves('R2')\n@pytest.mark.stress\ndef test_long(): ...\n")
    assert "R2\n  tests/test_it.py::test_long\n" in done.stdout


def test_unknown_id_is_an_error(tmp_path: Path) -> None:
    done = _run(tmp_path, "@proves('R1', 'R9')\ndef test_a(): ...\n")
    assert done.returncode == 1
    assert done.stderr == "tests/test_it.py::test_a names 'R9', which is not in the document\n"


def test_failed_collection_is_an_error(tmp_path: Path) -> None:
    done = _run(tmp_path, "raise RuntimeError('broken file')\n")
    assert done.returncode == 1
    assert done.stdout == ""
    assert "broken file" in done.stderr


def test_only_lines_of_missing_promises_contain_the_word_missing() -> None:
    lines, errors = promises.report(["R1", "R2"], {("R1", "t.py::test_MISSING"): 1, ("MISSING", "t.py::test_x"): 1})
    assert [line for line in lines + errors if "MISSING" in line] == ["MISSING R2"]


@pytest.mark.parametrize(("letter", "count"), [("R", 15), ("C", 10), ("E", 8), ("W", 16)])
def test_document_has_every_row_once(letter: str, count: int) -> None:
    ids = promises.promised_ids((_ROOT / "docs" / "promises.md").read_text())
    assert [id_ for id_ in ids if id_[0] == letter] == [f"{letter}{number}" for number in range(1, count + 1)]
