"""One server for all tests of a module, because starting one takes longer than most tests."""

from collections.abc import Iterator

import pytest

from tests.cli.cli_shell import CliShell, open_shell


@pytest.fixture(scope="module")
def sh() -> Iterator[CliShell]:
    with open_shell() as made:
        yield made


@pytest.fixture(autouse=True)
def _no_process_left(request: pytest.FixtureRequest) -> Iterator[None]:
    made: CliShell | None = request.getfixturevalue("sh") if "sh" in request.fixturenames else None
    yield
    if made is not None:
        made.kill_left()
