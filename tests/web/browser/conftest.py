"""One Chromium for all tests of a process."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio

if TYPE_CHECKING:
    from tests.web.browser.page_harness import OpenWeb

# The harness is imported in the fixtures: without Playwright it skips the module that imports it.


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Any]:
    from tests.web.browser.page_harness import launch

    async with launch(tmp_path_factory.mktemp("chromium")) as found:
        yield found


@pytest.fixture
def open_web(browser: Any, tmp_path: Path) -> OpenWeb:
    """``async with open_web(*answers) as web``: a server with these answers of the model."""
    from tests.web.browser.page_harness import open_web_at

    return partial(open_web_at, browser, tmp_path)
