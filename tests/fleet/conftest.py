"""The fleet's tests use the parts of the black-box suite: its provider and its players."""

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def pycache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Servers of these tests compile our code once."""
    return tmp_path_factory.mktemp("pycache")
