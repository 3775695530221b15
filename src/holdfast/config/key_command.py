"""Run the command that prints a key. Imported when the first such key is needed, because it needs asyncio."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Mapping
from contextlib import suppress

from holdfast.errors import ModelAuth

_MAX_OUTPUT = 1 << 16
_GRACE_SECONDS = 0.5
"""Wait for output still in the pipe when the command has ended; a child process may keep the pipe open."""


class _Capture(asyncio.SubprocessProtocol):
    """Collects a process's output up to a limit."""

    def __init__(self) -> None:
        self.output = b""
        self.done = asyncio.Event()
        """The command has exited, or printed more than the limit."""
        self.exited = asyncio.Event()
        self.closed = asyncio.Event()

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        self.output += data[: _MAX_OUTPUT + 1 - len(self.output)]
        if len(self.output) > _MAX_OUTPUT:
            self.done.set()

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        self.closed.set()

    def process_exited(self) -> None:
        self.exited.set()
        self.done.set()


async def run_key_command(command: str, *, env: Mapping[str, str], timeout: float) -> str:
    """Return a shell command's output, bounded in time and size. The command has ended when this returns or raises."""
    transport, capture = await asyncio.get_running_loop().subprocess_exec(
        _Capture,
        *("/bin/sh", "-c", command),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env=dict(env),
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(timeout):
            await capture.done.wait()
        if capture.exited.is_set():
            await _output_complete(capture)
    except TimeoutError:
        raise ModelAuth(f"the key command {command!r} took longer than {timeout:g} s") from None
    finally:
        killed = not capture.exited.is_set()
        if killed:
            with suppress(ProcessLookupError, PermissionError):  # it ended just now
                os.killpg(transport.get_pid(), signal.SIGKILL)
            await capture.exited.wait()
        transport.close()
    if not killed and (status := transport.get_returncode()):
        raise ModelAuth(f"the key command {command!r} ended with status {status}; run it in a shell to see why")
    return capture.output.decode("utf-8", "replace")


async def _output_complete(capture: _Capture) -> None:
    try:
        async with asyncio.timeout(_GRACE_SECONDS):
            await capture.closed.wait()
    except TimeoutError:
        return
