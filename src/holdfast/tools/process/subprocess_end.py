"""The end of a process that asyncio started with a pipe and in a session of its own."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import suppress

_CHUNK = 1 << 16


async def kill_and_reap(process: asyncio.subprocess.Process) -> None:
    """Kill the processes of its session, and wait until it has ended.

    Its output is read to the end: `wait` returns when the pipe is closed, and a full pipe that nobody reads never is.
    """
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    if process.stdout is not None:
        while await process.stdout.read(_CHUNK):
            pass
    await process.wait()
