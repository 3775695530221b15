"""Runs the program of a hook under the supervisor: input on stdin, bounded output, a time limit, nothing left running.

A hook is over when its program exits. What it left running is ended then. A cancel ends it within
`tools.process.command_process.KILL_SECONDS`.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress

from holdfast.errors import ToolError
from holdfast.extend.hooks.hook_answers import ProcessResult
from holdfast.tasks import finish_despite_cancel
from holdfast.tools.process.command_process import CommandLauncher, CommandSpec, RunningCommand

MAX_OUTPUT = 1 << 20
"""Bytes of stdout and of stderr that are kept. The rest is read and dropped."""
_SETTLE_SECONDS = 0.3
"""How long processes that an exited program left may take to end by themselves."""
_CHUNK = 1 << 16


async def run_hook_command(
    launcher: CommandLauncher, command: CommandSpec, *, given: bytes, seconds: float
) -> ProcessResult:
    """Run a program to its end. Every way to fail is a result; only a cancel is raised, after the program is dead."""
    began = time.monotonic()
    assert command.piped
    try:
        running, cancelled = await finish_despite_cancel(launcher.start(command))
    except ToolError as error:
        return ProcessResult(problem=error.message, seconds=time.monotonic() - began)
    exchange = asyncio.create_task(_exchange(running, given), name=f"hook:{command.mark}")
    try:
        if cancelled:
            raise asyncio.CancelledError
        is_late = not await _wait_exited(running, seconds)
    except asyncio.CancelledError:
        await finish_despite_cancel(_end(running, exchange))
        raise
    (output, errors), cancelled = await finish_despite_cancel(_end(running, exchange))
    if cancelled:
        raise asyncio.CancelledError
    took = time.monotonic() - began
    if is_late:
        return ProcessResult(problem=f"it did not end within {seconds:g} s and was ended", seconds=took)
    problem = "" if running.exit_code is not None else "its end is not known"
    return ProcessResult(exit_code=running.exit_code, output=output, errors=errors, seconds=took, problem=problem)


async def _wait_exited(running: RunningCommand, seconds: float) -> bool:
    try:
        async with asyncio.timeout(seconds):
            await running.wait_exited()
    except TimeoutError:
        return False
    with suppress(TimeoutError):
        async with asyncio.timeout(_SETTLE_SECONDS):
            await running.wait_tree_ended()
    return True


async def _end(running: RunningCommand, exchange: asyncio.Task[tuple[bytes, bytes]]) -> tuple[bytes, bytes]:
    """Kill what is left, and return the output so far."""
    await running.kill()
    try:
        async with asyncio.timeout(_SETTLE_SECONDS):
            return await asyncio.shield(exchange)
    except TimeoutError:  # a process outside the tree holds the pipes
        exchange.cancel()
        with suppress(asyncio.CancelledError):
            await exchange
        return b"", b""
    finally:
        running.stop_reading()


async def _exchange(running: RunningCommand, given: bytes) -> tuple[bytes, bytes]:
    assert running.input is not None
    assert running.errors is not None
    feeding = asyncio.create_task(_feed(running.input, given), name="hook input")
    try:
        output, errors = await asyncio.gather(_read(running.output), _read(running.errors))
    finally:
        feeding.cancel()
        with suppress(asyncio.CancelledError):
            await feeding
    return output, errors


async def _feed(writer: asyncio.StreamWriter, given: bytes) -> None:
    """A program that does not read its input is no error."""
    with suppress(OSError):
        writer.write(given)
        await writer.drain()
        writer.close()


async def _read(reader: asyncio.StreamReader) -> bytes:
    kept = bytearray()
    while chunk := await reader.read(_CHUNK):
        kept += chunk[: MAX_OUTPUT - len(kept)]
    return bytes(kept)
