"""What `holdfast selftest` prints and writes, and what it leaves behind if it is ended."""

import fcntl
import os
import re
import signal
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from holdfast.cli.commands.selftest import LiveTable
from holdfast.selftest.check_result import CheckResult
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


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_self_test_that_is_ended_leaves_no_server_and_no_files(tmp_path: Path, number: signal.Signals) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    env = {"PATH": os.environ["PATH"], **isolated_environment(tmp_path), "TMPDIR": str(temporary)}
    command = [sys.executable, "-P", "-m", "holdfast", "selftest", "--quick"]
    process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()  # the first check has ended, and the server of the test is running
    [lock] = temporary.rglob("holdfast.db.lock")
    server = int(lock.read_text().split()[0])
    process.send_signal(number)
    process.communicate(timeout=50)
    assert process.returncode == 130
    assert list(temporary.iterdir()) == []
    with pytest.raises(ProcessLookupError):
        os.kill(server, 0)


@pytest.mark.parametrize(("columns", "rows"), [(40, 8), (60, 30), (100, 30)])
def test_the_live_table_fits_into_the_terminal(columns: int, rows: int) -> None:
    results = [
        CheckResult(f"check-{n}", "a title that is as long as those of the real checks", ("R1",), counts={"kills": n})
        for n in range(15)
    ]
    master, slave = os.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    drawn = ""
    with open(master, "rb", buffering=0) as screen, open(slave, "w", encoding="utf-8") as stream:
        table = LiveTable(stream)
        table.show(results)
        table.finish()
        stream.write("end")
        stream.flush()
        while not drawn.endswith("end"):
            drawn += screen.read(100_000).decode()
    drawn = drawn.removesuffix("end").replace("\r", "")
    first, second = drawn.split(f"\x1b[{min(15, rows - 1)}A")
    for drawing in (first, second):
        lines = re.sub("\x1b\\[[0-9;]*[A-Za-z]", "", drawing).splitlines()
        assert len(lines) == min(15, rows - 1)
        assert max(map(len, lines)) <= columns
    if columns == 100:
        assert "1 kill\x1b" in second
        assert "2 kills\x1b" in second
