"""Standard streams that are closed or full, and bytes that are no text: told in lines, never as faults."""

import subprocess
import sys

import pytest

from tests.cli.cli_shell import CliShell


def _bash(sh: CliShell, words: str, *, before: str = "") -> subprocess.CompletedProcess[str]:
    program = f'{before} "{sys.executable}" -m holdfast {words}'
    done = subprocess.run(
        ["bash", "-c", program],
        check=False,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env=sh.env,
        cwd=sh.work,
    )
    assert "Traceback" not in done.stderr
    assert "unexpected" not in done.stderr
    assert "Exception ignored" not in done.stderr
    return done


@pytest.mark.parametrize("words", ["run '!say fine'", "run --help", "--help", "--version", "sessions list"])
def test_a_full_stdout_is_one_line_and_no_success(sh: CliShell, words: str) -> None:
    done = _bash(sh, f"{words} >/dev/full")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "holdfast: cannot write to stdout: No space left on device"


@pytest.mark.parametrize("words", ["run '!say fine'", "--help", "nonsense"])
@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-", "2>/dev/full"])
def test_a_closed_stream_is_nobody_and_no_fault(sh: CliShell, words: str, closed: str) -> None:
    done = _bash(sh, f"{words} {closed}")
    assert done.returncode == (2 if words == "nonsense" else 0)
    if closed in ("<&-", "2>&-") and words.startswith("run '"):
        assert done.stdout == "fine\n"


@pytest.mark.parametrize(
    "words",
    [
        "run $'\\xff'",
        "sessions show $'\\xff'",
        "$'\\xff'",
        "-C $'\\xff' run hi",
        "run --attach $'\\xff' hi",
        "run --model $'\\xff' hi",
    ],
)
def test_arguments_that_are_no_text_are_usage_errors(sh: CliShell, words: str) -> None:
    done = _bash(sh, words)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 2)
    assert r"'\xff' is not UTF-8" in done.stderr


def test_a_home_or_a_directory_that_is_no_text_is_a_usage_error(sh: CliShell) -> None:
    done = _bash(sh, "status", before="export HOLDFAST_HOME=$'/tmp/\\xff';")
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 2)
    assert r"HOLDFAST_HOME '/tmp/\xff' is not UTF-8" in done.stderr
    done = _bash(sh, "run hi", before="mkdir $'\\xff'; cd $'\\xff';")
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 2)
    assert "not UTF-8" in done.stderr
