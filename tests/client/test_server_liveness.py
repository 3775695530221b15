"""What became of a local server: its socket tells, and its process."""

import os
import socket
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.client.server_liveness import is_alive, what_became_of
from holdfast.client.sync_client import SyncClient
from holdfast.errors import Stopping
from tests.client.stub import Stub, answer


@pytest.fixture
def path() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="hfc-") as home:
        yield Path(home) / "s"


def test_a_server_that_listens_is_there(path: Path) -> None:
    with Stub(lambda request: [], path=path):
        assert what_became_of(str(path), None) == "listens"


def test_a_socket_that_was_left_behind_is_a_crash(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
    ended = subprocess.Popen(["true"])
    ended.wait()
    assert not is_alive(ended.pid)
    assert what_became_of(str(path), ended.pid) == "died"
    assert what_became_of(str(path), None) == "died"


def test_a_process_that_is_still_leaving_is_waited_for(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
    found: list[str] = []
    thread = threading.Thread(target=lambda: found.append(what_became_of(str(path), os.getpid())))
    thread.start()
    path.unlink()
    thread.join()
    assert found == ["stopped"]


def test_who_waits_does_not_start_a_server_that_was_stopped(path: Path) -> None:
    revived: list[str] = []
    with Stub(lambda request: answer({"status": "ok", "version": "0"}), path=path) as stub:
        client = SyncClient(stub.address, revive=lambda: revived.append("again"))
        assert client.health().status == "ok"
    path.unlink()
    client.leaves_stopped = True
    with client, pytest.raises(Stopping):
        client.health()
    with client.events() as events, pytest.raises(Stopping):
        next(events)
    assert revived == []
