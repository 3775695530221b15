"""A part of the black-box suite, with three servers on one database and each request sent to one of them at random.

`make stress` runs the whole suite in this way.
"""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.e2e.conftest import join as join
from tests.e2e.provider import Provider
from tests.e2e.server import Server
from tests.e2e.test_1_cancel_by_another import (
    test_the_prompter_sees_a_cancelled_end_when_another_client_cancels as test_the_prompter_sees_a_cancelled_end,
)
from tests.e2e.test_9_approvals import *  # noqa: F403 - all of its tests
from tests.fleet.fleet_servers import serving_fleet

pytestmark = [pytest.mark.timeout(120), pytest.mark.promise("W16")]

__all__ = ["test_the_prompter_sees_a_cancelled_end"]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, pycache: Path) -> Iterator[Server]:
    with serving_fleet(tmp_path_factory.mktemp("fleet"), pycache=pycache, seed="black box") as servers:
        yield servers


@pytest.fixture
async def provider(server: Server) -> AsyncIterator[Provider]:
    provider = Provider()
    await provider.start(server.provider_port)
    yield provider
    await provider.stop()
