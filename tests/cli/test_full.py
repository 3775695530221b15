"""A server whose event streams are all taken: the end is asked for instead."""

import os
from collections.abc import Iterable

import pytest

from holdfast.cli import main, run_follower
from tests.client.stub import Piece, Request, Stub, answer, error

WORKSPACE = {"id": "wsp_1", "path": "/w", "cursor": "a.0"}
RUN = {"id": "run_x", "session_id": "ses_1", "seq": 1, "state": "active"}


def _message(number: int, role: str, text: str) -> dict[str, object]:
    parts = [{"type": "text", "text": text}]
    ids = {"id": f"msg_{number}", "session_id": "ses_1", "run_id": "run_x", "created_at": ""}
    return {**ids, "seq": number, "role": role, "parts": parts}


SAID = [_message(1, "user", "hi"), _message(2, "assistant", "all of it")]


class Full:
    """Answers everything but streams; the run has ended when two were refused."""

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
            return answer({"items": SAID if self.refused > 1 else SAID[:1], "cursor": "a.1"})
        if path == "/v1/sessions/ses_1":
            queue = {"session_id": "ses_1", "active": None if self.refused > 1 else "run_x"}
            session = {"id": "ses_1", "workspace_id": "wsp_1", "busy": self.refused <= 1, "queue": queue}
            return answer(session)
        return answer({"items": [], "cursor": "a.1"})


@pytest.mark.promise("R9")
@pytest.mark.parametrize("words", [["run", "--run-id", "run_x", "hi"], ["attach", "ses_1", "--until-idle"]])
def test_who_gets_no_stream_asks_for_the_end_and_ends_with_its_text(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    full = Full()
    monkeypatch.setattr(run_follower, "POLL_SECONDS", 0.0)
    with Stub(full) as stub, open(os.devnull) as nothing:
        monkeypatch.setenv("HOLDFAST_SERVER", str(stub.address))
        monkeypatch.setattr("sys.stdin", nothing)
        assert main(words) == 0
    said = capsys.readouterr()
    assert said.out == "all of it\n"
    assert said.err.count("streams of the server are in use") == 1
    assert full.refused > 0
