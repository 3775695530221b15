"""What `holdfast selftest` prints and writes if a promise is broken."""

import os
import subprocess
import sys
from pathlib import Path

from tests.support.environment import isolated_environment

_PROGRAM = """
import pathlib, sys
from holdfast.cli import main
from holdfast.selftest import check_table

async def break_promise(context):
    pathlib.Path(sys.argv[2]).write_text(context.secret)
    context.count("prompts", 3)
    context.expect(False, "two ends for one run")

check_table.CHECKS = (check_table.Check("one-end", "every run ends once", ("R7",), break_promise),)
sys.exit(main(["selftest", "--quick", "--report", sys.argv[1]]))
"""


def test_a_broken_promise_exits_with_1_and_writes_a_report_without_secrets(tmp_path: Path) -> None:
    report, secret = tmp_path / "report.md", tmp_path / "secret"
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, str(report), str(secret)],
        env={"PATH": os.environ["PATH"], **isolated_environment(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=50,
    )
    assert done.returncode == 1, done.stderr
    assert "every run ends once" in done.stdout
    assert "two ends for one run" in done.stdout
    assert "BROKEN: 1 of 1 checks failed." in done.stdout
    assert str(report) in done.stdout
    text = report.read_text()
    assert "- broken: one-end (R7) {'prompts': 3}" in text
    assert "two ends for one run" in text
    assert secret.read_text().startswith("sk-selftest-")
    assert secret.read_text() not in text
