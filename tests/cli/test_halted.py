"""A server that is there but does not answer: told within a bounded time, with its process and what to do."""

import os
import socket
import tempfile
import threading
from pathlib import Path

import pytest

from holdfast.cli import main
from holdfast.cli.commands import server
from holdfast.client import local_server
from holdfast.client.server_address import ServerAddress
from holdfast.client.sync_http import Connection
from holdfast.errors import NoAnswer
from holdfast.locations import Locations
from tests.client.stub import Stub, Wait


@pytest.mark.parametrize("words", [["status"], ["stop"], ["run", "hello"], ["wait", "run_1"]])
def test_a_server_that_does_not_answer_is_named_with_its_process(
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
        with Stub(lambda request: [Wait(go_on)], path=locations.socket):
            assert main(words) == 7
            go_on.set()
    said = capsys.readouterr()
    what, advice = said.err.splitlines()
    assert "not answered" in what
    assert f"process {os.getpid()}" in what
    assert f"'kill -9 {os.getpid()}'" in advice


def test_a_server_that_takes_no_connections_does_not_answer_either() -> None:
    with tempfile.TemporaryDirectory(prefix="hfc-") as home, socket.socket(socket.AF_UNIX) as listener:
        path = str(Path(home) / "s")
        listener.bind(path)
        listener.listen(0)
        with socket.socket(socket.AF_UNIX) as first:
            first.connect(path)
            connection = Connection(ServerAddress(path=path), headers={})
            with pytest.raises(NoAnswer, match="accepts no connections"):
                connection.exchange("GET", "/v1/health", body=None, headers={}, seconds=0.05)
