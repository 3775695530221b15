"""Gives memory back to the system after large work, such as an answer of many megabytes.

Python frees it, but the allocator keeps what it may need again, and what is in reference cycles waits for a collection
that comes late in a process with few new objects.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

_GROWTH_BYTES = 24 << 20
"""How much the process must have grown since the last time. Less is not worth the pause."""


class MemoryRelease:
    """Call `check` from time to time. It blocks for some milliseconds if it has something to do."""

    def __init__(
        self, *, resident: Callable[[], int | None] | None = None, release: Callable[[], None] | None = None
    ) -> None:
        self._resident = resident or resident_bytes
        self._release = release or release_memory
        self._settled: int | None = None
        """The least size since the last release."""

    def check(self) -> bool:
        """Release memory if the process has grown by much. Returns whether it did."""
        resident = self._resident()
        if resident is None:
            return False
        if self._settled is None or resident < self._settled:
            self._settled = resident
        if resident - self._settled < _GROWTH_BYTES:
            return False
        self._release()
        self._settled = self._resident()
        return True


def resident_bytes() -> int | None:
    """The memory of this process; None where the system does not tell."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return None
    return pages * os.sysconf("SC_PAGE_SIZE")


def release_memory() -> None:
    import ctypes

    gc.collect()
    with suppress(OSError, AttributeError):  # only this C library has it
        ctypes.CDLL(None).malloc_trim(0)
