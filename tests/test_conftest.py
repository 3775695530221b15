"""Each rule of tests/conftest.py is enforced."""

import asyncio
import itertools
import os
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import hypothesis
import hypothesis.strategies
import pytest
import uvloop
from blockbuster import BlockingError

import holdfast
from tests.support.environment import leaks_into_tests
from tests.support.network import NetworkGuard, NetworkUseError, is_local

_DOCUMENTATION_ADDRESS = "192.0.2.1"  # reserved for documentation


def _as_if_in_holdfast(source: str, **names: object) -> Callable[[], object]:
    """Return a function whose frame appears to be in the package."""
    filename = Path(holdfast.__file__).with_name("probe.py")
    scope = dict(names)
    exec(compile(f"def probe():\n    return {source}\n", filename, "exec"), scope)
    return scope["probe"]


def test_a_connection_to_another_machine_is_refused_and_recorded(network_guard: NetworkGuard) -> None:
    with socket.socket() as sock, pytest.raises(NetworkUseError, match="only connect to loopback"):
        sock.connect((_DOCUMENTATION_ADDRESS, 80))
    assert network_guard.take_uses() == [f"socket.connect {_DOCUMENTATION_ADDRESS!r}"]


def test_a_name_lookup_is_refused_and_recorded(network_guard: NetworkGuard) -> None:
    with pytest.raises(NetworkUseError):
        socket.getaddrinfo("host.example", 80)
    assert network_guard.take_uses() == ["socket.getaddrinfo 'host.example'"]


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_the_guard_works_on_both_event_loops(
    network_guard: NetworkGuard, new_loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    async def connect() -> None:
        await asyncio.get_running_loop().create_connection(asyncio.Protocol, _DOCUMENTATION_ADDRESS, 80)

    with asyncio.Runner(loop_factory=new_loop) as runner, pytest.raises(NetworkUseError):
        runner.run(connect())
    assert network_guard.take_uses()


def test_loopback_and_unix_sockets_are_allowed(home: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as sock:
        assert sock.getpeername() == server.getsockname()
    with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as sock:
        server.bind(str(home / "s"))
        server.listen()
        sock.connect(str(home / "s"))


@pytest.mark.parametrize(
    "host", [None, "", "localhost", "LOCALHOST", "127.0.0.1", "127.8.8.8", "::1", "::1%lo", b"::1"]
)
def test_hosts_that_are_local(host: object) -> None:
    assert is_local(host)


@pytest.mark.parametrize("host", ["192.0.2.1", "2001:db8::1", "host.example", "localhost.example", "127.0.0.1.example"])
def test_hosts_that_are_not_local(host: object) -> None:
    assert not is_local(host)


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("time.sleep(0)", {"time": time}),
        ("path.read_bytes()", {"path": Path(__file__)}),
        ("os.listdir()", {"os": os}),
    ],
)
async def test_a_blocking_call_of_holdfast_on_the_event_loop_fails(source: str, names: dict[str, object]) -> None:
    with pytest.raises(BlockingError):
        _as_if_in_holdfast(source, **names)()


async def test_sqlite_calls_fail_on_the_event_loop() -> None:
    with closing(sqlite3.connect(":memory:", check_same_thread=False)) as connection:
        probe = _as_if_in_holdfast("connection.execute('select 1').fetchone()", connection=connection)
        with pytest.raises(BlockingError):
            probe()
        assert await asyncio.to_thread(probe) == (1,)


async def test_tests_may_use_files_on_the_event_loop(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("text")
    assert (tmp_path / "file").read_text() == "text"


def test_tests_do_not_see_the_home_or_keys_of_the_user(home: Path, holdfast_home: Path) -> None:
    assert os.environ["HOLDFAST_HOME"] == str(holdfast_home)
    assert Path.home() == home
    assert not [name for name in os.environ if leaks_into_tests(name) and name != "HOLDFAST_HOME"]


@pytest.mark.parametrize(
    "name", ["ANTHROPIC_API_KEY", "openai_api_key", "HOLDFAST_TOKEN", "HOLDFAST_SERVER", "XDG_DATA_HOME", "https_proxy"]
)
def test_variables_that_are_removed(name: str) -> None:
    assert leaks_into_tests(name)


@pytest.mark.parametrize("name", ["PATH", "HOLDFAST_TEST_SERVER", "TMPDIR"])
def test_variables_that_are_kept(name: str) -> None:
    assert not leaks_into_tests(name)


def test_a_socket_path_below_the_home_fits_the_kernels_limit(holdfast_home: Path) -> None:
    assert len(str(holdfast_home / "run" / "holdfast.sock")) < 100


def test_property_tests_use_the_same_examples_each_time() -> None:
    if hypothesis.settings.get_current_profile_name() != "random":  # `make stress`
        assert (hypothesis.settings.default.derandomize, hypothesis.settings.default.database) == (True, None)


def test_children_start_with_default_signals(tmp_path: Path) -> None:
    """Also when the test run itself was started with ignored or blocked signals, as `make test &` in a script does."""
    (tmp_path / "probe.py").write_text(
        "import signal, subprocess, sys\n"
        "from tests.support.signals import define_signals\n"
        "define_signals()\n"
        "subprocess.run([sys.executable, '-c', sys.argv[1]], check=True)\n"
    )
    look = (
        "import signal\n"
        "print(signal.getsignal(signal.SIGINT) is signal.default_int_handler,"
        " [signal.getsignal(number).name for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGQUIT)],"
        " signal.pthread_sigmask(signal.SIG_BLOCK, ()))"
    )
    done = subprocess.run(
        ["bash", "-c", 'trap "" INT HUP TERM QUIT; exec "$0" "$@"', sys.executable, tmp_path / "probe.py", look],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    assert done.stdout == "True ['SIG_DFL', 'SIG_DFL', 'SIG_DFL'] set()\n"


@pytest.mark.parametrize("profile", ["fixed", "random"])
def test_a_property_test_does_not_fail_on_a_slow_machine(profile: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = itertools.count(step=1000)
    monkeypatch.setattr("hypothesis.internal.conjecture.data.time", SimpleNamespace(perf_counter=lambda: next(seconds)))

    @hypothesis.settings(hypothesis.settings.get_profile(profile), max_examples=20)
    @hypothesis.given(hypothesis.strategies.integers())
    def check(number: int) -> None:
        assert isinstance(number, int)

    check()
