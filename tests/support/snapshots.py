"""Snapshots: texts that are kept in files, so that a review sees every change of what a model or a user reads."""

import os
from pathlib import Path

UPDATE_VARIABLE = "UPDATE_SNAPSHOTS"
"""Set it to write the files instead of comparing with them."""


def check_snapshot(path: Path, text: str) -> None:
    """Compare a text with the file that has the reviewed one."""
    if os.environ.get(UPDATE_VARIABLE):
        path.write_text(text, encoding="utf-8")
    kept = path.read_text(encoding="utf-8") if path.is_file() else ""
    assert text == kept, f"{path.name} has changed; run the test with {UPDATE_VARIABLE}=1 and review the difference"
