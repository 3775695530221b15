"""After a shell loop no process, socket or held lock is left."""

import fcntl
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.cli_shell import CliShell, open_shell, processes_of
from tests.support.stress import StressShare


def _loop(sh: CliShell, count: int) -> list[str]:
    """Run a loop as a user would type it; returns its output."""
    program = (
        f'for n in $(seq {count}); do "{sys.executable}" -m holdfast run --quiet "!say $n" || echo "failed $?"; done'
    )
    done = subprocess.run(
        ["bash", "-c", program], capture_output=True, text=True, check=True, cwd=sh.work, env=sh.env, timeout=600
    )
    assert done.stderr == ""
    return done.stdout.split()


def _free(lock: Path) -> bool:
    if not lock.exists():
        return True
    with lock.open("r+b") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def _check(sh: CliShell, count: int) -> None:
    assert _loop(sh, count) == [str(number) for number in range(1, count + 1)]
    assert len(processes_of(sh.base)) == 1, "only the server goes on"
    sh.ok("stop")
    assert processes_of(sh.base) == []
    assert [path for path in sh.base.rglob("*") if path.is_socket()] == []
    assert [lock for lock in sh.base.rglob("*.lock") if not _free(lock)] == []
    assert list((sh.base / "tmp").iterdir()) == []


def test_ten_runs_in_a_shell_loop_leave_no_process_or_file() -> None:
    with open_shell() as sh:
        _check(sh, 10)


@pytest.mark.stress
def test_many_runs_in_a_shell_loop_leave_no_process_or_file(share: StressShare) -> None:
    for _ in share.rounds():
        with open_shell() as sh:
            _check(sh, 50)
        share.count("runs", 50)


def test_concurrent_runs_share_one_server() -> None:
    with open_shell() as sh:
        started = [sh.start("run", f"!say {number}") for number in range(6)]
        assert [running.end().out for running in started] == [f"{number}\n" for number in range(6)]
        assert len(processes_of(sh.base)) == 1
