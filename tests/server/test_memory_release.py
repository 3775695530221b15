"""Memory goes back to the system after large work, and only then."""

from __future__ import annotations

import subprocess
import sys

import pytest

from holdfast.server.memory_release import MemoryRelease, resident_bytes

MEGABYTE = 1 << 20


def test_it_is_released_when_the_process_has_grown_by_much() -> None:
    sizes = iter(size * MEGABYTE for size in (40, 50, 60, 90, 90, 45, 60, 90, 90, 45))
    released: list[None] = []
    memory = MemoryRelease(resident=lambda: next(sizes), release=lambda: released.append(None))
    assert [memory.check() for _ in range(8)] == [False, False, False, True, False, False, True, False]
    assert len(released) == 2


def test_memory_that_is_in_use_is_asked_for_less_and_less_often() -> None:
    sizes = iter([40 * MEGABYTE] + [200 * MEGABYTE] * 2000)
    memory = MemoryRelease(resident=lambda: next(sizes), release=lambda: None)
    done = [number for number in range(1200) if memory.check()]
    assert done[:5] == [1, 3, 6, 11, 20]
    assert done[-1] - done[-2] == 201


def test_it_is_released_again_at_once_when_the_memory_in_use_has_changed() -> None:
    sizes = iter(size * MEGABYTE for size in (40, 200, 200, 200, 400, 400, 400, 250, 250, 250, 45))
    memory = MemoryRelease(resident=lambda: next(sizes), release=lambda: None)
    assert [memory.check() for _ in range(8)] == [False, True, False, True, False, True, False, False]
    assert not memory.is_grown


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
