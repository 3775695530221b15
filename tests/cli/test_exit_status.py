"""Every way a run can end has its exit status, and each status is seen once from outside."""

import itertools
import os
import signal
from typing import get_args

import pytest

from holdfast.cli.exit_status import Exit, exit_of_error, exit_of_run
from holdfast.errors import BadRequest, ConfigError, Conflict, ModelAuth, NoModel, StartFailed, Unreachable
from holdfast.schema.runs import EndReason, EndState, Run, UnfinishedState
from tests.cli.cli_shell import CliShell, open_shell

BY_REASON = {
    "auth": 3,
    "no_model": 3,
    "denied": 4,
    "limit_steps": 5,
    "limit_time": 5,
    "limit_cost": 5,
    "loop": 5,
    "max_tokens": 5,
    "rate_limit": 6,
    "provider": 6,
    "network": 6,
    "stall": 6,
}


def _run(state: str, reason: str | None = None) -> Run:
    return Run(id="run_1", session_id="ses_1", seq=1, state=state, reason=reason)


@pytest.mark.parametrize("reason", get_args(EndReason))
def test_a_failed_run_leaves_with_the_status_of_its_reason(reason: EndReason) -> None:
    assert exit_of_run(_run("failed", reason)) == BY_REASON.get(reason, 1)


def test_only_a_run_that_completed_is_a_success() -> None:
    states = itertools.chain(get_args(EndState), get_args(UnfinishedState))
    assert [state for state in states if exit_of_run(_run(state)) == 0] == ["completed"]


def test_time_that_was_given_and_ran_out_has_its_own_status() -> None:
    assert exit_of_run(_run("failed", "limit_time"), timed_out=True) == 124
    assert exit_of_run(_run("cancelled"), timed_out=True) == 124
    assert exit_of_run(_run("cancelled")) == 130
    assert exit_of_run(_run("completed"), timed_out=True) == 0


def test_errors_say_whose_turn_it_is() -> None:
    assert exit_of_error(BadRequest("x")) is Exit.USAGE
    assert exit_of_error(NoModel("x")) is exit_of_error(ConfigError("x")) is Exit.CONFIGURATION
    assert exit_of_error(ModelAuth("x")) is Exit.CONFIGURATION
    assert exit_of_error(Conflict("x")) is Exit.FAILED
    assert exit_of_error(Unreachable("x")) is Exit.INTERRUPTED
    assert exit_of_error(StartFailed("x", detail={"exit_status": 3})) is Exit.CONFIGURATION


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (("!say fine",), 0, ""),
        (("!refuse",), 1, "refused"),
        (("--no-such-option", "x"), 2, "unrecognized"),
        (("--timeout", "never", "x"), 2, "is not a time"),
        ((), 2, "no prompt was given"),
        (("--model", "nobody/nothing", "x"), 3, "not configured"),
        (("!status 401",), 3, "key"),
        (("!bash touch made",), 4, "denied"),
        (("--max-steps", "1", "!loop"), 5, "steps"),
        (("!cut",), 5, "output limit"),
        (("!status 400",), 6, "provider"),
        (("!status 429",), 6, "another model"),
        (("--timeout", "0.5s", "!hang"), 124, "out of time"),
    ],
)
def test_each_status_once(sh: CliShell, words: tuple[str, ...], status: int, said: str) -> None:
    done = sh("run", *words)
    assert done.status == status, done
    assert said in done.err
    assert not (sh.work / "made").exists()


def test_cancelled_is_130(sh: CliShell) -> None:
    running = sh.start("run", "!hang partial")
    running.until("partial")
    running.signal(signal.SIGINT)
    assert running.end().status == 130


def test_a_server_that_is_killed_is_7() -> None:
    with open_shell() as sh:
        running = sh.start("run", "!hang partial")
        running.until("partial")
        os.kill(sh.server_pid(), signal.SIGKILL)
        done = running.end()
        assert (done.status, done.out) == (7, "partial\n")
        assert "interrupted" in done.err


def test_a_configuration_that_cannot_be_read_is_3() -> None:
    with open_shell() as sh:
        sh.locations.config_file.write_text("[limits]\nmax_stepz = 3\n")
        done = sh("run", "hello")
        assert done.status == 3
        assert "max_steps" in done.err
