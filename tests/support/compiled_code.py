"""Where servers with an environment of their own keep their compiled code."""

import os
from pathlib import Path

import pytest


def compiled_code_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One directory for the servers of all workers, so that they compile our code once."""
    own = tmp_path_factory.getbasetemp()
    shared = own.parent if "PYTEST_XDIST_WORKER" in os.environ else own
    directory = shared / "compiled"
    directory.mkdir(exist_ok=True)
    return directory
