"""Every end of a run and every error has its exit status and its advice."""

import itertools
import os
import signal
import tempfile
import threading
from typing import get_args

import pytest

from holdfast.cli import main
from holdfast.cli.commands import server
from holdfast.cli.exit_status import Exit, exit_of_error, exit_of_run, message_and_advice
from holdfast.client import local_server
from holdfast.errors import (
    BadRequest,
    ConfigError,
    Conflict,
    ModelAuth,
    ModelInvalid,
    NoModel,
    StartFailed,
    Unreachable,
)
from holdfast.locations import Locations
from holdfast.schema.runs import EndReason, EndState, Run, UnfinishedState
from tests.cli.cli_shell import CliShell, open_shell
from tests.client.stub_server import StubServer, Wait

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
def test_a_failed_run_exits_with_the_status_of_its_reason(reason: EndReason) -> None:
    assert exit_of_run(_run("failed", reason)) == BY_REASON.get(reason, 1)


def test_only_a_completed_run_exits_with_0() -> None:
    states = itertools.chain(get_args(EndState), get_args(UnfinishedState))
    assert [state for state in states if exit_of_run(_run(state)) == 0] == ["completed"]


def test_a_run_ended_by_timeout_exits_with_124() -> None:
    assert exit_of_run(_run("failed", "limit_time"), timed_out=True) == 124
    assert exit_of_run(_run("cancelled"), timed_out=True) == 124
    assert exit_of_run(_run("cancelled")) == 130
    assert exit_of_run(_run("completed"), timed_out=True) == 0


def test_errors_have_exit_statuses() -> None:
    assert exit_of_error(BadRequest("x")) is Exit.USAGE
    assert exit_of_error(NoModel("x")) is exit_of_error(ConfigError("x")) is Exit.CONFIGURATION
    assert exit_of_error(ModelAuth("x")) is Exit.CONFIGURATION
    assert exit_of_error(ModelInvalid("x")) is Exit.FAILED
    assert exit_of_error(Conflict("x")) is Exit.FAILED
    assert exit_of_error(Unreachable("x")) is Exit.INTERRUPTED
    assert exit_of_error(StartFailed("x", detail={"exit_status": 3})) is Exit.CONFIGURATION


@pytest.mark.parametrize(
    ("words", "status", "message"),
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
        (("!status 400",), 1, "the same request would fail again"),
        (("!status 429",), 6, "another model"),
        (("--timeout", "0.5s", "!hang"), 124, "out of time"),
    ],
)
def test_each_exit_status_of_run(sh: CliShell, words: tuple[str, ...], status: int, message: str) -> None:
    done = sh("run", *words)
    assert done.status == status, done
    assert message in done.err
    assert not (sh.work / "made").exists()


def test_a_cancelled_run_exits_with_130(sh: CliShell) -> None:
    running = sh.start("run", "!hang partial")
    running.until("partial")
    running.signal(signal.SIGINT)
    assert running.end().status == 130


def test_a_killed_server_exits_with_7() -> None:
    with open_shell() as sh:
        running = sh.start("run", "!hang partial")
        running.until("partial")
        os.kill(sh.server_pid(), signal.SIGKILL)
        done = running.end()
        assert (done.status, done.out) == (7, "partial\n")
        assert "interrupted" in done.err


def test_an_invalid_configuration_exits_with_3() -> None:
    with open_shell() as sh:
        sh.locations.config_file.write_text("[limits]\nmax_stepz = 3\n")
        done = sh("run", "hello")
        assert done.status == 3
        assert "max_steps" in done.err


@pytest.mark.parametrize("words", [["status"], ["stop"], ["run", "hello"], ["wait", "run_1"]])
def test_an_unresponsive_server_is_reported_with_its_process(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(server, "RESPONSE_SECONDS", 0.05)
    monkeypatch.setattr(local_server, "_PROBE_SECONDS", 0.05)
    go_on = threading.Event()
    with tempfile.TemporaryDirectory(prefix="hfc-") as home, open(os.devnull) as nothing:
        monkeypatch.setenv("HOLDFAST_HOME", home)
        monkeypatch.setattr("sys.stdin", nothing)
        locations = Locations.from_env(os.environ)
        locations.prepare()
        with StubServer(lambda request: [Wait(go_on)], path=locations.socket):
            assert main(words) == 7
            go_on.set()
    captured = capsys.readouterr()
    what, advice = captured.err.splitlines()
    assert "not answered" in what
    assert f"process {os.getpid()}" in what
    assert f"'kill -9 {os.getpid()}'" in advice


def test_only_errors_in_a_settings_file_advise_to_edit_it() -> None:
    assert (
        "config edit"
        in message_and_advice(ConfigError("unknown key 'modles'", detail={"file": "/home/u/config.toml"}))[1]
    )
    assert "config edit" not in message_and_advice(ConfigError("HOLDFAST_HOME must be an absolute path, got 'x'"))[1]
