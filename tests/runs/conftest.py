"""An engine on a real ledger for each test."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.house import House, opened


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    """An open workspace with one session, ``ses_1``."""
    async with opened(tmp_path / "holdfast.db") as house:
        await house.session()
        yield house
