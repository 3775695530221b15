"""Ctrl-C, SIGTERM, and servers that stop or die during a run."""

import array
import fcntl
import json
import os
import signal
import subprocess
import termios
import threading
import time
from collections.abc import Iterable
from typing import IO

import pytest

from holdfast.cli import main, run_follower
from tests.cli.cli_shell import CliShell, open_shell
from tests.client.stub_server import STREAM, Cut, Piece, Request, StubServer, Wait, answer, chunk, error, frame

RUN = {"id": "run_x", "session_id": "ses_1", "seq": 1, "state": "active"}
WORKSPACE = {"id": "wsp_1", "path": "/w", "cursor": "a.0"}
HELLO = {"kind": "hello", "at": "", "cursor": "a.0", "heartbeat_seconds": 10.0}


def _accepted(request: Request) -> list[Piece]:
    return answer({"run": {**RUN, "id": request.json["run_id"]}, "decision": "started"}, status=202)


def _receipt(run_id: str) -> list[Piece]:
    covered = {"run_id": run_id, "session_id": "ses_1", "was": "active", "ended_as": "cancelled"}
    return answer({"mark": 1, "runs": [covered]})


@pytest.mark.promise("C1", "C4")
def test_ctrl_c_cancels_only_this_run(sh: CliShell) -> None:
    active = sh("run", "--detach", "--output", "json", "!gate only-this").json["run"]
    waiting = sh.start("run", "--session", active["session_id"], "--output", "jsonl", "!say never")
    waiting.until("queue.changed")
    behind = sh.start("run", "--session", active["session_id"], "!say behind")
    waiting.signal(signal.SIGINT)
    done = waiting.end()
    assert done.status == 130
    result = json.loads(done.out.splitlines()[-1])
    assert (result["kind"], result["state"]) == ("result", "cancelled")
    assert [covered["run_id"] for covered in result["cancelled"]] == [result["run_id"]]
    sh.open("only-this")
    assert sh.ok("wait", active["id"]) == "before the gate, after the gate"
    last = behind.end()
    assert (last.status, last.out) == (0, "behind\n")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.promise("C3", "C5", "C7")
def test_a_cancel_waits_for_the_receipt_and_keeps_the_printed_text(sh: CliShell, number: int) -> None:
    started = sh.work / f"started-{number}"
    running = sh.start("run", "--mode", "auto", f"!bash touch {started.name}; sleep 1000")
    running.until("I begin.")
    while not started.exists():
        time.sleep(0.01)
    running.signal(number)
    done = running.end()
    assert (done.status, done.out) == (130, "I begin.\n")
    assert "killed: " in done.err
    assert "sleep 1000" in done.err


def test_ctrl_c_before_acceptance_sends_the_run_again_and_cancels_it(sh: CliShell) -> None:
    posts: list[str] = []
    cancels: list[str] = []
    sent, over = threading.Event(), threading.Event()

    def respond(request: Request) -> Iterable[Piece]:
        if request.target == "/v1/workspaces":
            return answer(WORKSPACE)
        if request.target == "/v1/workspaces/wsp_1/runs":
            posts.append(request.json["run_id"])
            if len(posts) == 1:
                sent.set()
                return [Wait(over), Cut()]
            return _accepted(request)
        if request.target.endswith("/cancel"):
            cancels.append(request.target.split("/")[3])
            return _receipt(cancels[0])
        if request.target.startswith("/v1/runs/"):
            return answer({**RUN, "id": posts[0], "state": "cancelled", "reason": "user_cancel"})
        return answer({"items": [], "cursor": "a.1"})

    with StubServer(respond) as stub:
        running = sh.start("run", "hello", env={"HOLDFAST_SERVER": str(stub.address)})
        assert sent.wait(30)
        running.signal(signal.SIGINT)
        done = running.end()
        over.set()
    assert done.status == 130
    assert len(posts) == 2
    assert len({*posts, *cancels}) == 1


def test_a_second_ctrl_c_exits_at_once(sh: CliShell) -> None:
    asked, over = threading.Event(), threading.Event()

    def respond(request: Request) -> Iterable[Piece]:
        if request.target == "/v1/workspaces":
            return answer(WORKSPACE)
        if request.target.endswith("/cancel"):
            asked.set()
            return [Wait(over), Cut()]
        if request.method == "POST":
            return _accepted(request)
        return [STREAM, chunk(frame(HELLO)), Wait(over)]

    with StubServer(respond) as stub:
        running = sh.start("run", "--output", "jsonl", "hello", env={"HOLDFAST_SERVER": str(stub.address)})
        while not any("/events" in request.target for request in list(stub.requests)):
            time.sleep(0.01)
        running.signal(signal.SIGINT)
        assert asked.wait(30)
        time.sleep(0.3)  # what comes sooner is the same Ctrl-C, passed on by a wrapper
        running.signal(signal.SIGINT)
        done = running.end()
        over.set()
    assert done.status == 130
    run_id = next(request.json["run_id"] for request in stub.requests if request.target.endswith("/runs"))
    assert f"'holdfast cancel {run_id}'" in done.err.splitlines()[-1]
    assert f"'holdfast wait {run_id}'" in done.err.splitlines()[-1]


def test_two_signals_in_quick_succession_count_as_one(sh: CliShell) -> None:
    running = sh.start("run", "!hang partial")
    running.until("partial")
    running.signal(signal.SIGINT)
    running.signal(signal.SIGTERM)
    done = running.end()
    assert (done.status, done.out) == (130, "partial\n")
    assert "may still be active" not in done.err
    assert "cancelled" in done.err


