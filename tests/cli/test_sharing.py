"""Several prompts in one session: steers, pauses, and what each of their commands says."""

import json
import signal

import pytest

from tests.cli.cli_shell import CliShell


def _gated(sh: CliShell, gate: str) -> dict[str, str]:
    found: dict[str, str] = sh("run", "--detach", "--output", "json", f"!gate {gate}").json["run"]
    return found


@pytest.mark.promise("R2", "R6")
def test_a_steer_joins_what_runs_and_ends_with_it(sh: CliShell) -> None:
    host = _gated(sh, "host")
    words = ("run", "--session", host["session_id"], "--delivery", "steer", "--output", "jsonl", "!say steered")
    steering = sh.start(*words)
    steering.until("run.accepted")
    while "waiting" not in sh.ok("queue", "list", host["session_id"]):
        pass
    sh.open("host")
    done = steering.end()
    result = json.loads(done.out.splitlines()[-1])
    assert (done.status, result["decision"], result["text"]) == (0, "steered", "steered")
    assert f"joins {host['id']}" in done.err
    assert sh("wait", host["id"], "--output", "json").json["text"] == "steered"


def test_a_steer_tells_the_words_of_the_run_that_it_joined(sh: CliShell) -> None:
    host = _gated(sh, "words")
    steering = sh.start("run", "--session", host["session_id"], "--delivery", "steer", "!gate more words")
    while "waiting" not in sh.ok("queue", "list", host["session_id"]):
        pass
    sh.open("words")
    steering.until("before the gate")
    sh.open("more words")
    done = steering.end()
    assert done.status == 0
    assert done.out.endswith("before the gate, after the gate\n")


@pytest.mark.promise("C4")
def test_ctrl_c_on_a_steer_that_has_joined_names_the_run_that_goes_on(sh: CliShell) -> None:
    host = _gated(sh, "joined")
    steering = sh.start("run", "--session", host["session_id"], "--delivery", "steer", "!hang both of us")
    while "waiting" not in sh.ok("queue", "list", host["session_id"]):
        pass
    sh.open("joined")
    steering.until("both of us")
    steering.signal(signal.SIGINT)
    done = steering.end()
    assert done.status == 130
    assert f"holdfast cancel {host['id']}" in done.err
    assert "active" in sh.ok("queue", "list", host["session_id"])
    sh.ok("cancel", host["id"])
    assert sh("wait", host["id"]).status == 130


@pytest.mark.promise("R5")
def test_a_queue_that_a_person_paused_is_waited_for(sh: CliShell) -> None:
    host = _gated(sh, "paused")
    sh.ok("pause", host["session_id"])
    waiting = sh.start("run", "--session", host["session_id"], "--output", "jsonl", "!say at last")
    waiting.until("run.accepted")
    sh.open("paused")
    sh.ok("wait", host["id"])
    sh.ok("resume", host["session_id"])
    done = waiting.end()
    assert done.status == 0
    assert f"holdfast resume {host['session_id']}" in done.err


def test_a_run_that_was_cancelled_from_elsewhere_says_so(sh: CliShell) -> None:
    running = sh.start("run", "--output", "jsonl", "!hang")
    running.until("run.started")
    sh.ok("cancel")
    done = running.end()
    assert (done.status, "by another client" in done.err) == (130, True)
