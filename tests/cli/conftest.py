"""One server for all tests of a module: starting one takes longer than most of them."""

from collections.abc import Iterator

import pytest

from tests.cli.shell import Shell, shell


@pytest.fixture(scope="module")
def sh() -> Iterator[Shell]:
    with shell() as made:
        yield made


@pytest.fixture(autouse=True)
def _no_process_left(request: pytest.FixtureRequest) -> Iterator[None]:
    made: Shell | None = request.getfixturevalue("sh") if "sh" in request.fixturenames else None
    yield
    if made is not None:
        made.kill_left()
