"""An engine on a real database for each test."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.engine_harness import EngineHarness, open_harness


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[EngineHarness]:
    """An open workspace with one session, `ses_1`."""
    async with open_harness(tmp_path / "holdfast.db") as harness:
        await harness.session()
        yield harness
