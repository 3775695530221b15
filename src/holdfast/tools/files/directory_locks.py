"""Taking turns among agents that write into the same directory, also those of another server. Blocking.

The lock is advisory and held for moments. Whoever does not get it in time, or works on a file system without such
locks, goes on without: correctness does not rest on it, only that two agents do not see each other's attempts.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

_PATIENCE = 2.0
_PAUSE = 0.002


@contextmanager
def directories_locked(directories: Iterable[Path], *, patience: float = _PATIENCE) -> Iterator[None]:
    """In one order for all, so that nobody waits in a circle."""
    deadline = time.monotonic() + patience
    with ExitStack() as held:
        for directory in sorted(set(directories)):
            descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            held.callback(os.close, descriptor)
            _lock(descriptor, deadline)
        yield


def _lock(descriptor: int, deadline: float) -> None:
    """Closing the descriptor lets it go."""
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                return
            time.sleep(_PAUSE)
        except OSError:  # this file system has no such locks
            return
        else:
            return
