"""What the server's process keeps from others of the same user."""

from __future__ import annotations

import sys

_PR_SET_DUMPABLE = 4


def hide_process() -> None:
    """On Linux, commands that run as the same user cannot read the server's memory and environment, where keys are
    (`W8`). It also leaves no core file."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
