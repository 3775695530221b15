"""Clients find the local server or start it, once, and report why a start fails."""

import asyncio
import fcntl
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdfast import __version__
from holdfast.client.local_server import LocalServer, diagnose_socket, is_alive, open_async_client, open_sync_client
from holdfast.client.server_address import ServerAddress
from holdfast.errors import ConfigError, NoAnswer, ServerStopping, StartFailed
from holdfast.ids import build_id
from holdfast.locations import Locations
from tests.client.both_clients import Open, both
from tests.client.stub_server import Piece, Request, StubServer, Wait, answer, error, one_after_another
from tests.store.faulty_database import small_disk

FAKE = Path(__file__).with_name("fake_server.py")


class UserHome:
    """One user's locations, and the servers started in them."""

    def __init__(self, home: Path) -> None:
        self.locations = Locations.from_env({"HOLDFAST_HOME": str(home / "h")})
        self.notes = home / "notes"

    def local(self, *, mode: str = "ok", build: str = "b1", seconds: float = 20.0, **env: str) -> LocalServer:
        command = (sys.executable, str(FAKE), str(self.locations.socket), str(self.notes), mode)
        return LocalServer(
            self.locations, env={"PATH": "/usr/bin", **env}, command=command, build=build, seconds=seconds
        )

    @property
    def started(self) -> list[int]:
        if not self.notes.exists():
            return []
        return [int(line.split()[0]) for line in self.notes.read_text().splitlines()]


@pytest.fixture
def place(home: Path) -> Iterator[UserHome]:
    place = UserHome(home)
    yield place
    for pid in place.started:
        try:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        except (ProcessLookupError, ChildProcessError):
            pass


def _until(condition: Callable[[], bool]) -> None:
    """Wait for another process or thread; the test's time-out is the limit."""
    while not condition():
        os.sched_yield()


def test_a_missing_server_is_started_once(place: UserHome) -> None:
    assert place.local().probe() is None
    health = place.local().ensure()
    assert (health.status, health.version) == ("ok", "0.1.0")
    assert place.local().ensure() == health
    (pid,) = place.started
    assert os.getsid(pid) == pid, "it must outlive the terminal it was started from"
    assert place.notes.read_text().split()[1] == str(place.locations.state_dir.resolve())


