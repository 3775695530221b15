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
"""How much the process must have grown. Less is not worth the pause."""
_MOST_SKIPPED = 200


class MemoryRelease:
    """Call `check` from time to time. It blocks for some milliseconds if it has something to do."""

    def __init__(
        self, *, resident: Callable[[], int | None] | None = None, release: Callable[[], None] | None = None
    ) -> None:
        self._resident = resident or resident_bytes
        self._release = release or release_memory
        self._least: int | None = None
        self._skipped = 0
        """Checks that are left out, because the last release did not help: the memory is in use."""
        self._pause = 1
        self._left = 0
        """The memory after the last release."""
        self.is_grown = False
        """Whether there is something to give back, perhaps soon."""

    def check(self) -> bool:
        """Release memory if the process has grown by much. Returns whether it did."""
        resident = self._resident()
        if resident is None:
            return False
        self._least = least = resident if self._least is None else min(self._least, resident)
        self.is_grown = resident - least >= _GROWTH_BYTES
        if not self.is_grown:
            self._skipped, self._pause = 0, 1
            return False
        is_unchanged = abs(resident - self._left) < _GROWTH_BYTES
        if self._skipped and is_unchanged:
            self._skipped -= 1
            return False
        self._release()
        self._left = self._resident() or resident
        self._skipped, self._pause = self._pause, min(2 * self._pause, _MOST_SKIPPED)
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
