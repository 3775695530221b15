"""`main`: options before the command, unknown commands, and arguments that are not text."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.cli_shell import CliShell


def test_no_command_without_a_terminal_prints_the_overview(sh: CliShell) -> None:
    done = sh()
    assert (done.status, done.err) == (0, "")
    assert done.out == sh("--help").out


def test_the_terminal_interface_needs_a_terminal(sh: CliShell) -> None:
    for words in (("--continue",), ("--session", "ses_1")):
        done = sh(*words)
        assert (done.status, done.out) == (2, "")
        assert "needs a terminal" in done.err
    assert "goes behind the command" in sh("--continue", "run", "x").err


def test_usage_errors_have_two_lines(sh: CliShell) -> None:
    for words in (("runn", "x"), ("--nonsense",), ("sessions", "lst"), ("approvals", "answer", "x", "perhaps")):
        done = sh(*words)
        assert (done.status, done.out) == (2, "")
        assert len(done.err.strip().splitlines()) == 2, done.err
    assert "did you mean 'run'?" in sh("runn").err


def test_the_directory_option_selects_the_workspace(sh: CliShell, tmp_path: Path) -> None:
    assert sh("-C", str(tmp_path), "run", "--output", "json", "!say there").json["text"] == "there"
    assert sh("sessions", "list", "-C", str(tmp_path), "--json").json["items"][0]["title"]
    assert sh("-C", str(tmp_path / "absent"), "status").status == 2


def test_a_quoted_prompt_needs_no_command(sh: CliShell, tmp_path: Path) -> None:
    first = sh("-C", str(tmp_path), "!say it works")
    assert (first.status, first.out) == (0, "it works\n")
    again = sh("-C", str(tmp_path), "--continue", "!say and goes on")
    assert (again.status, again.out) == (0, "and goes on\n")
    assert len(sh("sessions", "-C", str(tmp_path), "--json").json["items"]) == 1
    assert sh("--session", "ses_absent", "!say lost").status == 1
    behind = sh("!say x", "--model", "a/b")
    assert (behind.status, "holdfast run OPTIONS PROMPT" in behind.err) == (2, True)
    assert "holdfast run fix …" in sh("fix", "the", "test").err


def test_commands_with_subcommands_list_without_one(sh: CliShell) -> None:
    sh.ok("run", "!say listed")
    for command in ("sessions", "queue", "approvals", "config", "key", "jobs"):
        listed = "get" if command == "config" else "list"
        assert sh.ok(command) == sh.ok(command, listed)
        assert sh(command, "--json").json == sh(command, listed, "--json").json


def test_ids_may_be_shortened_as_long_as_they_are_unique(sh: CliShell) -> None:
    found = sh("run", "--json", "!say short").json
    sh.ok("run", "!say another")
    run_id, session_id = found["run_id"], found["session_id"]
    assert sh.ok("wait", run_id[:-2]) == "short"
    assert sh.ok("wait", run_id[4:-2]) == "short"
    assert "short" in sh.ok("sessions", "show", session_id[:-2])
    assert "short" in sh.ok("sessions", "show", "--session", session_id[:-2])
    assert sh("run", "--json", "--session", session_id[:-2], "!say on").json["session_id"] == session_id
    assert sh("sessions", "show", session_id, "--session", session_id).status == 2
    ambiguous = sh("sessions", "show", "ses_")
    assert (ambiguous.status, len(ambiguous.err.splitlines())) == (2, 2)
    assert "is the beginning of several ids: ses_" in ambiguous.err
    assert sh("wait", "run_zz").status == 1
    assert sh("cancel", run_id[:-2], "--json").json["runs"][0]["run_id"] == run_id


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
def test_arguments_that_are_not_utf8_are_usage_errors(sh: CliShell, words: str) -> None:
    done = _bash(sh, words)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 2)
    assert r"'\xff' is not UTF-8" in done.stderr


def test_a_home_or_directory_that_is_not_utf8_is_a_usage_error(sh: CliShell) -> None:
    done = _bash(sh, "status", before="export HOLDFAST_HOME=$'/tmp/\\xff';")
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 2)
    assert r"HOLDFAST_HOME '/tmp/\xff' is not UTF-8" in done.stderr
    done = _bash(sh, "run hi", before="mkdir $'\\xff'; cd $'\\xff';")
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 2)
    assert "not UTF-8" in done.stderr


def test_all_streams_closed_and_invalid_utf8_do_not_crash(sh: CliShell) -> None:
    program = f'"{sys.executable}" -m holdfast run "!say nobody reads this" <&- >&- 2>&-; echo $?'
    done = subprocess.run(["bash", "-c", program], capture_output=True, text=True, env=sh.env, cwd=sh.work, check=True)
    assert done.stdout == "0\n"
    program = f"\"{sys.executable}\" -m holdfast run $'\\xff'; echo $?"
    done = subprocess.run(["bash", "-c", program], capture_output=True, text=True, env=sh.env, cwd=sh.work, check=True)
    assert done.stdout == "2\n"
    assert "not UTF-8" in done.stderr
