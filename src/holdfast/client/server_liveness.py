"""Whether a local server that nobody reaches any more was stopped or died.

One that stops takes its socket away when everything is kept; one that died leaves it behind.
"""

from __future__ import annotations

import os
import socket
import time
from pathlib import Path
from typing import Literal

_LOOK_SECONDS = 0.02
_STOP_SECONDS = 40.0


def what_became_of(path: str, pid: int | None) -> Literal["listens", "stopped", "died"]:
    """``pid``: the process that listened there. While it is about to stop, that is waited for. Blocks."""
    until = time.monotonic() + _STOP_SECONDS
    while os.path.exists(path):
        if _listens(path):
            return "listens"
        if pid is None or not is_alive(pid) or time.monotonic() >= until:
            return "died" if os.path.exists(path) else "stopped"
        time.sleep(_LOOK_SECONDS)
    return "stopped"


def is_alive(pid: int) -> bool:
    """A process that ended but that nobody collected yet (in a container, for example) does not count."""
    try:
        os.kill(pid, 0)
        state = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()[0]
    except (ProcessLookupError, PermissionError):
        return False
    except (OSError, IndexError):
        return True  # no such place on this platform
    return state != "Z"


def _listens(path: str) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(_LOOK_SECONDS)
        try:
            probe.connect(path)
        except (BlockingIOError, TimeoutError):
            return True  # it is merely busy
        except OSError:
            return False
    return True
