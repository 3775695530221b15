"""A command with its output: what `bash` runs and what becomes a job."""

from __future__ import annotations

import asyncio

from holdfast.tools.process.command_process import CommandLauncher, CommandSpec, KillResult, RunningCommand
from holdfast.tools.process.output_capture import OutputCapture

_DRAIN_SECONDS = 0.3
_CHUNK = 1 << 16


class LiveCommand:
    """A running command whose output is captured. It has ended when its tree is gone and its output read."""

    def __init__(self, running: RunningCommand, capture: OutputCapture) -> None:
        self.capture = capture
        self.running = running
        self.timed_out = False
        self._ended = asyncio.create_task(self._follow(), name="output")
        self._timer: asyncio.Task[None] | None = None

    @classmethod
    async def start(cls, launcher: CommandLauncher, command: CommandSpec, capture: OutputCapture) -> LiveCommand:
        return cls(await launcher.start(command), capture)

    @property
    def has_ended(self) -> bool:
        return self._ended.done()

    async def wait_ended(self) -> None:
        """Until it has ended; a cancelled waiter stops nothing."""
        await asyncio.shield(self._ended)

    async def kill(self) -> KillResult:
        """End it; returns when it has ended."""
        await self.running.kill()
        await self.wait_ended()
        return self.running.death

    def kill_after(self, seconds: float) -> None:
        """Kill it when this time has passed, wherever it runs then."""
        self._timer = asyncio.create_task(self._expire(seconds), name="timeout")

    async def _expire(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        self.timed_out = True
        await self.running.kill()

    async def _follow(self) -> None:
        reading = asyncio.create_task(self._read(), name="read")
        await self.running.wait_gone()
        seen = -1
        for _ in range(3):  # somebody outside the tree may hold the pipe: it is not waited for once it is silent
            if reading.done() or seen == self.capture.size:
                break
            seen = self.capture.size
            await asyncio.wait((reading,), timeout=_DRAIN_SECONDS)
        self.running.stop_reading()
        reading.cancel()
        await asyncio.wait((reading,))
        await self.capture.feed(b"", final=True)
        if self._timer and not self.timed_out:
            self._timer.cancel()

    async def _read(self) -> None:
        while data := await self.running.output.read(_CHUNK):
            await self.capture.feed(data)