def test_eight_concurrent_clients_start_one_server(place: UserHome) -> None:
    barrier = threading.Barrier(8)
    found: list[str] = []

    def ensure() -> None:
        local = place.local()
        barrier.wait()
        found.append(local.ensure().status)

    threads = [threading.Thread(target=ensure) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == ["ok"] * 8
    assert len(place.started) == 1


@pytest.mark.promise("W10")
def test_a_client_that_loses_the_start_uses_the_other_server(place: UserHome) -> None:
    """The other server was started by hand, without the clients' lock."""
    place.locations.prepare()
    handle = os.open(f"{place.locations.socket}.lock", os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(handle, fcntl.LOCK_EX)
    found: list[str] = []
    thread = threading.Thread(target=lambda: found.append(place.local().ensure().status))
    thread.start()
    _until(lambda: len(place.started) >= 2)
    os.close(handle)
    thread.join()
    assert found == ["ok"]


def test_a_failed_start_contains_the_output_of_the_server(place: UserHome) -> None:
    place.locations.prepare()
    log = place.local().log
    log.write_text("output of an older start\n")
    with pytest.raises(StartFailed, match=r"exit status 3\):\nconfig\.toml:3: unknown key 'modles'") as caught:
        place.local(mode="broken").ensure()
    assert "older" not in str(caught.value)
    assert len(place.started) == 1


def test_a_missing_server_program_is_named(place: UserHome) -> None:
    local = LocalServer(place.locations, env={}, command=("/nowhere/python",), build="")
    with pytest.raises(StartFailed, match=r"cannot run '/nowhere/python': No such file"):
        local.ensure()


def test_a_start_without_response_fails_after_its_seconds(place: UserHome) -> None:
    with pytest.raises(StartFailed, match=r"does not answer after 0\.2 s; it printed nothing to '.*start\.log'"):
        place.local(mode="mute", seconds=0.2).ensure()


def test_a_full_disk_is_named_if_the_server_could_print_nothing(
    place: UserHome, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with small_disk(tmp_path / "disk", "1m") as disk:
        if disk is None:
            pytest.skip("mounting is not permitted here")
        (disk / "filler").write_bytes(bytes(1 << 20))
        monkeypatch.setattr(LocalServer, "log", disk / "start.log")
        with pytest.raises(StartFailed, match=r"the disk of '.*/disk' is full: free some space, and try again"):
            place.local(mode="mute", seconds=0.2).ensure()


def test_waiting_for_the_start_lock_is_bounded(place: UserHome) -> None:
    place.locations.prepare()
    handle = os.open(place.locations.runtime_dir / "start.lock", os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(handle, fcntl.LOCK_EX)
    with pytest.raises(StartFailed, match="another process has been starting the server"):
        place.local(seconds=0.1).ensure()
    os.close(handle)
    assert place.local().ensure().status == "ok"


def test_the_start_log_is_rotated(place: UserHome) -> None:
    place.locations.prepare()
    log = place.local().log
    log.write_bytes(b"x" * (2 << 20))
    place.local().ensure()
    assert log.stat().st_size == 0
    assert log.with_suffix(".log.1").stat().st_size == 2 << 20


@pytest.mark.parametrize(
    ("version", "build"), [("0.0.9", "b1"), ("0.0.9rc1", "b1"), (__version__, "b0")], ids=["old", "rc", "build"]
)
def test_an_idle_server_with_older_code_is_replaced(place: UserHome, version: str, build: str) -> None:
    _started(place, FAKE_VERSION=version, FAKE_BUILD=build, FAKE_LINGER="1")
    health = place.local().ensure()
    assert (health.version, health.build) == (__version__, "b1")


def _started(place: UserHome, **env: str) -> None:
    """A server with other code, as another client had started it."""
    local = place.local(**env)
    local._is_outdated = lambda health: False  # type: ignore[method-assign]
    local.ensure()
    assert len(place.started) == 1


def test_a_busy_server_with_older_code_is_used_as_it_is(place: UserHome) -> None:
    _started(place, FAKE_VERSION="0.0.9", FAKE_BUSY="1")
    assert place.local().ensure().version == "0.0.9"
    assert len(place.started) == 1


@pytest.mark.parametrize(("version", "build"), [("99.0", "b0"), ("0.2.0rc1", "b0"), (__version__, "")])
def test_servers_with_newer_or_unknown_code_are_used(place: UserHome, version: str, build: str) -> None:
    _started(place, FAKE_VERSION=version, FAKE_BUILD=build)
    assert place.local().ensure().version == version
    assert len(place.started) == 1


def test_a_server_that_is_stopping_is_waited_for_and_replaced(place: UserHome) -> None:
    place.locations.prepare()
    asked: list[Request] = []

    def respond(request: Request) -> list[Piece]:
        asked.append(request)
        return answer({"status": "stopping", "version": __version__}, headers="Connection: close\r\n")

    with StubServer(respond, path=place.locations.socket):
        found: list[str] = []
        thread = threading.Thread(target=lambda: found.append(place.local().ensure().status))
        thread.start()
        _until(lambda: len(asked) >= 5)
        assert place.started == []
    thread.join()
    assert found == ["ok"]
    assert {request.method for request in asked} == {"GET"}


def test_an_unresponsive_server_is_reported_and_not_replaced(place: UserHome, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.client.local_server._PROBE_SECONDS", 0.05)
    place.locations.prepare()
    go_on = threading.Event()
    with StubServer(lambda request: [Wait(go_on)], path=place.locations.socket):
        with pytest.raises(NoAnswer, match=f"process {os.getpid()} listens at unix:"):
            place.local().ensure()
        go_on.set()
    assert place.started == []


def test_the_server_in_the_environment_is_used_as_it_is(place: UserHome) -> None:
    with StubServer(lambda request: error(503, "stopping")) as stub:
        env = {"HOLDFAST_SERVER": str(stub.address), "HOLDFAST_TOKEN": "t0ken"}
        with open_sync_client(env, name="test") as client:
            assert client.address == stub.address
            assert stub.requests == []
            with pytest.raises(Exception, match="no"):
                client.server()
    assert stub.requests[0].headers["authorization"] == "Bearer t0ken"
    with pytest.raises(ConfigError, match="HOLDFAST_SERVER must be"):
        open_sync_client({"HOLDFAST_SERVER": "localhost:80"}, name="test")


def test_a_token_that_cannot_be_sent_is_refused(place: UserHome) -> None:
    with pytest.raises(ConfigError, match="check HOLDFAST_TOKEN"):
        open_sync_client({"HOLDFAST_SERVER": "http://127.0.0.1:1", "HOLDFAST_TOKEN": "a\nb"}, name="test")


@pytest.fixture
def faked(place: UserHome, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[int]]:
    """`open_sync_client` and `open_async_client` start the fake server."""
    make = LocalServer.__init__

    def init(self: LocalServer, **options: object) -> None:
        command = (sys.executable, str(FAKE), str(place.locations.socket), str(place.notes))
        make(self, **(options | {"command": command, "build": "b1"}))  # type: ignore[arg-type]

    monkeypatch.setattr(LocalServer, "__init__", init)
    return lambda: place.started


async def test_both_clients_start_and_revive_the_local_server(place: UserHome, faked: Callable[[], list[int]]) -> None:
    env = {"HOLDFAST_HOME": str(place.locations.config_dir.parent), "HOLDFAST_TOKEN": "unused"}
    async with await open_async_client(env, name="test") as client:
        assert client.address == ServerAddress(path=str(place.locations.socket))
        assert (await client.health()).status == "ok"
        (pid,) = faked()
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        assert (await client.health()).status == "ok"
        assert len(faked()) == 2
    with await asyncio.to_thread(open_sync_client, env, name="test") as second:
        assert (await asyncio.to_thread(second.health)).status == "ok"
    assert len(faked()) == 2


def test_a_client_opened_without_start_starts_no_server(place: UserHome, faked: Callable[[], list[int]]) -> None:
    env = {"HOLDFAST_HOME": str(place.locations.config_dir.parent)}
    with open_sync_client(env, name="test", start=False) as client:
        assert client.address == ServerAddress(path=str(place.locations.socket))
    assert faked() == []


def test_a_source_tree_has_a_build_id_and_a_release_has_none(tmp_path: Path) -> None:
    tree = tmp_path / "src"
    (tree / "inner" / "__pycache__").mkdir(parents=True)
    (tree / "inner" / "module.py").write_text("a = 1")
    first = build_id(str(tree))
    (tree / "inner" / "__pycache__" / "module.py").write_text("cached")
    (tree / "notes.txt").write_text("no code")
    assert build_id(str(tree)) == first
    (tree / "inner" / "module.py").write_text("a = 2")
    os.utime(tree / "inner" / "module.py", ns=(1, 1))
    assert build_id(str(tree)) != first
    assert build_id("/usr/lib/python3/site-packages/holdfast") == ""


def _left_behind(path: Path) -> None:
    """A socket file without a listener."""
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))


def test_a_socket_that_accepts_connections_has_a_server(home: Path) -> None:
    with StubServer(lambda request: [], path=home / "s"):
        assert diagnose_socket(str(home / "s"), None) == "listens"


def test_a_leftover_socket_means_a_crash(home: Path) -> None:
    _left_behind(home / "s")
    ended = subprocess.Popen(["true"])
    ended.wait()
    assert not is_alive(ended.pid)
    assert diagnose_socket(str(home / "s"), ended.pid) == "died"
    assert diagnose_socket(str(home / "s"), None) == "died"


def test_a_process_that_is_still_stopping_is_waited_for(home: Path) -> None:
    path = home / "s"
    _left_behind(path)
    found: list[str] = []
    thread = threading.Thread(target=lambda: found.append(diagnose_socket(str(path), os.getpid())))
    thread.start()
    path.unlink()
    thread.join()
    assert found == ["stopped"]


@both
async def test_leave_stopped_does_not_start_a_stopped_server(place: UserHome, open_client: Open) -> None:
    await asyncio.to_thread(place.locations.prepare)
    local = place.local()
    with StubServer(lambda request: answer({"status": "ok", "version": "0"}), path=place.locations.socket) as stub:
        client = open_client(stub.address, revive=local.revive)
        assert (await client.health()).status == "ok"
    place.locations.socket.unlink()
    client.leave_stopped = True
    with pytest.raises(ServerStopping):
        await client.health()
    events = client.events()
    with pytest.raises(ServerStopping):
        await anext(events)
    await events.aclose()
    await client.aclose()
    assert place.started == []


@both
async def test_leave_stopped_starts_a_crashed_server_again(place: UserHome, open_client: Open) -> None:
    await asyncio.to_thread(place.locations.prepare)
    _left_behind(place.locations.socket)
    client = open_client(ServerAddress(path=str(place.locations.socket)), revive=place.local().revive)
    client.leave_stopped = True
    assert (await client.health()).status == "ok"
    await client.aclose()
    assert len(place.started) == 1


@both
async def test_a_client_knows_the_process_that_responded_last(home: Path, open_client: Open) -> None:
    asked: list[int | None] = []

    def revive(*, pid: int | None, leave_stopped: bool) -> None:
        asked.append(pid)
        raise ServerStopping("enough")

    with StubServer(one_after_another(answer({"status": "ok", "version": "0"})), path=home / "s") as stub:
        client = open_client(stub.address, revive=revive)
        await client.health()
    with pytest.raises(ServerStopping):
        await client.health()
    await client.aclose()
    assert asked == [os.getpid()]
