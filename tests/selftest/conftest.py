"""The checks of the self-test read and write small files of their own; nobody else uses their event loop."""

import pytest


@pytest.fixture(autouse=True)
def _no_blocking() -> None:
    """Replaces the rule for all other tests: a check may touch a file on its loop, as a test may."""
