"""Rules for every test: no network, no blocking calls on the event loop, its own home, fixed signals and examples."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

from tests.support.blocking import no_blocking_on_the_loop
from tests.support.environment import isolated_environment, keep_compiled_code, leaks_into_tests
from tests.support.network import NetworkGuard
from tests.support.signals import define_signals
from tests.support.stress_plugin import StressPlugin

for _profile, _fixed in (("fixed", True), ("random", False)):
    hypothesis.settings.register_profile(
        _profile,
        deadline=None,
        suppress_health_check=[hypothesis.HealthCheck.too_slow],  # says how busy the machine is
        derandomize=_fixed,
        database=None,
        print_blob=True,
    )
hypothesis.settings.load_profile("fixed")

_guard = pytest.StashKey[NetworkGuard]()


def pytest_configure(config: pytest.Config) -> None:
    keep_compiled_code()
    define_signals()
    config.stash[_guard] = guard = NetworkGuard()
    guard.install()
    config.pluginmanager.register(StressPlugin(), "stress")


@pytest.fixture(scope="session", autouse=True)
def _no_blocking() -> Iterator[None]:
    with no_blocking_on_the_loop():
        yield


@pytest.fixture(autouse=True)
def network_guard(pytestconfig: pytest.Config) -> Iterator[NetworkGuard]:
    """Fail the test if it used the network, even if the code ignored the error."""
    guard = pytestconfig.stash[_guard]
    guard.take_uses()
    yield guard
    if uses := guard.take_uses():
        pytest.fail(f"the network was used: {', '.join(uses)}")


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A home directory for each test. Its path is short enough for a Unix socket below it."""
    directory = Path(tempfile.mkdtemp(prefix="hf-"))
    for name in [name for name in os.environ if leaks_into_tests(name)]:
        monkeypatch.delenv(name)
    for name, value in isolated_environment(directory).items():
        monkeypatch.setenv(name, value)
    yield directory
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture
def holdfast_home(home: Path) -> Path:
    """The `HOLDFAST_HOME` of this test; not created yet."""
    return home / "holdfast"


@pytest.fixture
def postgres_database() -> Iterator[str]:
    """The address of a PostgreSQL database with empty tables, on a server of this process of the tests."""
    from tests.support.postgres_cluster import shared_cluster

    cluster = shared_cluster()
    address = cluster.take_database()
    yield address
    cluster.give_back(address)
