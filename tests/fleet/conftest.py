"""The fleet's tests use the parts of the black-box suite: its provider and its players."""

from pathlib import Path

import pytest

from tests.support.compiled_code import compiled_code_directory


@pytest.fixture(scope="session")
def pycache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Servers of these tests compile our code once."""
    return compiled_code_directory(tmp_path_factory)
