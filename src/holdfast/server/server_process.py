"""The process of a server: its limits and its heap, and its protection from other processes of the same user."""

from __future__ import annotations

import sys
from contextlib import suppress

from holdfast.files import initial_descriptor_limit

_PR_SET_DUMPABLE = 4
_PR_SET_CHILD_SUBREAPER = 36
_M_ARENA_MAX = -8


def hide_process() -> None:
    """On Linux, stop other processes of the same user from reading the memory and environment of this one (`W8`).

    Commands that the agent runs cannot read the provider keys in them. The process leaves no core file either.
    """
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def share_heap() -> None:
    """Have all threads allocate from one heap; the C library would give each its own, with its own unused rest.

    Python's own objects are not affected. What threads allocate at the same time besides, mostly in SQLite, is little.
    """
    if sys.platform == "linux":
        import ctypes

        with suppress(AttributeError):  # another C library
            ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1)


def raise_descriptor_limit() -> None:
    """Allow this process as many open files as the system permits it. Commands get the limit from before."""
    import resource

    initial_descriptor_limit()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):  # macOS refuses "unlimited"
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def adopt_orphans() -> None:
    """On Linux, become the parent of descendants that lose theirs, so that no command leaves the tree below (`W8`)."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