@pytest.mark.parametrize("given", ["stdin", "words"])
def test_an_early_ctrl_c_still_prints_one_result(sh: CliShell, given: str) -> None:
    asked, over = threading.Event(), threading.Event()

    def respond(request: Request) -> Iterable[Piece]:
        asked.set()
        return [Wait(over), Cut()]

    with StubServer(respond) as stub:
        words = ["run", "--output", "json", *(["hello"] if given == "words" else [])]
        running = sh.start(*words, stdin=subprocess.PIPE, env={"HOLDFAST_SERVER": str(stub.address)})
        assert running.process.stdin is not None
        with running.process.stdin as stdin:
            if given == "stdin":
                stdin.write(b"and more to come")
                while _unread(stdin):
                    time.sleep(0.01)
            else:
                stdin.close()
                assert asked.wait(30)
            running.signal(signal.SIGINT)
            done = running.end()
        over.set()
    assert done.status == 130
    assert (done.json["kind"], done.json["state"], done.json["exit_code"]) == ("result", "cancelled", 130)
    assert done.json["error"]["code"] == "not_sent"


def _unread(pipe: IO[bytes]) -> bool:
    waiting = array.array("i", [0])
    fcntl.ioctl(pipe, termios.FIONREAD, waiting)
    return waiting[0] > 0


@pytest.mark.promise("R7")
def test_the_failure_of_another_run_does_not_end_this_one(sh: CliShell) -> None:
    first = sh("run", "--detach", "--output", "json", "!gate then-fail").json["run"]
    failing = sh("run", "--detach", "--output", "json", "--session", first["session_id"], "!status 400").json["run"]
    running = sh.start("run", "--session", first["session_id"], "!say mine")
    sh.open("then-fail")
    done = running.end()
    assert (done.status, done.out) == (0, "mine\n")
    assert sh("wait", failing["id"]).status == 1


def test_a_run_after_a_failed_predecessor_does_not_wait_for_ever(sh: CliShell) -> None:
    first = sh("run", "--detach", "--output", "json", "!gate no-success").json["run"]
    failing = sh("run", "--detach", "--output", "json", "--session", first["session_id"], "!status 400").json["run"]
    running = sh.start("run", "--session", first["session_id"], "--after", "success", "!say late")
    sh.open("no-success")
    done = running.end()
    assert (done.status, done.out) == (1, "")
    assert f"holdfast resume {first['session_id']}" in done.err
    assert sh("wait", failing["id"]).status == 1
    sh.ok("resume", first["session_id"])


@pytest.mark.promise("W5", "W6")
def test_a_stopped_server_interrupts_active_runs_and_keeps_queued_ones() -> None:
    with open_shell() as sh:
        active = sh.start("run", "!hang partial")
        active.until("partial")
        waiting = sh.start("run", "--output", "jsonl", "--session", sh.last_session(), "!say later")
        waiting.until("queue.changed")
        accepted = json.loads(waiting.until("queue.changed").splitlines()[0])["run"]
        attached = sh.start("attach", accepted["session_id"])
        attached.until("partial")
        sh.ok("pause", accepted["session_id"])
        waiter = sh.start("wait", accepted["id"])
        waiter.until_error("paused by the user")  # it waits now, and starts no server that was stopped
        sh.ok("resume", accepted["session_id"])
        sh.ok("stop")
        first, second, third, fourth = active.end(), waiting.end(), waiter.end(), attached.end()
        assert sh("status").out.startswith("no server is running")
        assert (first.status, first.out) == (7, "partial\n")
        assert [second.status, third.status, fourth.status] == [7, 7, 7]
        assert "holdfast resume" in second.err
        assert third.err.count("holdfast resume") == 2  # for the pause, and for the stop
        assert "the server was stopped" in fourth.err
        again = sh("wait", accepted["id"])
        assert (again.status, f"holdfast resume {accepted['session_id']}" in again.err) == (7, True)
        sh.ok("resume", accepted["session_id"])
        assert sh.ok("wait", accepted["id"]) == "later"


@pytest.mark.promise("R5")
def test_wait_prints_why_the_queue_is_paused(sh: CliShell) -> None:
    first = sh("run", "--detach", "--output", "json", "!gate paused").json["run"]
    sh.ok("pause", first["session_id"])
    queued = sh("run", "--detach", "--output", "json", "--session", first["session_id"], "!say at last").json["run"]
    done = sh("wait", queued["id"], "--timeout", "0.2s")
    assert done.status == 124
    assert f"paused by the user; 'holdfast resume {first['session_id']}'" in done.err
    sh.open("paused")
    sh.ok("resume", first["session_id"])
    assert sh.ok("wait", queued["id"]) == "at last"


@pytest.mark.promise("R10", "W6")
def test_a_queued_run_outlives_the_server_that_was_killed() -> None:
    with open_shell() as sh:
        active = sh.start("run", "!hang partial")
        active.until("partial")
        waiting = sh.start("run", "--output", "jsonl", "--session", sh.last_session(), "!say later")
        waiting.until("queue.changed")
        os.kill(sh.server_pid(), signal.SIGKILL)
        assert active.end().status == 7
        done = waiting.end()
        assert done.status == 0, done
        assert json.loads(done.out.splitlines()[-1])["text"] == "later"


def test_run_gives_up_if_the_server_stays_gone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(run_follower, "GIVE_UP_SECONDS", 0.3)

    def respond(request: Request) -> Iterable[Piece]:
        if request.target == "/v1/workspaces":
            return answer(WORKSPACE)
        if request.method == "POST":
            return _accepted(request)
        return error(503, "stopping")

    with StubServer(respond) as stub, open(os.devnull) as nothing:
        monkeypatch.setenv("HOLDFAST_SERVER", str(stub.address))
        monkeypatch.setattr("sys.stdin", nothing)
        assert main(["run", "hello"]) == 7
    captured = capsys.readouterr()
    assert (captured.out, "holdfast wait run_" in captured.err) == ("", True)
