"""Start a server whose wall clock is wrong by the seconds in a file, which may change at any time.

Run with ``python -m holdfast.selftest.shifted_clock FILE serve``. The clock is replaced before anything else is
imported, and only in this process.
"""

from __future__ import annotations

import runpy
import sys
import time
from pathlib import Path


def shift_clock(file: Path) -> None:
    """Let `time.time` return the true time plus the number in the file."""
    true_time = time.time

    def shifted() -> float:
        try:
            return true_time() + float(file.read_text() or "0")
        except (OSError, ValueError):  # it is being written
            return true_time()

    time.time = shifted


if __name__ == "__main__":
    shift_clock(Path(sys.argv.pop(1)))
    runpy.run_module("holdfast", run_name="__main__")
