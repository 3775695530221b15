"""Following runs: steers, paused queues, and servers without a free event stream."""

import json
import os
import signal
from collections.abc import Iterable

import pytest

from holdfast.cli import main, run_follower
from tests.cli.cli_shell import CliShell
from tests.client.stub_server import STREAM, Piece, Request, StubServer, answer, chunk, error, frame

WORKSPACE = {"id": "wsp_1", "path": "/w", "cursor": "a.0"}


RUN = {"id": "run_x", "session_id": "ses_1", "seq": 1, "state": "active"}


def _message(number: int, role: str, text: str) -> dict[str, object]:
    parts = [{"type": "text", "text": text}]
    ids = {"id": f"msg_{number}", "session_id": "ses_1", "run_id": "run_x", "created_at": ""}
    return {**ids, "seq": number, "role": role, "parts": parts}


MESSAGES = [_message(1, "user", "hi"), _message(2, "assistant", "all of it")]


class FullServer:
    """Refuses event streams; the run has ended after the second refusal."""

    def __init__(self) -> None:
        self.refused = 0

    def __call__(self, request: Request) -> Iterable[Piece]:
        path = request.target.partition("?")[0]
        if path.endswith("/events"):
            self.refused += 1
            return error(429, "too_many_streams", "256 streams are open already; close some")
        if path == "/v1/workspaces":
            return answer(WORKSPACE)
        if request.method == "POST":
            return answer({"run": RUN, "decision": "started"}, status=202)
        if path == "/v1/runs/run_x":
            ended = {"state": "completed", "reason": "end_turn", "text": "all of it"} if self.refused > 1 else {}
            return answer({**RUN, **ended})
        if path.endswith("/messages"):
            return answer({"items": MESSAGES if self.refused > 1 else MESSAGES[:1], "cursor": "a.1"})
        if path == "/v1/sessions/ses_1":
            queue = {"session_id": "ses_1", "active": None if self.refused > 1 else "run_x"}
            session = {"id": "ses_1", "workspace_id": "wsp_1", "busy": self.refused <= 1, "queue": queue}
            return answer(session)
        return answer({"items": [], "cursor": "a.1"})


@pytest.mark.promise("R9")
@pytest.mark.parametrize("words", [["run", "--run-id", "run_x", "hi"], ["attach", "ses_1", "--until-idle"]])
def test_without_a_free_stream_the_end_is_found_by_polling(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    full = FullServer()
    monkeypatch.setattr(run_follower, "POLL_SECONDS", 0.0)
    with StubServer(full) as stub, open(os.devnull) as nothing:
        monkeypatch.setenv("HOLDFAST_SERVER", str(stub.address))
        monkeypatch.setattr("sys.stdin", nothing)
        assert main(words) == 0
    captured = capsys.readouterr()
    assert captured.out == "all of it\n"
    assert captured.err.count("streams of the server are in use") == 1
    assert full.refused > 0


class LateEventServer(FullServer):
    """Streams a heartbeat before the event of a run that has already ended."""

    def __init__(self, *events: dict[str, object]) -> None:
        super().__init__()
        self.refused = 2
        hello = {"kind": "hello", "at": "", "cursor": "a.0", "heartbeat_seconds": 60.0}
        self.stream = [STREAM, chunk(b"".join(frame(event, "a.1") for event in (hello, *events)))]

    def __call__(self, request: Request) -> Iterable[Piece]:
        return self.stream if request.target.partition("?")[0].endswith("/events") else super().__call__(request)


HEARTBEAT: dict[str, object] = {"kind": "heartbeat", "at": ""}
FINISHED = {
    "kind": "run.finished",
    "at": "",
    "session_id": "ses_1",
    "run": {**RUN, "state": "completed", "reason": "end_turn", "text": "all of it"},
}


@pytest.mark.promise("R9")
@pytest.mark.parametrize(
    ("events", "printed"),
    [
        ([HEARTBEAT, FINISHED], ["run.finished", "result"]),
        ([HEARTBEAT, HEARTBEAT], ["result"]),
    ],
    ids=["its event is on the way", "its event never comes"],
)
def test_a_run_that_has_ended_is_followed_until_its_event_or_the_next_heartbeat(
    events: list[dict[str, object]],
    printed: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with StubServer(LateEventServer(*events)) as stub, open(os.devnull) as nothing:
        monkeypatch.setenv("HOLDFAST_SERVER", str(stub.address))
        monkeypatch.setattr("sys.stdin", nothing)
        assert main(["run", "--run-id", "run_x", "--output", "jsonl", "hi"]) == 0
    assert [json.loads(line)["kind"] for line in capsys.readouterr().out.splitlines()] == printed


def _gated(sh: CliShell, gate: str) -> dict[str, str]:
    found: dict[str, str] = sh("run", "--detach", "--output", "json", f"!gate {gate}").json["run"]
    return found


@pytest.mark.promise("R2", "R6")
def test_a_steer_joins_the_active_run_and_ends_with_it(sh: CliShell) -> None:
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


def test_a_steer_prints_the_text_of_the_run_that_it_joined(sh: CliShell) -> None:
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
def test_ctrl_c_on_a_joined_steer_names_the_host_run(sh: CliShell) -> None:
    host = _gated(sh, "joined")
    steering = sh.start("run", "--session", host["session_id"], "--delivery", "steer", "!hang both of them")
    while "waiting" not in sh.ok("queue", "list", host["session_id"]):
        pass
    sh.open("joined")
    steering.until("both of them")
    steering.signal(signal.SIGINT)
    done = steering.end()
    assert done.status == 130
    assert f"holdfast cancel {host['id']}" in done.err
    assert "active" in sh.ok("queue", "list", host["session_id"])
    sh.ok("cancel", host["id"])
    assert sh("wait", host["id"]).status == 130


@pytest.mark.promise("R5")
def test_run_waits_for_a_queue_paused_by_the_user(sh: CliShell) -> None:
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


def test_a_run_cancelled_by_another_client_is_reported(sh: CliShell) -> None:
    running = sh.start("run", "--output", "jsonl", "!hang")
    running.until("run.started")
    sh.ok("cancel")
    done = running.end()
    assert (done.status, "by another client" in done.err) == (130, True)
