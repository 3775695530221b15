"""Output and prompts on a pseudo-terminal."""

import os
import pty
import re
import select
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.cli.cli_shell import CliShell

_TAKE_IT = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)  # so that Ctrl-C becomes a signal
os.execv(sys.executable, [sys.executable, "-m", "holdfast", *sys.argv[1:]])
"""
_ESCAPES = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


class Terminal:
    """A process whose stdin, stdout and stderr are a pseudo-terminal."""

    def __init__(self, process: subprocess.Popen[bytes], master: int) -> None:
        self.process = process
        self._master = master
        self.seen = ""

    def until(self, words: str) -> str:
        """Wait for the text; returns everything shown so far, without escape sequences."""
        while words not in self.plain:
            ready, _, _ = select.select([self._master], [], [], 30)
            assert ready, f"{words!r} was never shown: {self.plain!r}"
            if not self._read():
                raise AssertionError(f"ended without showing {words!r}: {self.plain!r}")
        return self.plain

    @property
    def plain(self) -> str:
        return _ESCAPES.sub("", self.seen)

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def end(self) -> int:
        while self._read():
            pass
        return self.process.wait(30)

    def _read(self) -> bool:
        try:
            piece = os.read(self._master, 65536)
        except OSError:  # the other side is closed
            return False
        self.seen += piece.decode("utf-8", "replace")
        return bool(piece)


@contextmanager
def terminal(sh: CliShell, *words: str) -> Iterator[Terminal]:
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", _TAKE_IT, *words],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        cwd=sh.work,
        env=sh.env,
        start_new_session=True,
    )
    os.close(slave)
    try:
        yield Terminal(process, master)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        os.close(master)


def test_the_spinner_shows_the_current_activity(sh: CliShell) -> None:
    with terminal(sh, "run", "--mode", "auto", "!bash sleep 0.3; echo done") as shown:
        shown.until("bash: sleep 0.3; echo done")
        assert shown.end() == 0
    assert "starting" in shown.plain or "first token" in shown.plain
    assert shown.seen.count("\r\x1b[K") > 2
    assert "I begin." in shown.plain
    assert "1 step" in shown.plain or "2 steps" in shown.plain
    assert shown.seen.rstrip().endswith("\x1b[0m")


def test_the_spinner_counts_down_to_a_retry(sh: CliShell) -> None:
    with terminal(sh, "run", "!retry at a terminal") as shown:
        shown.until("rate_limit, retry in ")
        assert shown.end() == 0
    assert "at last" in shown.plain


@pytest.mark.promise("W4")
def test_an_approval_is_answered_at_the_prompt(sh: CliShell) -> None:
    with terminal(sh, "run", "!bash touch asked-for") as shown:
        shown.until("[n] no, or 'n REASON': ")
        assert "bash: touch asked-for" in shown.plain
        assert not (sh.work / "asked-for").exists()
        shown.type("maybe\n")
        shown.until("please answer with y, s, a, e or n")
        shown.type("y\n")
        shown.until("allowed once")
        assert shown.end() == 0
    assert (sh.work / "asked-for").exists()


def test_a_denial_tells_the_agent_why(sh: CliShell) -> None:
    with terminal(sh, "run", "!bash touch denied") as shown:
        shown.until("'n REASON': ")
        shown.type("n use another name\n")
        assert shown.end() == 0
    assert "use another name" in shown.plain.partition("done: ")[2]
    assert not (sh.work / "denied").exists()


def test_an_answer_by_another_client_ends_the_prompt(sh: CliShell) -> None:
    with terminal(sh, "run", "!bash touch elsewhere") as shown:
        shown.until("'n REASON': ")
        (asked,) = sh("approvals", "list", "--json").json["approvals"]["items"]
        assert asked["title"] == "touch elsewhere"
        sh.ok("approvals", "answer", asked["id"], "once")
        shown.until("answered by another client")
        assert shown.end() == 0
    assert (sh.work / "elsewhere").exists()
    late = sh("approvals", "answer", asked["id"], "deny")
    assert (late.status, late.out) == (1, "")


def test_ctrl_c_at_the_prompt_cancels_the_run(sh: CliShell) -> None:
    with terminal(sh, "run", "!bash touch cancelled") as shown:
        shown.until("'n REASON': ")
        shown.type("\x03")
        assert shown.end() == 130
    assert not (sh.work / "cancelled").exists()
    assert sh.ok("approvals", "list") == "no approvals or questions are pending in this directory"


def test_a_question_is_answered_by_its_number(sh: CliShell) -> None:
    with terminal(sh, "run", "!ask which colour?") as shown:
        shown.until("number, Ctrl-D to skip: ")
        shown.type("9\n")
        shown.until("not one of the choices")
        shown.type("2\n")
        assert shown.end() == 0
    assert "blue" in shown.plain.partition("done: ")[2]


def test_control_characters_of_the_model_do_not_reach_the_terminal(sh: CliShell) -> None:
    with terminal(sh, "run", "!say \x1b]0;owned\x07plain") as shown:
        assert shown.end() == 0
    assert "\x1b]0;" not in shown.seen
    assert "\\x1b]0;owned" in shown.seen


def test_attach_follows_a_session_live(sh: CliShell) -> None:
    accepted = sh("run", "--detach", "--output", "json", "!gate attached").json["run"]
    with terminal(sh, "attach", accepted["session_id"], "--until-idle") as shown:
        shown.until("> !gate attached")
        shown.until("before the gate")
        sh.open("attached")
        shown.until("after the gate")
        assert shown.end() == 0


def test_ctrl_c_in_attach_cancels_nothing(sh: CliShell) -> None:
    accepted = sh("run", "--detach", "--output", "json", "!gate left-alone").json["run"]
    with terminal(sh, "attach", accepted["session_id"]) as shown:
        shown.until("before the gate")
        shown.type("\x03")
        assert shown.end() == 0
    sh.open("left-alone")
    assert sh.ok("wait", accepted["id"]) == "before the gate, after the gate"
