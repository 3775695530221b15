"""Skip everything here without the real client. Each test has directories of its own."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from oracles.crush.crush_program import has_tmux


@pytest.fixture
def crush_binary() -> str:
    program = os.environ.get("HOLDFAST_CRUSH_BIN", "")
    if not program:
        pytest.skip("HOLDFAST_CRUSH_BIN is not set: it names the real client of Crush")
    if not has_tmux():
        pytest.skip("tmux is not installed")
    return program


@pytest.fixture
def place() -> Iterator[Path]:
    directory = Path(tempfile.mkdtemp(prefix="hfc-"))
    yield directory
    shutil.rmtree(directory, ignore_errors=True)
