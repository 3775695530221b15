"""Memory goes back to the system after large work, and only then."""

from __future__ import annotations

import subprocess
import sys

import pytest

from holdfast.server.memory_release import MemoryRelease, resident_bytes

MEGABYTE = 1 << 20


def test_it_is_released_once_when_the_process_has_grown_by_much() -> None:
    sizes = iter(
        size * MEGABYTE
        for size in (
            *(40, 50, 60),  # grows a little
            *(90, 45),  # grows by much: before and after the release
            *(60, 30, 45),  # a little again
            *(200, 200),  # the work still needs it
            *(205, 230, 230),
        )
    )
    released = 0

    def release() -> None:
        nonlocal released
        released += 1

    memory = MemoryRelease(resident=lambda: next(sizes), release=release)
    done = [memory.check() for _ in range(10)]
    assert done == [False, False, False, True, False, False, False, True, False, True]
    assert released == 3


def test_nothing_is_done_where_the_system_does_not_tell_the_size() -> None:
    memory = MemoryRelease(resident=lambda: None, release=lambda: pytest.fail("released"))
    assert not memory.check()


@pytest.mark.skipif(resident_bytes() is None, reason="needs /proc")
def test_a_process_gives_back_what_large_work_left() -> None:
    program = """
from holdfast.server.memory_release import MemoryRelease, resident_bytes
memory = MemoryRelease()
memory.check()
before = resident_bytes()
pieces = [number.to_bytes(4000, "big") for number in range(20_000)]
kept = pieces[::50]
pieces.append(pieces)
del pieces
grown = resident_bytes() - before
assert memory.check()
print(grown, resident_bytes() - before)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    grown, left = map(int, done.stdout.split())
    assert grown > 60 * MEGABYTE
    assert left < grown / 4
