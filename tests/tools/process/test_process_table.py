"""The process table finds descendants, and signals reach only the intended process."""

import os
import signal
import subprocess
import sys
import threading

import pytest

from holdfast.tools.process import process_table as module
from holdfast.tools.process.process_table import (
    IS_LINUX,
    describe_process,
    find_process,
    process_table,
    processes_with_variable,
    quick_tree_below,
    send_signal,
    tree_below,
)

linux_only = pytest.mark.skipif(not IS_LINUX, reason="reads /proc")


@pytest.fixture(params=[pytest.param("proc", marks=linux_only), "ps"])
def table(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Read the table from /proc and with ps."""
    if request.param == "ps":
        monkeypatch.setattr(module, "IS_LINUX", False)
    return request.param


def test_the_table_has_this_process(table: str) -> None:
    ours = next(process for process in process_table() if process.pid == os.getpid())
    assert (ours.parent, ours.group, ours.alive) == (os.getppid(), os.getpgrp(), True)
    assert find_process(os.getpid()) is not None


def test_descendants_are_found_at_any_depth(table: str) -> None:
    argv = ["bash", "-c", "(sleep 1000 & echo $!; wait) & wait"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, start_new_session=True) as shell:
        assert shell.stdout
        sleeper = int(shell.stdout.readline())
        pids = {process.pid for process in tree_below(os.getpid())}
        assert {shell.pid, sleeper} <= pids
        assert os.getpid() not in pids
        assert sleeper in {process.pid for process in tree_below(1 << 30, group=shell.pid)}
        os.killpg(shell.pid, signal.SIGKILL)


@linux_only
def test_the_quick_look_finds_the_same_descendants_also_those_of_other_threads() -> None:
    found: list[subprocess.Popen[str]] = []
    argv = ["bash", "-c", "(sleep 1000 & echo $!; wait) & wait"]

    def start() -> None:
        found.append(subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, start_new_session=True))
        started.set()
        done.wait()

    started, done = threading.Event(), threading.Event()
    thread = threading.Thread(target=start)
    thread.start()
    started.wait()
    with found[0] as shell:
        assert shell.stdout
        sleeper = int(shell.stdout.readline())
        below = {process.pid: process for process in quick_tree_below(os.getpid())}
        assert below[sleeper].alive
        assert {process.pid for process in quick_tree_below(shell.pid)} == {
            process.pid for process in tree_below(shell.pid)
        }
        os.killpg(shell.pid, signal.SIGKILL)
    done.set()
    thread.join()
    assert quick_tree_below(1 << 30) == []


@linux_only
def test_a_later_process_with_the_same_pid_is_not_signalled() -> None:
    with subprocess.Popen(["sleep", "1000"]) as sleeper:
        process = find_process(sleeper.pid)
        assert process
        assert send_signal(process._replace(started="1"), signal.SIGKILL)
        assert sleeper.poll() is None
        assert send_signal(process, signal.SIGKILL)
        assert sleeper.wait() == -signal.SIGKILL
    assert send_signal(process, signal.SIGKILL)


@linux_only
def test_environment_variables_are_compared_whole() -> None:
    environment = {**os.environ, "HOLDFAST_CALL": "call_77"}
    with subprocess.Popen(["sleep", "1000"], env=environment) as sleeper:
        assert [process.pid for process in processes_with_variable("HOLDFAST_CALL=call_77")] == [sleeper.pid]
        assert processes_with_variable("HOLDFAST_CALL=call_7") == []
        sleeper.kill()


@linux_only
def test_descriptions_are_short_and_on_one_line() -> None:
    argv = [sys.executable, "-c", "import time\ntime.sleep(1000)" + "#" * 200]
    with subprocess.Popen(argv) as process:
        found = find_process(process.pid)
        assert found
        while "-c" not in (name := describe_process(found)):  # before exec it has our command line
            pass
        process.kill()
    assert name.startswith(f"{process.pid} ")
    assert "\n" not in name
    assert len(name) < 100
